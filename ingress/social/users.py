"""Who calls: a user exists from its first call on, and an erased one never calls again.

Asked at every call, of Postgres: an answer that was remembered would outlive an erasure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ingress.commands import calling
from ingress.http.parts import parts_of
from schemas import errors
from schemas.social.moderation_operations import MODERATOR

if TYPE_CHECKING:
    from starlette.requests import Request

    from ingress.http.store import Store
    from ingress.identity.caller import Caller

_ERASED: Final = ("deleting", "deleted")
_SUSPENDED: Final = "suspended"


class Users:
    """The users of one process."""

    def __init__(self, store: Store) -> None:
        self.store = store

    async def present(self, caller: Caller, *, erased_too: bool = False) -> str:
        """The user who calls, known from now on. Raises Forbidden without one, Gone for an erased one."""
        state = await self._called(caller.user)
        if not erased_too:
            _require_there(state)
        return caller.user

    async def moderates(self, caller: Caller) -> bool:
        """Whether the user has the scope to moderate and is not suspended itself. Raises as ``present``."""
        state = await self._called(caller.user)
        _require_there(state)
        return MODERATOR in caller.scopes and state != _SUSPENDED

    async def moderator(self, caller: Caller) -> str:
        """The user who moderates. Raises Forbidden for one who may not, or is suspended, and as ``present``."""
        if not await self.moderates(caller):
            raise errors.Forbidden("Moderators suspended this account: it moderates nothing until that ends.")
        return caller.user

    async def require_present(self, user: str, state: str | None = None) -> None:
        """As ``present``, of a user whose state a statement of this very call has read; None where it read none."""
        if state is None:
            state = await self._called(user)
        _require_there(state)

    async def _called(self, user: str) -> str | None:
        rows = await self.store.rows("author_called", {"user_id": user})
        return rows[0][0] if rows else None


def _require_there(state: str | None) -> None:
    if state in _ERASED:
        raise errors.Gone("The user was erased.")


async def user_of(request: Request, *scopes: str, erased_too: bool = False) -> str:
    """The user of a verified call that has one of these scopes. Raises Unauthenticated, Forbidden or Gone."""
    caller = await calling.caller_of(request, *scopes)
    return await parts_of(request).get(Users).present(caller, erased_too=erased_too)
