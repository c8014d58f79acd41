"""What is refused at the vault to somebody whom it knows stands in the audit log before the answer is given.

What is done to a card is logged in the transaction that does it (queries.sql). No row holds anything of a card; whoever
has no valid token or secret has no name to log, and is counted only.
"""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from schemas import errors
from schemas.validation import visible

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from ingress.identity.caller import Caller
    from vault.store import VaultStore

WORKER: Final = "worker"  # who knows the internal secret
OUR_WORKERS: Final = "\0worker"  # the same, where names of merchants are told apart: none has such a character
TOKENS: Final = "tokens"


class VaultAudit:
    """Appends over the vault's own connections, whose commits wait for the disk."""

    def __init__(self, store: VaultStore) -> None:
        self._store = store

    @asynccontextmanager
    async def refusals(self, actor: str, action: str, details: dict[str, Any]) -> AsyncIterator[None]:
        """What the block refuses is logged with what ``details`` hold by then. Raises it again, or Unavailable."""
        try:
            yield
        except errors.Rejected as error:
            row = {"actor": visible(actor), "action": action, "object": TOKENS, "outcome": "refused"}
            shown = {name: visible(str(value)) for name, value in details.items()}
            await self._store.rows("audit_append", row | {"details": json.dumps(shown | {"code": error.code})})
            raise


def parameters(caller: Caller, **details: str) -> dict[str, str]:
    """What a statement that logs itself says of its caller."""
    return {"actor": visible(caller.subject), "details": json.dumps({"merchant": caller.merchant} | details)}
