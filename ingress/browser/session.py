"""Sessions at pages: a sealed cookie that names a person, its scopes and its end. It holds no token.

Without the key nobody can make one or read another's into it. Each kind of pages has a key, a cookie and a form of its
own, so that a session of one proves nothing to another.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, TypeVar

import msgspec
from msgspec import Struct
from starlette.requests import cookie_parser

from ingress.browser.protection import FormTokens
from ingress.http.cursors import Cursors
from ingress.identity.caller import Caller
from schemas import errors
from sinks.kept_secrets import derived

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.datastructures import Headers

    from ingress.http.store import Store
    from ingress.identity.denials import Denials
    from sinks.kept_secrets import Secrets

_ID_BYTES: Final = 16


class Session(Struct, frozen=True, kw_only=True):
    """Who is signed in, until when (seconds since the epoch). A cookie has these names: change none."""

    id: str
    subject: str
    scopes: tuple[str, ...]
    expires_at: float
    issued_at: float = 0  # of the token that opened it, whose end is the session's, too
    token_id: str = ""

    @property
    def principal(self) -> str:
        """For whom it speaks, under whatever name its cookie has that."""
        raise NotImplementedError

    def caller(self) -> Caller:
        """The same person as the rest of the ingress knows callers."""
        return Caller(
            principal=self.principal,
            subject=self.subject,
            scopes=frozenset(self.scopes),
            expires_at=self.expires_at,
            issued_at=self.issued_at,
            token_id=self.token_id,
        )


Person = TypeVar("Person", bound=Session)


class Sessions(Generic[Person]):
    """Opens and reads sessions of one form, and makes the tokens of their forms.

    ``purpose`` makes their keys others than those of cursors and of other pages; the signer is that of cursors, under
    the ``owner`` and the cookie's name, which no list has.
    """

    def __init__(
        self,
        form: type[Person],
        owner: str,
        cookie: str,
        secret: bytes | Secrets,
        purpose: bytes,
        clock: Callable[[], float],
    ) -> None:
        keys = derived(secret, purpose)
        self.form_tokens = FormTokens(keys)
        self._signer = Cursors(keys)
        self._form = form
        self._owner, self.cookie_name = owner, cookie
        self._clock = clock

    def opened(self, caller: Caller) -> Person:
        """A session for a verified caller, no longer than its token. Raises Forbidden without a scope for it."""
        raise NotImplementedError

    def begun(self, caller: Caller, scopes: tuple[str, ...], lasts_s: float) -> dict[str, Any]:
        """What every session begins with: an id of its own, and an end that is the token's or sooner."""
        return {
            "id": secrets.token_hex(_ID_BYTES),
            "subject": caller.subject,
            "scopes": scopes,
            "expires_at": min(caller.expires_at, self._clock() + lasts_s),
            "issued_at": caller.issued_at,
            "token_id": caller.token_id,
        }

    def cookie(self, session: Person) -> str:
        """The session as a cookie's value."""
        return self._signer.write(self._owner, self.cookie_name, msgspec.structs.asdict(session))

    def read(self, cookie: str | None) -> Person:
        """The session that a cookie proves. Raises Unauthenticated when there is none, or it is over."""
        if not cookie:
            raise errors.Unauthenticated("Sign in to go on.")
        try:
            session = self._signer.read(self._owner, self.cookie_name, cookie, self._form)
        except (errors.MalformedRequest, msgspec.ValidationError) as error:
            raise errors.Unauthenticated("Sign in to go on.") from error
        if self._clock() >= session.expires_at:
            raise errors.Unauthenticated("The session is over; sign in again.")
        return session

    def form_token(self, holder: str) -> str:
        """What every form of this session (or visitor) carries; nobody else can make it."""
        return self.form_tokens.of(holder)

    def require_form_token(self, holder: str, given: str) -> None:
        """Raises Forbidden for a form that this session's pages did not make; in constant time."""
        self.form_tokens.require(holder, given)


class SignedIn(Generic[Person]):
    """Who is signed in at one kind of pages. A cookie proves a session; that it has ended, the database says to all."""

    ended_query: ClassVar[str]
    end_query: ClassVar[str]

    def __init__(self, sessions: Sessions[Person], store: Store, denials: Denials) -> None:
        self.sessions = sessions
        self.store = store
        self._denials = denials

    def caller_of(self, headers: Headers) -> Caller | None:
        """Who comes without a token, by its signed cookie alone, which may have ended: whose places it takes."""
        try:
            return self.sessions.read(cookie_parser(headers.get("cookie", "")).get(self.sessions.cookie_name)).caller()
        except errors.Unauthenticated:
            return None

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
