"""Durable quotas without a gateway: commands as gateways write them, policies as they lie in the database."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import msgspec
import psycopg

from schemas import identity
from schemas.limiter import limits
from schemas.limiter.limit_policy import counted_by
from schemas.limiter.operations import OPERATIONS
from schemas.limiter.quota_fields import quotas_of, scope_of
from schemas.records import Command
from tests.worlds.limiter.counter_server import policy

if TYPE_CHECKING:
    from schemas.limiter.limit_policy import LimitPolicy

#: no test lasts until this window ends
LONG_WINDOW_MS = limits.LIMIT_WINDOW_MS_MAX


def durable(name: str = "pl_a", version: int = 1, **changes: Any) -> LimitPolicy:
    """A long window of a hundred, counted for each key."""
    return policy(name, version, **{"consistency": "durable", "window_ms": LONG_WINDOW_MS, "capacity": 100} | changes)


def put_policies(superuser_dsn: str, *policies: LimitPolicy) -> None:
    """What publications leave behind."""
    with psycopg.connect(superuser_dsn, autocommit=True) as connection:
        for found in policies:
            connection.execute(
                "insert into policy (policy_id, publisher, scope, algorithm, capacity, refill_rate, version,"
                " active_version, body, partition, created_at, updated_at) values (%s, 'm', %s, %s, %s, %s, %s, %s,"
                " %s, 0, now(), now()) on conflict (policy_id) do update set version = excluded.version,"
                " active_version = excluded.version, body = excluded.body",
                (
                    found.policy_id,
                    msgspec.json.encode(found.scope).decode(),
                    found.algorithm,
                    found.capacity,
                    found.refill_rate,
                    found.version,
                    found.version,
                    msgspec.json.encode(found).decode(),
                ),
            )


def digest(text: str) -> str:
    """An identity as a gateway sends it."""
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def consume(key: str, cost: int, *policies: LimitPolicy, tenant: str = "t", user: str = "u", **fields: Any) -> Command:
    """A consumption under an identity."""
    parts = {"tenant": tenant, "user": user, "route": "/r"}
    levels = [{"policy_id": p.policy_id, "version": p.version, "counted_by": counted_by(p, parts)} for p in policies]
    asked: dict[str, object] = {**parts, "cost": cost}
    return _command("consume_quota", digest(key), asked, {**asked, "levels": levels}, **fields)


def refund(key: str, *, tenant: str = "t", **fields: Any) -> Command:
    """What was consumed under an identity is given back."""
    asked: dict[str, object] = {"tenant": tenant, "identity": digest(key)}
    return _command("refund_quota", f"refund:{digest(key)}", asked, asked, **fields)


def _command(name: str, key: str, asked: dict[str, object], payload: dict[str, object], **fields: Any) -> Command:
    quotas = quotas_of(str(payload["tenant"]))
    given: dict[str, Any] = {
        "operation": name,
        "request_id": key,
        "idempotency_key": key,
        "aggregate_key": quotas,
        "expected_version": None,
        "scope": scope_of(quotas),
        "request_hash": identity.request_hash(OPERATIONS[name].template, quotas, asked),
        "trace_id": "0" * 32,
        "issued_at": 1,
        "deadline_at": 0,
        "reply_to": 0,
        "reply_id": 0,
        "payload": payload,
    }
    return Command(**given | fields)
