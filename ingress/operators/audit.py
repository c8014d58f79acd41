"""Every read and write of an operator, failures included, stands in the audit log before its answer is given.

What cannot be audited is not answered: an outage of the log is a 503. Of many refusals for a missing scope
the first are rows, the rest a number (``refusals``). A request without a valid token has no actor and is not kept; a
valid token without the scope is.
"""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from ingress.identity.refusals import Refusals
from ingress.identity.roles import scopes_for
from schemas import errors
from schemas.fields import validation

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.requests import Request

    from ingress.http.store import Store
    from ingress.identity.access_watch import Anomaly
    from ingress.identity.auth import Authenticator
    from ingress.identity.caller import Caller


class Audit:
    """Appends to the log over a store whose commits wait for the disk."""

    def __init__(self, store: Store, authenticator: Authenticator) -> None:
        self._store = store
        self._authenticator = authenticator
        self._refusals = Refusals(self._append_counted)

    async def close(self) -> None:
        """Writes the refusals that were only counted."""
        await self._refusals.close()

    async def _append_counted(self, key: tuple[str, str], count: int) -> None:
        actor, action = key
        details = json.dumps({"code": errors.Forbidden.code, "count": count})
        row = {"actor": validation.visible(actor), "action": action, "object": "-", "outcome": "refused"}
        await self._store.rows("audit_append", row | {"details": details})

    @asynccontextmanager
    async def operator(
        self, request: Request, action: str, name: str, *, audits_itself: bool = False
    ) -> AsyncIterator[Caller]:
        """Who calls: an operator whose roles allow it. What the block raises is audited as refused, else as done.

        ``audits_itself``: the block's own transaction says what was done. Raises as ``Ingress.caller``.
        """
        caller = await self._authenticator.caller_in(request.scope)
        query = {"query": validation.visible(request.url.query)}
        async with self.privileged(caller, scopes_for(action), action, name, query, audits_itself=audits_itself):
            yield caller

    @asynccontextmanager
    async def privileged(
        self,
        caller: Caller,
        scopes: tuple[str, ...],
        action: str,
        name: str,
        details: dict[str, Any],
        *,
        audits_itself: bool = False,
    ) -> AsyncIterator[None]:
        """As ``operator``, for a caller who is known already and needs one of these scopes. Raises Forbidden."""
        try:
            caller.require(*scopes)
            yield
        except errors.Rejected as error:
            if not isinstance(error, errors.Forbidden) or self._refusals.is_written((caller.subject, action)):
                await self.append(caller, action, name, "refused", {"code": error.code})
            raise
        if not audits_itself:
            await self.append(caller, action, name, "done", details)

    async def suspicious(self, found: Anomaly) -> None:
        """What the watch over accesses found, with its case, durable when this returns."""
        await self._store.rows("suspicious_access", found.parameters())

    async def append(self, caller: Caller, action: str, name: str, outcome: str, details: dict[str, Any]) -> None:
        """One row of the log, durable when this returns."""
        parameters = {
            "actor": validation.visible(caller.subject),
            "action": action,
            "object": validation.visible(name),
            "outcome": outcome,
            "details": json.dumps({"merchant": caller.principal} | {k: _shown(v) for k, v in details.items()}),
        }
        await self._store.rows("audit_append", parameters)


def _shown(value: object) -> object:
    """What is said of an action, as the log may keep it for ever: no text of it holds a card number."""
    if isinstance(value, str):
        return validation.without_card(value)
    if isinstance(value, dict):
        return {validation.without_card(str(name)): _shown(found) for name, found in value.items()}
    return [_shown(found) for found in value] if isinstance(value, list) else value
