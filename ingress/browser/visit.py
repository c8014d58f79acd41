"""One request of somebody at pages of any kind: who it is, whether the form is ours, what becomes of errors."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic

import structlog
from fastapi import APIRouter
from fastapi.routing import APIRoute

from ingress import limits
from ingress.browser import protection
from ingress.browser.session import Person
from ingress.browser.site import THEMES
from ingress.http import problems
from ingress.http.parts import parts_of
from schemas import errors

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping
    from typing import Self

    from starlette.requests import Request
    from starlette.responses import Response

    from ingress.browser.session import SignedIn
    from ingress.browser.site import Site
    from ingress.http.parts import Part
    from ingress.http.problems import Row
    from ingress.identity.caller import Caller

_VISITOR_BYTES: Final = 16


class Visit(Generic[Person]):
    """A request, its session if there is one, and the pages it is answered with."""

    site: ClassVar[Site]
    signed_in: ClassVar[type[SignedIn[Any]]]  # the part that knows the sessions of these pages

    def __init__(self, request: Request, session: Person | None) -> None:
        self.request = request
        self.session = session
        self._visitor = request.cookies.get(self.site.visitor) or secrets.token_hex(_VISITOR_BYTES)

    @classmethod
    async def of(cls, request: Request) -> Self:
        """The visit of whoever asks, signed in or not."""
        try:
            return await cls.of_person(request)
        except errors.Unauthenticated:
            return cls(request, None)

    @classmethod
    async def of_person(cls, request: Request) -> Self:
        """The visit of who is signed in. Raises Unauthenticated without a session."""
        signed_in = parts_of(request).get(cls.signed_in)
        return cls(request, await signed_in.session(request.cookies.get(cls.site.cookie)))

    def part(self, kind: type[Part]) -> Part:
        """A part of this process."""
        return parts_of(self.request).get(kind)

    @property
    def known(self) -> SignedIn[Any]:
        """Who is signed in at this process."""
        return self.part(self.signed_in)

    @property
    def who(self) -> Person:
        """Who is signed in. Raises Unauthenticated when nobody is."""
        if self.session is None:
            raise errors.Unauthenticated("Sign in to go on.")
        return self.session

    @property
    def _holder(self) -> str:
        return self.session.id if self.session else f"visitor\x1f{self._visitor}"

    def page(
        self, template: str, status: int = 200, headers: Mapping[str, str] | None = None, /, **found: Any
    ) -> Response:
        """A page for this person in this theme."""
        theme = self.request.cookies.get(self.site.theme)
        context = {
            "site": self.site,
            "session": self.session,
            "form_token": self.known.sessions.form_token(self._holder),
            "theme": theme if theme in THEMES else "",
            "here": self.request.url.path,
            "q": "",
        }
        response = self.rendered(template, context | found, status, headers)
        if self.session is None and self.site.visitor not in self.request.cookies:
            self.keep(response, self.site.visitor, self._visitor)
        return response

    def rendered(
        self, template: str, context: dict[str, Any], status: int, headers: Mapping[str, str] | None
    ) -> Response:
        """The template, with what the layout of these pages says besides."""
        raise NotImplementedError

    def error_page(self, error: errors.PlatformError, row: Row, headers: Mapping[str, str]) -> Response:
        """What is wrong, in words, with the status of its row."""
        raise NotImplementedError

    def keep(self, response: Response, name: str, value: str, seconds: int | None = None) -> None:
        """Sets a cookie that no script reads and no other site sends."""
        protection.keep(self.request, response, name, value, self.site.home, seconds)

    async def form(self) -> dict[str, str]:
        """The fields of a form that this person's page made. Raises Forbidden for any other, MalformedRequest."""
        found = await protection.form(self.request, self.site.form_bytes_max, self.site.form_fields_max)
        self.known.sessions.require_form_token(self._holder, found.pop(protection.FORM_TOKEN, ""))
        return found

    async def opened(self, session: Person) -> None:
        """What else is done before its holder has the cookie; where this raises, nobody gets one."""

    async def refused(self, caller: Caller | None, error: errors.Rejected) -> None:
        """What else is done before a caller hears that it is not let in; None is one whose token proves nothing."""

    async def ended(self, session: Person) -> None:
        """What else is done before its holder hears that it is signed out."""

    @classmethod
    async def to_sign_in(cls, request: Request, error: errors.Unauthenticated) -> Response:
        """Sends to the sign-in, and from there back; who is refused there hears why."""
        if request.url.path == cls.site.sign_in:
            return await cls.failed(request, error)
        return cls.site.go(cls.site.sign_in_for(request))

    @classmethod
    async def failed(cls, request: Request, error: errors.PlatformError) -> Response:
        """The page of an error."""
        row = problems.row(error.code)
        if not isinstance(error, errors.Rejected):
            structlog.get_logger().warning(cls.site.failed, code=error.code, **error.context)
        try:
            found = await cls.of(request)
        except errors.Unavailable:  # the database is out: the page says so without asking it again
            found = cls(request, None)
        return found.error_page(error, row, {"Retry-After": str(limits.RETRY_AFTER_S)} if row.retry else {})


def router(visits: type[Visit[Any]]) -> APIRouter:
    """A router of pages: under their home, in no published document. Its errors are pages, too."""

    class Route(APIRoute):
        """Answers who has no session with the sign-in, else says what is wrong and what to do."""

        def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
            answer = super().get_route_handler()

            async def handler(request: Request) -> Response:
                try:
                    return await answer(request)
                except errors.Unauthenticated as error:
                    return await visits.to_sign_in(request, error)
                except errors.PlatformError as error:
                    return await visits.failed(request, error)

            return handler

    return APIRouter(prefix=visits.site.home, route_class=Route, include_in_schema=False)
