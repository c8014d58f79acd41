"""Finds the routes that a path belongs to, without trying each of them.

Starlette and FastAPI try one after the other. For a path or a method that none of our 340 takes this was more than
a millisecond of processor time, six times a refused token: and nobody needs a token to ask for what is not there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from starlette.convertors import PathConvertor
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute, Match, Route

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from starlette.types import Receive, Scope, Send

_NOT_FOUND: Final = 404
_METHOD_NOT_ALLOWED: Final = 405
_SERVING: Final = "millrace.serving"


class KnownPaths:
    """Routes by the paths that they take: those of a path are found as if each of them were tried, in their order.

    Routes are told apart by how many segments their templates have and by those that are no ids. What is left is
    tried by its own expression.
    """

    def __init__(self, routes: Iterable[BaseRoute]) -> None:
        """Raises TypeError for what has no path of its own, such as a mounted application."""
        self._anywhere: list[tuple[int, Route]] = []  # an id of these may have slashes
        self._by_shape: dict[int, dict[tuple[int, ...], dict[tuple[str, ...], list[tuple[int, Route]]]]] = {}
        for place, route in enumerate(routes):
            if not isinstance(route, Route):
                raise TypeError(f"{type(route).__name__} is no route.")
            self._shelf(route).append((place, route))

    def _shelf(self, route: Route) -> list[tuple[int, Route]]:
        if any(isinstance(convertor, PathConvertor) for convertor in route.param_convertors.values()):
            return self._anywhere
        segments = route.path_format.split("/")
        fixed = tuple(n for n, segment in enumerate(segments) if "{" not in segment)
        by_words = self._by_shape.setdefault(len(segments), {}).setdefault(fixed, {})
        return by_words.setdefault(tuple(segments[n] for n in fixed), [])

    def of(self, path: str) -> list[Route]:
        """The routes whose path this is, whatever their methods, in the order in which they were given."""
        segments = path.removesuffix("\n").split("/")  # a template's end stands before the newline, too
        found = self._anywhere.copy()
        for fixed, by_words in self._by_shape.get(len(segments), {}).items():
            found += by_words.get(tuple([segments[n] for n in fixed]), ())
        found.sort(key=_place)
        return [route for _, route in found if route.path_regex.match(path)]

    def methods(self, path: str) -> list[str]:
        """What may be asked for there, sorted; HEAD wherever GET is. None where nothing is."""
        methods = {method for route in self.of(path) for method in route.methods or ()}
        return sorted(methods | {"HEAD"} if "GET" in methods else methods)


class KnownOrRefused(BaseRoute):
    """Stands before all routes: leads to the one that answers, and refuses at once what none of them does."""

    def __init__(self, served: Sequence[tuple[BaseRoute, BaseRoute]]) -> None:
        """Each route with what serves it: itself, or the router that includes it."""
        self._known = KnownPaths(route for route, _ in served)
        self._serving = {id(route): serving for route, serving in served}  # a route has no hash

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """As what serves the path would say; in full for what nothing serves."""
        if scope["type"] != "http":
            return Match.NONE, {}
        method, routes = scope["method"], self._known.of(scope["path"])
        for route in routes:
            if not route.methods or method in route.methods:
                serving = self._serving[id(route)]
                match, child_scope = serving.matches(scope)
                return match, {**child_scope, _SERVING: serving}
        return Match.FULL, {_SERVING: _METHOD_NOT_ALLOWED if routes else _NOT_FOUND}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """By what was found. Raises HTTPException when nothing was, without saying what may be asked for there."""
        serving = scope[_SERVING]
        if isinstance(serving, int):
            raise HTTPException(serving)
        await serving.handle(scope, receive, send)


def _place(found: tuple[int, Route]) -> int:
    return found[0]
