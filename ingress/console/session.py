"""Sessions of the console: of staff, and of the guests of a service. They end when nothing is done for a while, too."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

import msgspec

from ingress import limits
from ingress.browser import session as sessions
from ingress.identity.roles import CONSOLE_READ, OPERATORS
from schemas import errors

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ingress.console.declared import Guests
    from ingress.identity.caller import Caller
    from sinks.kept_secrets import Secrets

#: any of these opens a session
SCOPES: Final = (CONSOLE_READ, *OPERATORS)
COOKIE: Final = "millrace_console"


class Session(sessions.Session, frozen=True, kw_only=True):
    """Who is signed in at the console."""

    merchant: str  # the name that cookies have for the principal
    seen_at: float = 0  # when the cookie was made: it is made anew while the person works

    @property
    def principal(self) -> str:
        """For whom it speaks."""
        return self.merchant

    @property
    def may_decide(self) -> bool:
        """Whether the person may propose, approve, reject and reverse something: what, its roles say."""
        return any(scope in OPERATORS for scope in self.scopes)


class Sessions(sessions.Sessions[Session]):
    """Opens and reads sessions of the console."""

    def __init__(
        self, secret: bytes | Secrets, clock: Callable[[], float] = time.time, guests: Sequence[Guests] = ()
    ) -> None:
        super().__init__(Session, "console", COOKIE, secret, b"operator console", clock)
        self._guests = guests

    def opened(self, caller: Caller) -> Session:
        """As ``sessions.Sessions``; guests have the scope of their own pages alone."""
        guests = next((g for g in self._guests if g.scope in caller.scopes and g.admits(caller)), None)
        scopes = tuple(scope for scope in ((guests.scope,) if guests else SCOPES) if scope in caller.scopes)
        if not scopes:
            raise errors.Forbidden(f"The token needs the scope {' or '.join(SCOPES)}.")
        begun = self.begun(caller, scopes, limits.CONSOLE_SESSION_S)
        return Session(**begun, merchant=caller.principal, seen_at=self._clock())

    def guests_of(self, session: Session) -> Guests | None:
        """The guests that its person is one of; None for staff."""
        return next((guests for guests in self._guests if guests.scope in session.scopes), None)

    def read(self, cookie: str | None) -> Session:
        """As ``sessions.Sessions``; over is also a session in which nothing was done for a while."""
        session = super().read(cookie)
        if self._clock() >= session.seen_at + limits.CONSOLE_IDLE_S:
            raise errors.Unauthenticated("Nothing was done for a while; sign in again.")
        return session

    def renewed(self, session: Session) -> Session | None:
        """The session as of now, where its cookie has to be made anew; None while it is fresh. It lives no longer."""
        if self._clock() < session.seen_at + limits.CONSOLE_SEEN_S:
            return None
        return msgspec.structs.replace(session, seen_at=self._clock())
