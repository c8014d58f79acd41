"""Durable counters computed again from what was consumed: the stored charges must lead from the base to the counter."""

from __future__ import annotations

from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

import msgspec

from schemas.limiter.durable_counter import Charge, OwnedCounter

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reconciliation.contract.snapshot import Snapshot

_PLACE: Final = ("aggregate_key", "policy_id", "counted_by")
_counter: Final = msgspec.json.Decoder(OwnedCounter)


def quota_violations(view: Snapshot, sql: str) -> Iterator[dict[str, Any]]:
    """The counters that hold something else, or that are of another time than their tenant."""
    for place, rows in groupby(view.rows(sql), key=itemgetter(*_PLACE)):
        read = list(rows)
        owned = _counter.decode(read[0]["body"])
        charges = [_charge(row) for row in read if row["identity"] is not None]
        held, expected = _used(owned), _used(owned, owned.replayed(charges))
        newest = max((max(c.version, c.refunded_version or 0) for c in charges), default=owned.base_version)
        tenant_version = read[0]["tenant_version"] or 0
        if owned.replayed(charges) != owned.counter or read[0]["used"] != held or newest > tenant_version:
            yield {
                **dict(zip(_PLACE, place, strict=True)),
                "used": read[0]["used"],
                "held": held,
                "of_charges": expected,
                "newest_charge": newest,
                "tenant_version": tenant_version,
            }


def _used(owned: OwnedCounter, counter: Any = None) -> int:
    """What is used when the stored counter was last charged."""
    stored = owned.counter
    found: int = (counter or stored).used(stored.at * stored.terms.tick_us)
    return found


def _charge(row: dict[str, Any]) -> Charge:
    return Charge(
        identity=row["identity"],
        cost=row["cost"],
        charged_at=row["charged_at"],
        version=row["version"],
        counters=[(row["policy_id"], row["counted_by"])],
        refunded_version=row["refunded_version"],
        refunded_at=row["refunded_at"],
    )
