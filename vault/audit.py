"""What is refused at the vault to somebody whom it knows stands in the audit log before the answer is given.

What is done to a card is logged in the transaction that does it (queries.sql). No row holds anything of a card; whoever
has no valid token or secret has no name to log, and is counted only. Of many refusals of one merchant the first are
rows, the rest one number: the log is for ever, and every card that is given out waits for its turn in it.
"""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from ingress.identity.refusals import Refusals
from schemas import errors
from schemas.fields.validation import visible

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from ingress.identity.access_watch import Anomaly
    from ingress.identity.caller import Caller
    from vault.store import VaultStore

WORKER: Final = "worker"  # who knows the internal secret
OUR_WORKERS: Final = "\0worker"  # the same, where names of merchants are told apart: none has such a character
TOKENS: Final = "tokens"


class VaultAudit:
    """Appends over the vault's own connections, whose commits wait for the disk."""

    def __init__(self, store: VaultStore) -> None:
        self._store = store
        self._refusals = Refusals(self._append_counted)

    async def close(self) -> None:
        """Writes the refusals that were only counted."""
        await self._refusals.close()

    @asynccontextmanager
    async def refusals_of_merchant(self, caller: Caller, action: str) -> AsyncIterator[None]:
        """What the block refuses is logged, or counted. Raises it again, or Unavailable."""
        merchant = caller.merchant
        try:
            yield
        except errors.Rejected as error:
            if self._refusals.is_written((merchant, action)):
                await self._append(caller.subject, action, {"merchant": merchant, "code": error.code})
            raise

    @asynccontextmanager
    async def refusals_of_worker(self, action: str, details: dict[str, str]) -> AsyncIterator[None]:
        """Each refusal is logged with what ``details`` hold by then. Raises it again, or Unavailable."""
        try:
            yield
        except errors.Rejected as error:
            await self._append(WORKER, action, details | {"code": error.code})
            raise

    async def suspicious(self, found: Anomaly) -> None:
        """What the watch over accesses found, with its case, durable when this returns."""
        await self._store.rows("suspicious_access", found.parameters())

    async def _append_counted(self, key: tuple[str, str], count: int) -> None:
        merchant, action = key
        await self._append(merchant, action, {"merchant": merchant, "count": count})

    async def _append(self, actor: str, action: str, details: dict[str, Any]) -> None:
        shown = {name: visible(value) if isinstance(value, str) else value for name, value in details.items()}
        row = {"actor": visible(actor), "action": action, "object": TOKENS, "outcome": "refused"}
        await self._store.rows("audit_append", row | {"details": json.dumps(shown)})


def parameters(caller: Caller, **details: str) -> dict[str, str]:
    """What a statement that logs itself says of its caller."""
    return {"actor": visible(caller.subject), "details": json.dumps({"merchant": caller.merchant} | details)}
