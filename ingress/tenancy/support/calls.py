"""Calls under support grants as the tenant's audit log keeps them: few at once, and a row for each of them.

Whoever goes on calling after a grant has ended asks for nothing but rows, which a chain keeps for ever and every
process writes one after the other: the first refusals of a minute are rows, all further one row with their number. And
the log is written over the connections that operators decide over: one grant takes some of them, never all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ingress.http.turns import Turns
from ingress.identity.refusals import Key, Refusals
from schemas import errors
from schemas.fields import validation
from schemas.tenancy import limits

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractAsyncContextManager

    from ingress.http.store import Store
    from ingress.identity.caller import Caller


class SupportCalls:
    """Those of one process. Its store's commits wait for the disk."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._refusals = Refusals(self._append_counted)
        self._turns = Turns(
            "Other calls under this grant are under way; ask again later.", of_each=limits.SUPPORT_CALLS_UNDER_WAY_MAX
        )

    async def close(self) -> None:
        """Writes the refusals that were only counted."""
        await self._refusals.close()

    def turn(self, caller: Caller) -> AbstractAsyncContextManager[None]:
        """While one call of the grant is under way. Raises Overloaded where it would wait longer than for the log."""
        return self._turns.turn(caller.grant_id)

    async def begin(self, caller: Caller, action: str, name: str) -> tuple[int, list[str]]:
        """The number of its row, and the grant's field masks. Raises GrantInactive, Unavailable."""
        key = (_who(caller), caller.grant_id)
        if self._refusals.is_one_of_many(key):
            raise errors.GrantInactive
        asked = {"tenant": caller.tenant, "grant_id": caller.grant_id, "actor": caller.subject}
        what = {"action": validation.visible(action), "object": validation.visible(name)}
        rows = await self._store.rows("support_call_begin", asked | what)
        if not rows or rows[0][1] != "begun":
            self._refusals.wrote(key)
            raise errors.GrantInactive
        return rows[0][0], rows[0][2].split()

    async def begin_lines(self, caller: Caller, named: Sequence[tuple[str, str]]) -> list[int]:
        """The numbers of the rows of a list's lines, in order, each of which has an action and is about an object.

        All of them at once. Raises as ``begin``: where the grant ended meanwhile, which refuses each of them.
        """
        asked = {"tenant": caller.tenant, "grant_id": caller.grant_id, "actor": caller.subject}
        what = {
            "actions": [validation.visible(action) for action, _ in named],
            "objects": [validation.visible(name) for _, name in named],
        }
        rows = await self._store.rows("support_lines_begin", asked | what)
        begun = [number for number, word in rows if word == "begun"]
        if len(begun) != len(named):
            await self.end(caller.tenant, dict.fromkeys(begun, "refused"))
            raise errors.GrantInactive
        return begun

    async def end(self, tenant_id: str, results: Mapping[int, str]) -> None:
        """What became of a call and of its lines, by number, before its answer is given; all at once.

        Raises Unavailable where that cannot be said.
        """
        asked = {"tenant": tenant_id, "numbers": list(results), "words": list(results.values())}
        if results and not await self._store.rows("support_call_end", asked):
            raise errors.Unavailable("What was done cannot be audited.")

    async def _append_counted(self, key: Key, count: int) -> None:
        who, grant_id = key
        tenant_id, _, actor = who.partition(" ")
        asked = {"tenant": tenant_id, "grant_id": grant_id, "actor": actor, "action": f"{count} more calls"}
        for number, word, _ in await self._store.rows("support_call_begin", asked | {"object": "-"}):
            if word == "begun":  # of a process whose clock saw the grant end before
                await self.end(tenant_id, {number: "refused"})


def _who(caller: Caller) -> str:
    return f"{caller.tenant} {caller.subject}"
