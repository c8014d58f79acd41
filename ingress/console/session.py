"""Sessions of the console: a signed cookie that names the person, its scopes and its end. It holds no token.

Without the key nobody can make one or read another's into it; signing out is kept in the database, for all processes.
"""

from __future__ import annotations

import secrets
import time
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct

from ingress import limits
from ingress.browser.protection import FormTokens
from ingress.http.cursors import Cursors
from ingress.identity.caller import Caller
from ingress.identity.roles import CONSOLE_READ, OPERATORS
from schemas import errors
from sinks.kept_secrets import derived

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ingress.console.declared import Guests
    from sinks.kept_secrets import Secrets

#: any of these opens a session
SCOPES: Final = (CONSOLE_READ, *OPERATORS)
COOKIE: Final = "millrace_console"
#: who has not signed in yet: binds the form tokens of the sign-in page to one browser
VISITOR: Final = "millrace_visitor"
_ID_BYTES: Final = 16
_OWNER: Final = "console"  # console sessions share the signer of cursors, under names that no list has


class Session(Struct, frozen=True, kw_only=True):
    """Who is signed in, until when (seconds since the epoch)."""

    id: str
    merchant: str
    subject: str
    scopes: tuple[str, ...]
    expires_at: float
    seen_at: float = 0  # when the cookie was made: it is made anew while the person works
    issued_at: float = 0  # of the token that opened it, whose end is the session's, too
    token_id: str = ""

    @property
    def may_decide(self) -> bool:
        """Whether the person may propose, approve, reject and reverse something: what, its roles say."""
        return any(scope in OPERATORS for scope in self.scopes)

    def caller(self) -> Caller:
        """The same person as the rest of the ingress knows callers."""
        return Caller(
            principal=self.merchant,
            subject=self.subject,
            scopes=frozenset(self.scopes),
            expires_at=self.expires_at,
            issued_at=self.issued_at,
            token_id=self.token_id,
        )


class Sessions:
    """Opens and reads sessions, and makes the tokens of their forms."""

    def __init__(
        self, secret: bytes | Secrets, clock: Callable[[], float] = time.time, guests: Sequence[Guests] = ()
    ) -> None:
        keys = derived(secret, b"operator console")  # others than those of cursors
        self._signer = Cursors(keys)
        self._form_tokens = FormTokens(keys)
        self._guests = guests
        self._clock = clock

    def opened(self, caller: Caller) -> Session:
        """A session for a verified caller, no longer than its token. Raises Forbidden without a scope for it."""
        guests = next((g for g in self._guests if g.scope in caller.scopes and g.admits(caller)), None)
        scopes = tuple(scope for scope in ((guests.scope,) if guests else SCOPES) if scope in caller.scopes)
        if not scopes:
            raise errors.Forbidden(f"The token needs the scope {' or '.join(SCOPES)}.")
        return Session(
            id=secrets.token_hex(_ID_BYTES),
            merchant=caller.principal,
            subject=caller.subject,
            scopes=scopes,
            expires_at=min(caller.expires_at, self._clock() + limits.CONSOLE_SESSION_S),
            seen_at=self._clock(),
            issued_at=caller.issued_at,
            token_id=caller.token_id,
        )

    def guests_of(self, session: Session) -> Guests | None:
        """The guests that its person is one of; None for staff."""
        return next((guests for guests in self._guests if guests.scope in session.scopes), None)

    def cookie(self, session: Session) -> str:
        """The session as a cookie's value."""
        return self._signer.write(_OWNER, COOKIE, msgspec.structs.asdict(session))

    def read(self, cookie: str | None) -> Session:
        """The session that a cookie proves. Raises Unauthenticated when there is none, or it is over."""
        if not cookie:
            raise errors.Unauthenticated("Sign in to go on.")
        try:
            session = self._signer.read(_OWNER, COOKIE, cookie, Session)
        except errors.MalformedRequest as error:
            raise errors.Unauthenticated("Sign in to go on.") from error
        now = self._clock()
        if now >= session.expires_at:
            raise errors.Unauthenticated("The session is over; sign in again.")
        if now >= session.seen_at + limits.CONSOLE_IDLE_S:
            raise errors.Unauthenticated("Nothing was done for a while; sign in again.")
        return session

    def renewed(self, session: Session) -> Session | None:
        """The session as of now, where its cookie has to be made anew; None while it is fresh. It lives no longer."""
        if self._clock() < session.seen_at + limits.CONSOLE_SEEN_S:
            return None
        return msgspec.structs.replace(session, seen_at=self._clock())

    def form_token(self, holder: str) -> str:
        """What every form of this session (or visitor) carries; nobody else can make it."""
        return self._form_tokens.of(holder)

    def require_form_token(self, holder: str, given: str) -> None:
        """Raises Forbidden for a form that this session's pages did not make; in constant time."""
        self._form_tokens.require(holder, given)
