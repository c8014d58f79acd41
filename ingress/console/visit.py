"""One request of somebody at the console: what is audited, what scripts are told, how errors look.

Every page that shows something of the business is read through ``reading_of``, every decision goes through
``deciding``: both write the audit log before the answer leaves, refusals included.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from starlette.responses import Response

from ingress import limits
from ingress.browser import visit as visits
from ingress.browser.site import Site
from ingress.console import pages
from ingress.console import session as sessions
from ingress.console.session import Session
from ingress.console.state import Console
from ingress.http.parts import parts_of
from ingress.identity.caller import Caller
from ingress.identity.roles import scopes_for
from ingress.operators.audit import Audit
from schemas import errors
from schemas.fields import validation

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from starlette.requests import Request

    from ingress.http.problems import Row

SITE: Final = Site(
    home="/console",
    cookie=sessions.COOKIE,
    visitor="millrace_visitor",
    theme="millrace_theme",
    failed="console_page_failed",
    package="ingress.console",
    file_headers=pages.HEADERS | {"Cache-Control": f"max-age={limits.CONSOLE_STATIC_KEPT_S}"},
    redirect_headers=pages.HEADERS,
    form_bytes_max=limits.CONSOLE_FORM_BYTES_MAX,
    form_fields_max=limits.CONSOLE_FORM_FIELDS_MAX,
)
HOME: Final = SITE.home
#: fields of forms in which somebody says something in his own words, at some length
_WORDS: Final = ("reason", "note", "findings")
_STRANGER: Final = Caller(principal="", subject="console:stranger", scopes=frozenset(), expires_at=0)


class Visit(visits.Visit[Session]):
    """A request to the console. Sign-ins, refused ones too, and sign-outs are audited before anybody hears of them."""

    site = SITE
    signed_in = Console

    @property
    def console(self) -> Console:
        """The console's parts of this process."""
        return self.part(Console)

    @property
    def is_part(self) -> bool:
        """Whether only a part of a page is asked for."""
        return self.request.headers.get("hx-request") == "true" and "hx-boosted" not in self.request.headers

    def rendered(
        self, template: str, context: dict[str, Any], status: int, headers: Mapping[str, str] | None
    ) -> Response:
        """The template, in the console's frame; a session lives on while pages are asked for."""
        frame = self.console.frame(self.session, parts_of(self.request))
        response = self.console.templates.html(template, frame | context, status, headers)
        if self.session is not None and (renewed := self.console.sessions.renewed(self.session)) is not None:
            self.keep(response, sessions.COOKIE, self.console.sessions.cookie(renewed))
        return response

    async def form(self) -> dict[str, str]:
        """As of every site; what its person wrote is on the page of an error, too."""
        found = await super().form()
        self.request.state.written = [said for name in _WORDS if (said := found.get(name, "").strip())]
        return found

    def error_page(self, error: errors.PlatformError, row: Row, headers: Mapping[str, str]) -> Response:
        """What is wrong, in words; of a part of a page a part. Words that a refused form had are not lost."""
        told = {
            "error": error,
            "title": row.title,
            "status": row.status,
            "wrong": error.errors if isinstance(error, errors.InvalidCommand) else [],
            "written": getattr(self.request.state, "written", []),
        }
        return self.page("part_error.html" if self.is_part else "error.html", row.status, headers, **told)

    async def opened(self, session: Session) -> None:
        """Audited."""
        await self._audit(session.caller(), "sign_in", "done", {"session": session.id})

    async def refused(self, caller: Caller | None, error: errors.Rejected) -> None:
        """Audited, unless there were too many lately: then QuotaExceeded is raised."""
        self.console.sign_in_refused()
        await self._audit(caller or _STRANGER, "sign_in", "refused", {"code": error.code})

    async def ended(self, session: Session) -> None:
        """Audited."""
        await self._audit(session.caller(), "sign_out", "done", {"session": session.id})

    async def _audit(self, caller: Caller, action: str, outcome: str, details: dict[str, str]) -> None:
        await self.part(Audit).append(caller, f"console.{action}", "console", outcome, details)

    @classmethod
    async def to_sign_in(cls, request: Request, error: errors.Unauthenticated) -> Response:
        """A script is told to go there: a part of a page has no place for another page."""
        if request.headers.get("hx-request") == "true" and request.url.path != SITE.sign_in:
            return Response(status_code=401, headers=pages.HEADERS | {"HX-Redirect": SITE.sign_in_for(request)})
        return await super().to_sign_in(request, error)


visit: Final = Visit.of
inside: Final = SITE.inside
go: Final = SITE.go
router: Final = partial(visits.router, Visit)


@asynccontextmanager
async def reading_of(request: Request, action: str, name: str) -> AsyncIterator[Visit]:
    """A visit that reads; audited as ``console.<action>``. Raises Unauthenticated without a session."""
    found = await Visit.of_person(request)
    audit = parts_of(request).get(Audit)
    details = {"query": validation.visible(request.url.query)}
    async with audit.privileged(found.who.caller(), sessions.SCOPES, f"console.{action}", name, details):
        yield found


@asynccontextmanager
async def deciding(request: Request, action: str, name: str) -> AsyncIterator[tuple[Visit, dict[str, str]]]:
    """A visit that decides, with the fields of its form. What is done, the decision's own transaction audits.

    Raises Unauthenticated without a session, Forbidden for an operator who may not, and with a form that is not ours.
    """
    found = await Visit.of_person(request)
    audit = parts_of(request).get(Audit)
    async with audit.privileged(found.who.caller(), scopes_for(action), action, name, {}, audits_itself=True):
        yield found, await found.form()
