"""Sessions of users at the pages: of who may read posts, with the scopes that pages have a use for."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from ingress.browser import session as sessions
from schemas.social import limits
from schemas.social.moderation_operations import MODERATOR
from schemas.social.operations import WRITE
from schemas.social.service import READ

if TYPE_CHECKING:
    from collections.abc import Callable

    from ingress.http.store import Store
    from ingress.identity.caller import Caller
    from ingress.identity.denials import Denials
    from sinks.kept_secrets import Secrets

COOKIE: Final = "millrace_app"
_SCOPES: Final = (READ, WRITE, MODERATOR)


class Session(sessions.Session, frozen=True, kw_only=True):
    """Which user is signed in."""

    principal: str

    @property
    def user(self) -> str:
        """The user's id."""
        return self.caller().user

    @property
    def may_write(self) -> bool:
        """Whether the session may do more than read."""
        return WRITE in self.scopes


class Sessions(sessions.Sessions[Session]):
    """Opens and reads sessions of users."""

    def __init__(self, secret: bytes | Secrets, clock: Callable[[], float] = time.time) -> None:
        super().__init__(Session, "app", COOKIE, secret, b"pages of users", clock)

    def opened(self, caller: Caller) -> Session:
        """A session for a verified user, no longer than its token. Raises Forbidden for whoever may not read posts."""
        _ = caller.user  # a merchant's or tenant's token opens nothing here
        caller.require(READ)
        scopes = tuple(scope for scope in _SCOPES if scope in caller.scopes)
        return Session(**self.begun(caller, scopes, limits.APP_SESSION_S), principal=caller.principal)


class Pages(sessions.SignedIn[Session]):
    """What the pages keep in one ingress process: who is signed in. All else they ask of the API's own parts."""

    ended_query = "app_session_ended"
    end_query = "app_session_end"

    def __init__(self, store: Store, secret: bytes | Secrets, denials: Denials) -> None:
        super().__init__(Sessions(secret), store, denials)
