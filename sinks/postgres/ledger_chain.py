"""The hash chain of the ledger: a link per committed batch and partition. A changed, missing or added row breaks it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Final

GENESIS: Final = bytes(32)

# in this order: txn_id, reference, kind, effective_at in microseconds, line, account_id, debit, credit and currency
ChainRow = tuple[int, str, str, int, int, str, int, int, str]


def link_hash(prev_hash: bytes, rows: Iterable[ChainRow]) -> bytes:
    """SHA-256 over the previous hash and a batch's entries in the order (txn_id, line); 32 bytes."""
    text = "\n".join("\x1f".join(map(str, row)) for row in rows)
    return hashlib.sha256(prev_hash + text.encode()).digest()
