"""One request of somebody at the pages: who it is, whether the form is ours, how errors look."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import structlog
from fastapi import APIRouter
from fastapi.routing import APIRoute
from starlette.responses import RedirectResponse, Response

from ingress import limits as ingress_limits
from ingress.browser import protection
from ingress.commands.form_commands import in_words
from ingress.http import problems
from ingress.http.parts import parts_of
from ingress.social.config import SocialConfig
from ingress.social.pages import rendering
from ingress.social.pages import session as sessions
from ingress.social.pages.state import Pages
from ingress.social.users import Users
from schemas import errors
from schemas.social import limits as social_limits

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

    from starlette.requests import Request

    from ingress.http.parts import Part
    from ingress.social.pages.session import Session

HOME: Final = "/app"
SIGN_IN: Final = "/app/sign-in"
THEME: Final = "millrace_app_theme"
THEMES: Final = ("light", "dark")
PART: Final = "x-part"  # a script of ours asks for a part of a page
_BYTES: Final = 16


class Visit:
    """A request, its session if there is one, and the pages it is answered with."""

    def __init__(self, request: Request, session: Session | None) -> None:
        self.request = request
        self.session = session
        self._visitor = request.cookies.get(sessions.VISITOR) or secrets.token_hex(_BYTES)

    def part(self, kind: type[Part]) -> Part:
        """A part of this process."""
        return parts_of(self.request).get(kind)

    @property
    def pages(self) -> Pages:
        """Who is signed in."""
        return self.part(Pages)

    @property
    def who(self) -> Session:
        """Who is signed in. Raises Unauthenticated when nobody is."""
        if self.session is None:
            raise errors.Unauthenticated("Sign in to go on.")
        return self.session

    @property
    def user(self) -> str:
        """The user who is signed in."""
        return self.who.user

    @property
    def is_part(self) -> bool:
        """Whether only a part of a page is asked for."""
        return PART in self.request.headers

    @property
    def cursor(self) -> str | None:
        """Where a list goes on."""
        return self.request.query_params.get("cursor") or None

    @property
    def _holder(self) -> str:
        return self.session.id if self.session else f"visitor\x1f{self._visitor}"

    def page(
        self, template: str, status: int = 200, headers: Mapping[str, str] | None = None, /, **found: Any
    ) -> Response:
        """A page for this person in this theme."""
        theme = self.request.cookies.get(THEME)
        context = {
            "session": self.session,
            "me": self.session.user if self.session else "",
            "form_token": self.pages.sessions.form_tokens.of(self._holder),
            "key": secrets.token_hex(_BYTES),  # of what this page's forms do: pressed twice, it is done once
            "theme": theme if theme in THEMES else "",
            "here": self.request.url.path,
            "q": "",
        }
        response = rendering.html(template, context | found, self.part(SocialConfig).media.url, status, headers)
        if self.session is None and sessions.VISITOR not in self.request.cookies:
            self.keep(response, sessions.VISITOR, self._visitor)
        return response

    def keep(self, response: Response, name: str, value: str, seconds: int | None = None) -> None:
        """Sets a cookie that no script reads and no other site sends."""
        protection.keep(self.request, response, name, value, HOME, seconds)

    async def form(self) -> dict[str, str]:
        """The fields of a form that this person's page made. Raises Forbidden for any other, MalformedRequest."""
        found = await protection.form(self.request, social_limits.APP_FORM_BYTES_MAX, social_limits.APP_FORM_FIELDS_MAX)
        self.pages.sessions.form_tokens.require(self._holder, found.pop(protection.FORM_TOKEN, ""))
        return found


async def visit(request: Request) -> Visit:
    """The visit of whoever asks, signed in or not."""
    try:
        return Visit(request, await parts_of(request).get(Pages).session(request.cookies.get(sessions.COOKIE)))
    except errors.Unauthenticated:
        return Visit(request, None)


async def signed_in(request: Request) -> Visit:
    """The visit of a user. Raises Unauthenticated without a session, Gone once the user is erased."""
    parts = parts_of(request)
    session = await parts.get(Pages).session(request.cookies.get(sessions.COOKIE))
    await parts.get(Users).present(session.caller())
    return Visit(request, session)


def inside(target: str | None) -> str:
    """A path of these pages, never an address elsewhere."""
    is_inside = target is not None and (target == HOME or target.startswith((f"{HOME}/", f"{HOME}?", f"{HOME}#")))
    return target if is_inside and target and target.isprintable() and "\\" not in target else HOME


def go(target: str) -> Response:
    """The browser goes on there, and asks anew."""
    return RedirectResponse(target, 303, {"Cache-Control": "no-store"})


def router() -> APIRouter:
    """A router of pages: in no published document."""
    return APIRouter(prefix=HOME, route_class=PageRoute, include_in_schema=False)


class PageRoute(APIRoute):
    """A route whose errors are pages: a sign-in for who has no session, else what is wrong and what to do."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """As FastAPI asks for it."""
        answer = super().get_route_handler()

        async def handler(request: Request) -> Response:
            try:
                return await answer(request)
            except errors.Unauthenticated as error:
                return await _to_sign_in(request, error)
            except errors.PlatformError as error:
                return await error_page(request, error)

        return handler


async def _to_sign_in(request: Request, error: errors.Unauthenticated) -> Response:
    if PART in request.headers or request.url.path == SIGN_IN:
        return await error_page(request, error)
    back = request.url.path if request.method == "GET" else HOME
    return go(f"{SIGN_IN}?next={quote(back)}")


async def error_page(request: Request, error: errors.PlatformError) -> Response:
    """What is wrong, in words, with the status of its code."""
    row = problems.row(error.code)
    if not isinstance(error, errors.Rejected):
        structlog.get_logger().warning("app_page_failed", code=error.code, **error.context)
    try:
        found = await visit(request)
    except errors.Unavailable:  # the database is out: the page says so without asking it again
        found = Visit(request, None)
    said = in_words(error.errors) if isinstance(error, errors.InvalidCommand) else error.public
    headers = {"Retry-After": str(ingress_limits.RETRY_AFTER_S)} if row.retry else {}
    return found.page("error.html", row.status, headers, said=said, status=row.status)
