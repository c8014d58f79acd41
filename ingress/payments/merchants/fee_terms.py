"""The fees of one merchant: the terms in force, those published for later, and the history; nobody else's."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

import msgspec

from dataflows.payments.domain.policies.fees import FeeSchedule
from schemas import rendering
from schemas.payments import limits
from schemas.payments.policies.fee_policy import FeeTerms

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ingress.http.store import Store

Row = dict[str, Any]
#: before anything is published
FIRST: Final = FeeTerms(bps=FeeSchedule().platform_bps)
_terms: Final = msgspec.json.Decoder(FeeTerms).decode


class FeePolicies:
    """Reads the published terms of merchants."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def document(self, merchant: str) -> Row:
        """What a merchant hears of its terms. Raises Unavailable."""
        versions = await self.versions(merchant)
        now_us = time.time_ns() // 1_000
        found = in_force(versions, now_us)
        return {
            "object": "fee_policy",
            "merchant_id": merchant,
            **_render(found),
            "upcoming": [_render(row) for row in upcoming(versions, now_us)],
        }

    async def versions(self, merchant: str) -> list[Row]:
        """What each version says of the merchant, newest first: ``terms`` read, times in microseconds."""
        bounds = {"merchant": merchant, "limit": limits.FEE_VERSIONS_READ_MAX}
        rows = await self._store.records("fee_terms", bounds)
        return [row | {"terms": _terms(row["terms"])} for row in rows]


def in_force(versions: Sequence[Row], now_us: int) -> Row | None:
    """The version that a payment made now is under, as owners find it: the newest that has begun."""
    return next((row for row in versions if row["effective_at"] <= now_us), None)


def upcoming(versions: Sequence[Row], now_us: int) -> list[Row]:
    """Versions that will come into force, the next one first; one that a newer version overtakes never does."""
    found: list[Row] = []
    for row in versions:  # newest first
        if row["effective_at"] <= now_us:
            break
        if not found or row["effective_at"] < found[-1]["effective_at"]:
            found.append(row)
    return found[::-1]


def _render(row: Row | None) -> Row:
    terms: FeeTerms = FIRST if row is None else row["terms"]
    return {
        "version": None if row is None else row["version"],
        "effective_at": None if row is None else rendering.timestamp(row["effective_at"]),
        "bps": terms.bps,
        "fixed": terms.fixed,
        "refunds_return": terms.refunds_return,
    }
