"""One request of somebody at the console: who it is, whether the form is ours, what is audited, how errors look.

Every page that shows something of the business is read through ``reading_of``, every decision goes through
``deciding``: both write the audit log before the answer leaves, refusals included.
"""

from __future__ import annotations

import secrets
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import structlog
from fastapi import APIRouter
from fastapi.routing import APIRoute
from starlette.responses import RedirectResponse, Response

from ingress import limits
from ingress.browser import protection
from ingress.console import pages
from ingress.console import session as sessions
from ingress.console.state import Console
from ingress.http import problems
from ingress.http.parts import parts_of
from ingress.identity.roles import scopes_for
from ingress.operators.audit import Audit
from schemas import errors, validation

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Mapping

    from starlette.requests import Request

    from ingress.console.session import Session

HOME: Final = "/console"
SIGN_IN: Final = "/console/sign-in"
THEME: Final = "millrace_theme"
THEMES: Final = ("light", "dark")
_VISITOR_BYTES: Final = 16


class Visit:
    """A request, its session if there is one, and the pages it is answered with."""

    def __init__(self, request: Request, session: Session | None) -> None:
        self.request = request
        self.session = session
        self._visitor = request.cookies.get(sessions.VISITOR) or secrets.token_hex(_VISITOR_BYTES)

    @property
    def console(self) -> Console:
        """The console's parts of this process."""
        return parts_of(self.request).get(Console)

    @property
    def who(self) -> Session:
        """Who is signed in. Raises Unauthenticated when nobody is."""
        if self.session is None:
            raise errors.Unauthenticated("Sign in to go on.")
        return self.session

    @property
    def is_part(self) -> bool:
        """Whether only a part of a page is asked for."""
        return self.request.headers.get("hx-request") == "true" and "hx-boosted" not in self.request.headers

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
            "form_token": self.console.sessions.form_token(self._holder),
            "theme": theme if theme in THEMES else "",
            "here": self.request.url.path,
            "q": "",
            **self.console.frame(self.session, parts_of(self.request)),
        }
        response = self.console.templates.html(template, context | found, status, headers)
        if self.session is not None and (renewed := self.console.sessions.renewed(self.session)) is not None:
            self.keep(response, sessions.COOKIE, self.console.sessions.cookie(renewed))
        if self.session is None and sessions.VISITOR not in self.request.cookies:
            self.keep(response, sessions.VISITOR, self._visitor)
        return response

    def keep(self, response: Response, name: str, value: str, seconds: int | None = None) -> None:
        """Sets a cookie that no script reads and no other site sends."""
        protection.keep(self.request, response, name, value, HOME, seconds)

    async def form(self) -> dict[str, str]:
        """The fields of a form that this person's page made. Raises Forbidden for any other, MalformedRequest."""
        found = await protection.form(self.request, limits.CONSOLE_FORM_BYTES_MAX, limits.CONSOLE_FORM_FIELDS_MAX)
        self.console.sessions.require_form_token(self._holder, found.pop(protection.FORM_TOKEN, ""))
        return found


async def visit(request: Request) -> Visit:
    """The visit of whoever asks, signed in or not."""
    console = parts_of(request).get(Console)
    try:
        return Visit(request, await console.session(request.cookies.get(sessions.COOKIE)))
    except errors.Unauthenticated:
        return Visit(request, None)


@asynccontextmanager
async def reading_of(request: Request, action: str, name: str) -> AsyncIterator[Visit]:
    """A visit that reads; audited as ``console.<action>``. Raises Unauthenticated without a session."""
    found = await _signed_in(request)
    audit = parts_of(request).get(Audit)
    details = {"query": validation.visible(request.url.query)}
    async with audit.privileged(found.who.caller(), sessions.SCOPES, f"console.{action}", name, details):
        yield found


@asynccontextmanager
async def deciding(request: Request, action: str, name: str) -> AsyncIterator[tuple[Visit, dict[str, str]]]:
    """A visit that decides, with the fields of its form. What is done, the decision's own transaction audits.

    Raises Unauthenticated without a session, Forbidden for an operator who may not, and with a form that is not ours.
    """
    found = await _signed_in(request)
    audit = parts_of(request).get(Audit)
    async with audit.privileged(found.who.caller(), scopes_for(action), action, name, {}, audits_itself=True):
        yield found, await found.form()


async def _signed_in(request: Request) -> Visit:
    console = parts_of(request).get(Console)
    return Visit(request, await console.session(request.cookies.get(sessions.COOKIE)))


def router() -> APIRouter:
    """A router of pages: under the console's path, and in no published document."""
    return APIRouter(prefix=HOME, route_class=ConsoleRoute, include_in_schema=False)


class ConsoleRoute(APIRoute):
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
    if request.url.path == SIGN_IN:
        return await error_page(request, error)
    back = request.url.path if request.method == "GET" else HOME
    target = f"{SIGN_IN}?next={quote(back)}"
    if request.headers.get("hx-request") == "true":
        return Response(status_code=401, headers=pages.HEADERS | {"HX-Redirect": target})
    return RedirectResponse(target, 303, pages.HEADERS)


async def error_page(request: Request, error: errors.PlatformError) -> Response:
    """What is wrong, in words, with the status of its code."""
    row = problems.row(error.code)
    if not isinstance(error, errors.Rejected):
        structlog.get_logger().warning("console_page_failed", code=error.code, **error.context)
    try:
        found = await visit(request)
    except errors.Unavailable:  # the database is out: the page says so without asking it again
        found = Visit(request, None)
    wrong = error.errors if isinstance(error, errors.InvalidCommand) else []
    headers = {"Retry-After": str(limits.RETRY_AFTER_S)} if row.retry else {}
    template = "part_error.html" if found.is_part else "error.html"
    return found.page(template, row.status, headers, error=error, title=row.title, status=row.status, wrong=wrong)
