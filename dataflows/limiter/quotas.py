"""Durable quotas in one batch: consumptions and refunds fold into the counters of their tenants, each written once."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from dataflows.limiter import quota_rows
from dataflows.limiter.domain.durable_quota import Governed, decide_consume, refund
from dataflows.limiter.quota_rows import TenantQuotas
from dataflows.owner.batch import Statement
from dataflows.owner.service import Committed, NewEvent
from schemas.errors import TimeZoneUnknown
from schemas.limiter.durable_counter import Charge
from schemas.limiter.limit_policy import LimitPolicy, counted_by, limit_of, policy_of
from schemas.limiter.quota_fields import kept_by, quotas_of, scope_of
from schemas.records import Command, Denial, Rejection
from schemas.refusals import WRONG_VALUES

CONSUME: Final = "consume_quota"
REFUND: Final = "refund_quota"
_DIGEST_BYTES: Final = 16
_POLICY_CHANGED: Final = Denial("policy_changed", "The gateway knows a policy otherwise; nothing was done.", {})
_FOREIGN: Final = Denial(
    "invalid_command",
    WRONG_VALUES,
    {"errors": [{"field": "payload.tenant", "reason": "must be the tenant of these quotas"}]},
)
_NO_TIME_ZONE: Final = Denial(
    TimeZoneUnknown.code,
    "The owner of these quotas has no data of the policy's time zone: update its tzdata and start it again.",
    {},
)
_UNKNOWN: Final = Denial("not_found", "Nothing was consumed under this identity.", {})
_REFUNDED: Final = Rejection("state_conflict", "What was consumed under this identity was given back before.", {})

PolicyOf = Callable[[str], LimitPolicy | None]


class QuotasWorkspace:
    """The durable quotas of one batch in memory."""

    def __init__(self, partition: int, policy_of: PolicyOf, rows: Sequence[list[tuple[Any, ...]]]) -> None:
        self._partition = partition
        self._policy_of = policy_of
        self._tenants: dict[str, TenantQuotas] = {}
        quota_rows.read(rows, self._of)

    def decide(self, command: Command, now: int) -> Committed | Rejection:
        """Folds one command in; its payload is valid. One that is refused changes nothing."""
        payload: dict[str, Any] = command.payload
        if command.aggregate_key != quotas_of(payload["tenant"]) or command.scope != scope_of(command.aggregate_key):
            return _FOREIGN
        quotas = self._of(command.aggregate_key)
        quotas.tenant = payload["tenant"]
        try:
            decided = self._refund if command.operation == REFUND else self._consume
            return decided(quotas, command, now)
        except TimeZoneUnknown:  # others of the tenant, and of the partition, go on
            return _NO_TIME_ZONE

    def writes(self) -> list[Statement]:
        """The tenants by compare-and-set, then what hangs on them."""
        return quota_rows.writes(self._partition, self._tenants)

    def _consume(self, quotas: TenantQuotas, command: Command, now: int) -> Committed | Rejection:
        payload: dict[str, Any] = command.payload
        parts = {name: payload[name] for name in ("tenant", "user", "route")}
        places, governed = [], []
        for level in payload["levels"]:
            published = self._policy_of(policy_of(level["policy_id"]))
            policy = None if published is None else limit_of(published, level["policy_id"])
            if (
                policy is None
                or policy.withdrawn
                or policy.consistency != "durable"
                or level["counted_by"] != counted_by(policy, parts)
            ):
                return _POLICY_CHANGED
            if policy.scope.covers(parts):  # the version in force may be for other keys by now
                place = (policy.policy_id, kept_by(level["counted_by"]))
                places.append(place)
                governed.append(Governed(policy, quotas.counters.get(place)))
        decided = decide_consume(governed, payload["cost"], quotas.version, now)
        if isinstance(decided, Denial):
            return decided
        quotas.version += 1
        charged = {place: owned for place, owned in zip(places, decided.counters, strict=True) if owned is not None}
        quotas.counters |= charged
        quotas.written |= dict.fromkeys(charged)
        quotas.charged[command.idempotency_key] = None
        quotas.charges[command.idempotency_key] = Charge(
            identity=command.idempotency_key,
            cost=payload["cost"],
            charged_at=now,
            version=quotas.version,
            counters=list(charged),
        )
        left = [msgspec.structs.asdict(level) for level in decided.levels]
        key_hash = _digest(*parts.values())
        return _committed(command, quotas.version, payload["cost"], left, command.idempotency_key, key_hash)

    def _refund(self, quotas: TenantQuotas, command: Command, now: int) -> Committed | Rejection:
        identity = str(command.payload["identity"])
        charge = quotas.charges.get(identity)
        if charge is None:
            return _UNKNOWN
        if charge.refunded_version is not None:
            return _REFUNDED
        held = {place: quotas.counters[place] for place in charge.counters if place in quotas.counters}  # or pruned
        given = {place: refund(owned, charge, now) for place, owned in held.items()}
        left = [
            {
                "policy_id": place[0],
                "policy_version": owned.policy_version,
                "remaining": max(0, owned.counter.available(now)),
                "reset_us": owned.counter.reset_us(now),
                "retry_us": 0,
            }
            for place, owned in given.items()
        ]
        quotas.version += 1
        charge.refunded_version, charge.refunded_at = quotas.version, now
        if identity not in quotas.charged:
            quotas.refunded[identity] = None
        quotas.counters |= given
        quotas.written |= dict.fromkeys(given)
        return _committed(command, quotas.version, charge.cost, left, identity, "")

    def _of(self, aggregate_key: str) -> TenantQuotas:
        return self._tenants.setdefault(aggregate_key, TenantQuotas())


def _committed(
    command: Command, version: int, cost: int, left: list[dict[str, Any]], identity: str, key_hash: str
) -> Committed:
    levels = [{name: level[name] for name in ("policy_id", "policy_version", "remaining")} for level in left]
    return Committed(
        result={"object": "quota_change", "identity": identity, "cost": cost, "levels": left},
        events=(
            NewEvent(
                version=version,
                scope=command.scope,
                body={
                    "policy": None,
                    "quota": {"identity": identity, "key_hash": key_hash, "cost": cost, "levels": levels},
                },
            ),
        ),
    )


def _digest(*texts: str) -> str:
    return hashlib.blake2b("\x1f".join(texts).encode(), digest_size=_DIGEST_BYTES).hexdigest()
