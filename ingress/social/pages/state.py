"""What the pages keep in one ingress process: who is signed in. Everything else they ask of the API's own parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.requests import cookie_parser

from ingress.browser.signed_in import SignedIn
from ingress.social.pages.session import COOKIE, Session, Sessions
from schemas import errors

if TYPE_CHECKING:
    from starlette.datastructures import Headers

    from ingress.http.store import Store
    from ingress.identity.caller import Caller
    from ingress.identity.denials import Denials
    from sinks.kept_secrets import Secrets


class Pages(SignedIn[Session]):
    """Sessions of users."""

    ended_query = "app_session_ended"
    end_query = "app_session_end"

    def __init__(self, store: Store, secret: bytes | Secrets, denials: Denials) -> None:
        super().__init__(Sessions(secret), store, denials)

    def caller_of(self, headers: Headers) -> Caller | None:
        """Who comes without a token, by its signed cookie alone: whose places and quota it takes."""
        try:
            return self.sessions.read(cookie_parser(headers.get("cookie", "")).get(COOKIE)).caller()
        except errors.Unauthenticated:
            return None
