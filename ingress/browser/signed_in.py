"""Who is signed in at one kind of pages, as one process knows it; that a session has ended, all processes know."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Generic

from ingress.browser.session import Person
from schemas import errors

if TYPE_CHECKING:
    from ingress.browser.session import Sessions
    from ingress.http.store import Store
    from ingress.identity.denials import Denials


class SignedIn(Generic[Person]):
    """Sessions are proven by their cookie; only their ends are kept, in the database."""

    ended_query: ClassVar[str]
    end_query: ClassVar[str]

    def __init__(self, sessions: Sessions[Person], store: Store, denials: Denials) -> None:
        self.sessions = sessions
        self.store = store
        self._denials = denials

    async def session(self, cookie: str | None) -> Person:
        """The session of a cookie, unless its holder has signed out, or is denied. Raises Unauthenticated."""
        session = self.sessions.read(cookie)
        try:
            await self._denials.require(session.caller())
        except errors.Suspended as error:  # to a browser the session is over
            raise errors.Unauthenticated(error.public) from error
        if await self.store.rows(self.ended_query, {"id": session.id}):
            raise errors.Unauthenticated("You have signed out; sign in again.")
        return session

    async def end(self, session: Person) -> None:
        """The cookie is worth nothing from now on, at any process."""
        await self.store.rows(self.end_query, {"id": session.id, "expires_at": session.expires_at})
