"""One request of a user at the pages: whose it is, what pages are made of, how errors look."""

from __future__ import annotations

import secrets
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from ingress.browser import protection
from ingress.browser import visit as visits
from ingress.browser.site import Site
from ingress.commands.form_commands import in_words
from ingress.social.config import SocialConfig
from ingress.social.pages import rendering
from ingress.social.pages import session as sessions
from ingress.social.pages.session import Pages, Session
from ingress.social.users import Users
from schemas import errors
from schemas.social import limits

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import Request
    from starlette.responses import Response

    from ingress.http.problems import Row

SITE: Final = Site(
    home="/app",
    cookie=sessions.COOKIE,
    visitor="millrace_app_visitor",
    theme="millrace_app_theme",
    failed="app_page_failed",
    package="ingress.social.pages",
    file_headers=protection.headers("default-src 'none'") | {"Cache-Control": f"max-age={limits.APP_STATIC_KEPT_S}"},
    redirect_headers={"Cache-Control": "no-store"},
    form_bytes_max=limits.APP_FORM_BYTES_MAX,
    form_fields_max=limits.APP_FORM_FIELDS_MAX,
    back_follows=("/", "?", "#"),  # home itself is a list with posts in it
)
HOME: Final = SITE.home
SIGN_IN: Final = SITE.sign_in
_PART: Final = "x-part"  # a script of ours asks for a part of a page
_KEY_BYTES: Final = 16


class Visit(visits.Visit[Session]):
    """A request to the pages of users."""

    site = SITE
    signed_in = Pages

    @property
    def user(self) -> str:
        """The user who is signed in."""
        return self.who.user

    @property
    def is_part(self) -> bool:
        """Whether only a part of a page is asked for."""
        return _PART in self.request.headers

    @property
    def cursor(self) -> str | None:
        """Where a list goes on."""
        return self.request.query_params.get("cursor") or None

    def rendered(
        self, template: str, context: dict[str, Any], status: int, headers: Mapping[str, str] | None
    ) -> Response:
        """The template, with a key of what this page's forms do: pressed twice, it is done once."""
        frame = {"me": self.session.user if self.session else "", "key": secrets.token_hex(_KEY_BYTES)}
        return rendering.html(template, frame | context, self.part(SocialConfig).media, status, headers)

    def error_page(self, error: errors.PlatformError, row: Row, headers: Mapping[str, str]) -> Response:
        """What is wrong, in words."""
        said = in_words(error.errors) if isinstance(error, errors.InvalidCommand) else error.public
        return self.page("error.html", row.status, headers, said=said, status=row.status)

    async def opened(self, session: Session) -> None:
        """Raises Gone for a user who is erased."""
        await self.part(Users).present(session.caller())

    @classmethod
    async def to_sign_in(cls, request: Request, error: errors.Unauthenticated) -> Response:
        """A script hears that nobody is signed in, and shows no other page in a part's place."""
        return await (cls.failed(request, error) if _PART in request.headers else super().to_sign_in(request, error))


inside: Final = SITE.inside
go: Final = SITE.go
router: Final = partial(visits.router, Visit)


async def signed_in(request: Request) -> Visit:
    """The visit of a user. Raises Unauthenticated without a session, Gone once the user is erased."""
    found = await Visit.of_person(request)
    await found.part(Users).present(found.who.caller())
    return found
