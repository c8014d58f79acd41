"""What the pages keep in one ingress process: who is signed in. Everything else they ask of the API's own parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.requests import cookie_parser

from ingress.social.pages.session import COOKIE, Sessions
from schemas import errors

if TYPE_CHECKING:
    from starlette.datastructures import Headers

    from ingress.http.store import Store
    from ingress.identity.caller import Caller
    from ingress.identity.denials import Denials
    from ingress.social.pages.session import Session


class Pages:
    """Sessions of this process; that one has ended is kept in the database, for all processes."""

    def __init__(self, store: Store, secret: bytes, denials: Denials) -> None:
        self.store = store
        self._denials = denials
        self.sessions = Sessions(secret)

    async def session(self, cookie: str | None) -> Session:
        """The session of a cookie, unless its holder has signed out, or is denied. Raises Unauthenticated."""
        session = self.sessions.read(cookie)
        try:
            await self._denials.require(session.caller())
        except errors.Suspended as error:  # to a browser the session is over
            raise errors.Unauthenticated(error.public) from error
        if await self.store.rows("app_session_ended", {"id": session.id}):
            raise errors.Unauthenticated("You have signed out; sign in again.")
        return session

    async def end(self, session: Session) -> None:
        """The cookie is worth nothing from now on, at any process."""
        await self.store.rows("app_session_end", {"id": session.id, "expires_at": session.expires_at})

    def caller_of(self, headers: Headers) -> Caller | None:
        """Who comes without a token, by its signed cookie alone: whose places it takes."""
        try:
            return self.sessions.read(cookie_parser(headers.get("cookie", "")).get(COOKIE)).caller()
        except errors.Unauthenticated:
            return None
