"""The parts of one ingress process, by type: a route asks for the part that it needs, and knows no other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from starlette.requests import Request

Part = TypeVar("Part")


class Parts:
    """One part of each type. Made once, at the start of the process."""

    def __init__(self) -> None:
        self._parts: dict[type[Any], Any] = {}

    def add(self, part: Part) -> Part:
        """Keeps the part, and gives it back. Raises ValueError for a second one of its type."""
        if type(part) in self._parts:
            raise ValueError(f"there is a {type(part).__name__} already")
        self._parts[type(part)] = part
        return part

    def get(self, kind: type[Part]) -> Part:
        """The part of this very type. Raises KeyError when the process has none."""
        found: Part = self._parts[kind]
        return found


def parts_of(request: Request) -> Parts:
    """The parts of the process that a request came to."""
    found: Parts = request.app.state.parts  # set once by the application factory
    return found
