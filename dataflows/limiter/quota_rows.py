"""The rows of durable quotas: what a batch of commands reads, and what its changes write."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct, field

from dataflows.owner.batch import Statement
from schemas.limiter.durable_counter import Charge, OwnedCounter
from schemas.limiter.limit_policy import policy_of
from schemas.limiter.quota_fields import kept_by
from schemas.records import Command
from sinks.postgres.arrays import Bigints, Count, Texts
from sinks.postgres.sql_files import queries

SQL: Final = queries("sinks.postgres.queries.limiter", "quotas.sql")
_NUL: Final = "\x00"  # no text of Postgres can hold one: such a command is refused, and reads nothing
_encode: Final = msgspec.json.Encoder().encode
_counter: Final = msgspec.json.Decoder(OwnedCounter)


class TenantQuotas(Struct):
    """One tenant's durable quotas in a batch: what was read of them, and what changed."""

    tenant: str = ""
    version: int = 0
    read_version: int = 0  # 0: there were none
    counters: dict[tuple[str, str], OwnedCounter] = field(default_factory=dict)
    charges: dict[str, Charge] = field(default_factory=dict)
    written: dict[tuple[str, str], None] = field(default_factory=dict)
    charged: dict[str, None] = field(default_factory=dict)
    refunded: dict[str, None] = field(default_factory=dict)


def reads(consumptions: Sequence[Command], refunds: Sequence[Command]) -> list[Statement]:
    """The tenants of a batch, the counters and the charges that it works on."""
    counters = [
        (command.aggregate_key, level["policy_id"], kept_by(level["counted_by"]))
        for command in consumptions
        for level in _levels(command)
        if _NUL not in level["policy_id"] + level["counted_by"]
    ]
    charges = [(c.aggregate_key, str(c.payload["identity"])) for c in refunds if _NUL not in str(c.payload["identity"])]
    tenants = list(dict.fromkeys(c.aggregate_key for c in (*consumptions, *refunds)))
    named = _texts(list(dict.fromkeys(counters)), 3)
    refunded = _texts(charges, 2)
    return [
        (SQL["quota_tenants_read"], (Texts(tenants),)),
        (SQL["quota_counters_read"], (*named, *refunded)),
        (SQL["quota_charges_read"], refunded),
    ]


def named_policies(consumptions: Sequence[Command]) -> list[str]:
    """The policies that the consumptions of a batch name."""
    named = dict.fromkeys(policy_of(str(level["policy_id"])) for command in consumptions for level in _levels(command))
    return [policy_id for policy_id in named if _NUL not in policy_id]


def read(rows: Sequence[list[tuple[Any, ...]]], quotas_of: Callable[[str], TenantQuotas]) -> None:
    """Takes in what the statements of ``reads`` returned."""
    tenants, counters, charges = rows
    for aggregate_key, version in tenants:
        quotas = quotas_of(aggregate_key)
        quotas.version = quotas.read_version = version
    for aggregate_key, policy_id, values, body in counters:
        quotas_of(aggregate_key).counters[policy_id, values] = _counter.decode(body)
    for aggregate_key, identity, cost, charged_at, version, policy_ids, values, *refunded in charges:
        quotas_of(aggregate_key).charges[identity] = Charge(
            identity=identity,
            cost=cost,
            charged_at=charged_at,
            version=version,
            counters=list(zip(policy_ids, values, strict=True)),
            refunded_version=refunded[0],
            refunded_at=refunded[1],
        )


def writes(partition: int, tenants: Mapping[str, TenantQuotas]) -> list[Statement]:
    """The changed tenants by compare-and-set, and with them their counters and charges."""
    changed = {key: quotas for key, quotas in tenants.items() if quotas.version != quotas.read_version}
    if not changed:
        return []
    new = {key: quotas for key, quotas in changed.items() if not quotas.read_version}
    old = {key: quotas for key, quotas in changed.items() if quotas.read_version}
    found: list[Statement] = []
    if new:
        versions = Bigints([quotas.version for quotas in new.values()])
        names = Texts([quotas.tenant for quotas in new.values()])
        found.append((SQL["quota_tenants_insert"], (partition, Texts(list(new)), names, versions)))
    if old:
        versions = Bigints([quotas.version for quotas in old.values()])
        read_versions = Bigints([quotas.read_version for quotas in old.values()])
        found.append((SQL["quota_tenants_update"], (Texts(list(old)), versions, read_versions, Count(len(old)))))
    counters = [(key, place, q.counters[place]) for key, q in changed.items() for place in q.written]
    if counters:
        found.append((SQL["quota_counters_write"], _counter_columns(counters)))
    charged = [(key, q.charges[identity]) for key, q in changed.items() for identity in q.charged]
    if charged:
        found.append((SQL["quota_charges_insert"], _charge_columns(charged)))
    refunded = [(key, q.charges[identity]) for key, q in changed.items() for identity in q.refunded]
    if refunded:
        found.append((SQL["quota_charges_refund"], _refund_columns(refunded)))
    return found


def _counter_columns(rows: Sequence[tuple[str, tuple[str, str], OwnedCounter]]) -> tuple[Any, ...]:
    times = [counter.counter.at * counter.counter.terms.tick_us for _, _, counter in rows]  # when it was last charged
    used = [c.counter.used(at) for (_, _, c), at in zip(rows, times, strict=True)]
    expires = [at + c.counter.reset_us(at) for (_, _, c), at in zip(rows, times, strict=True)]
    return (
        Texts([key for key, _, _ in rows]),
        Texts([place[0] for _, place, _ in rows]),
        Texts([place[1] for _, place, _ in rows]),
        Bigints([counter.policy_version for _, _, counter in rows]),
        Bigints(used),
        Texts([_encode(counter).decode() for _, _, counter in rows]),
        Bigints([counter.base_version for _, _, counter in rows]),
        Bigints(expires),
    )


def _charge_columns(rows: Sequence[tuple[str, Charge]]) -> tuple[Any, ...]:
    charges = [charge for _, charge in rows]
    return (
        Texts([key for key, _ in rows]),
        Texts([charge.identity for charge in charges]),
        Bigints([charge.cost for charge in charges]),
        Bigints([charge.charged_at for charge in charges]),
        Bigints([charge.version for charge in charges]),
        Texts([_encode(charge.counters).decode() for charge in charges]),
        Bigints([charge.refunded_version or 0 for charge in charges]),
        Bigints([charge.refunded_at or 0 for charge in charges]),
    )


def _refund_columns(rows: Sequence[tuple[str, Charge]]) -> tuple[Any, ...]:
    return (
        Texts([key for key, _ in rows]),
        Texts([charge.identity for _, charge in rows]),
        Bigints([charge.refunded_version or 0 for _, charge in rows]),
        Bigints([charge.refunded_at or 0 for _, charge in rows]),
    )


def _levels(command: Command) -> list[dict[str, Any]]:
    levels: Any = command.payload["levels"]
    return list(levels)


def _texts(rows: Sequence[tuple[str, ...]], columns: int) -> tuple[Texts, ...]:
    return tuple(Texts([row[at] for row in rows]) for at in range(columns))
