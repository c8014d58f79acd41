"""Refused calls of a merchant at the vault cost the audit log few rows; every refused forward has its own."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, cast

import pytest

from ingress import limits
from ingress.identity.caller import Caller
from schemas import errors
from vault.audit import VaultAudit

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from vault.store import VaultStore

EACH = limits.AUDIT_REFUSALS_EACH_MAX


class Log:
    """What was appended: actor, action, and details."""

    def __init__(self) -> None:
        self.rows_of: list[tuple[str, str, dict[str, Any]]] = []

    async def rows(self, name: str, row: dict[str, str]) -> None:
        assert (name, row["outcome"]) == ("audit_append", "refused")
        self.rows_of.append((row["actor"], row["action"], json.loads(row["details"])))


async def refused(block: AbstractAsyncContextManager[None]) -> None:
    with pytest.raises(errors.NotFound):
        async with block:
            raise errors.NotFound("There is no such token.")


def test_many_refusals_of_one_merchant_are_few_rows_and_a_number() -> None:
    """A row is for ever, and whoever gives a card out waits for the lock of the rows."""
    log = Log()

    async def calls() -> None:
        audit = VaultAudit(cast("VaultStore", log))
        ann, bob = (
            Caller(subject=f"key_{name}", principal=name, scopes=frozenset(), expires_at=0) for name in ("ann", "bob")
        )
        for _ in range(EACH + 15):
            await refused(audit.refusals_of_merchant(ann, "token.delete"))
        await refused(audit.refusals_of_merchant(ann, "token.create"))
        await refused(audit.refusals_of_merchant(bob, "token.delete"))
        await audit.close()

    asyncio.run(calls())
    details = {"merchant": "ann", "code": "not_found"}
    assert log.rows_of == [
        *[("key_ann", "token.delete", details)] * EACH,
        ("key_ann", "token.create", details),
        ("key_bob", "token.delete", details | {"merchant": "bob"}),
        ("ann", "token.delete", {"merchant": "ann", "count": 15}),
    ]


def test_every_refused_forward_is_a_row() -> None:
    log = Log()

    async def calls() -> None:
        audit = VaultAudit(cast("VaultStore", log))
        for _ in range(2 * EACH):
            await refused(audit.refusals_of_worker("card.forward", {"merchant": "ann"}))
        await audit.close()

    asyncio.run(calls())
    assert log.rows_of == [("worker", "card.forward", {"merchant": "ann", "code": "not_found"})] * (2 * EACH)
