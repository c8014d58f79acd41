"""Sessions of users at the pages: a signed cookie that names the user, its scopes and its end. It holds no token."""

from __future__ import annotations

import secrets
import time
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct

from ingress.browser.protection import FormTokens
from ingress.http.cursors import Cursors
from ingress.identity.caller import Caller
from schemas import errors
from schemas.social import limits
from schemas.social.moderation_operations import MODERATOR
from schemas.social.operations import WRITE
from schemas.social.service import READ
from sinks.kept_secrets import derived

if TYPE_CHECKING:
    from collections.abc import Callable

    from sinks.kept_secrets import Secrets

COOKIE: Final = "millrace_app"
#: who has not signed in yet: binds the form tokens of the sign-in page to one browser
VISITOR: Final = "millrace_app_visitor"
_ID_BYTES: Final = 16
_OWNER: Final = "app"  # sessions share the signer of cursors, under a name and a key that no list has
_SCOPES: Final = (READ, WRITE, MODERATOR)


class Session(Struct, frozen=True, kw_only=True):
    """Who is signed in, until when (seconds since the epoch)."""

    id: str
    principal: str
    subject: str
    scopes: tuple[str, ...]
    expires_at: float
    issued_at: float = 0  # of the token that opened it, whose end is the session's, too
    token_id: str = ""

    @property
    def user(self) -> str:
        """The user's id."""
        return self.caller().user

    @property
    def may_write(self) -> bool:
        """Whether the session may do more than read."""
        return WRITE in self.scopes

    def caller(self) -> Caller:
        """The same user as the rest of the ingress knows callers."""
        return Caller(
            principal=self.principal,
            subject=self.subject,
            scopes=frozenset(self.scopes),
            expires_at=self.expires_at,
            issued_at=self.issued_at,
            token_id=self.token_id,
        )


class Sessions:
    """Opens and reads sessions."""

    def __init__(self, secret: bytes | Secrets, clock: Callable[[], float] = time.time) -> None:
        keys = derived(secret, b"pages of users")  # others than those of cursors
        self._signer = Cursors(keys)
        self._clock = clock
        self.form_tokens = FormTokens(keys)

    def opened(self, caller: Caller) -> Session:
        """A session for a verified user, no longer than its token. Raises Forbidden for whoever may not read posts."""
        _ = caller.user  # a merchant's or tenant's token opens nothing here
        caller.require(READ)
        return Session(
            id=secrets.token_hex(_ID_BYTES),
            principal=caller.principal,
            subject=caller.subject,
            scopes=tuple(scope for scope in _SCOPES if scope in caller.scopes),
            expires_at=min(caller.expires_at, self._clock() + limits.APP_SESSION_S),
            issued_at=caller.issued_at,
            token_id=caller.token_id,
        )

    def cookie(self, session: Session) -> str:
        """The session as a cookie's value."""
        return self._signer.write(_OWNER, COOKIE, msgspec.structs.asdict(session))

    def read(self, cookie: str | None) -> Session:
        """The session that a cookie proves. Raises Unauthenticated when there is none, or it is over."""
        if not cookie:
            raise errors.Unauthenticated("Sign in to go on.")
        try:
            session = self._signer.read(_OWNER, COOKIE, cookie, Session)
        except (errors.MalformedRequest, msgspec.ValidationError) as error:
            raise errors.Unauthenticated("Sign in to go on.") from error
        if self._clock() >= session.expires_at:
            raise errors.Unauthenticated("The session is over; sign in again.")
        return session
