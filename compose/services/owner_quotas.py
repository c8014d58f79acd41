"""The way of a gateway to the owners of durable quotas: a command on Kafka, and the result that comes back for it.

A command carries the moment until which its gateway waits: an owner that reads it later does nothing. What was decided
in time and not heard is decided: the same identity gets the same answer, from any gateway.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from typing import TYPE_CHECKING, Any, Final

import msgspec

from ingress.commands.exchange import Exchange
from limiter.decide.durable import Answer, Left, OwnerUnavailable
from schemas import errors, identity, topics
from schemas.limiter import limits
from schemas.limiter.operations import OPERATIONS
from schemas.limiter.quota_fields import quotas_of, scope_of
from schemas.records import Command

if TYPE_CHECKING:
    from ingress.commands.pending import Pending
    from limiter.decide.durable import Asked
    from sinks.kafka.connection import KafkaConnection

#: results of gateways are heard on the upper half of the partitions, those of ingress processes on all from the first
_FIRST_RESULTS_PARTITION: Final = topics.RESULTS_PARTITIONS // 2
_US_PER_S: Final = 1_000_000
_decode: Final = msgspec.json.Decoder().decode


class OwnerQuotas:
    """Durable quotas for one event loop; nothing is connected before the first durable policy comes."""

    def __init__(
        self, kafka: KafkaConnection, name: str, instance: int, *, timeout_s: float = limits.LIMIT_DURABLE_TIMEOUT_S
    ) -> None:
        self._exchange = Exchange(kafka, _FIRST_RESULTS_PARTITION + instance, None, name)
        self._timeout_s = timeout_s
        self._started = False

    def prepare(self) -> None:
        """Connects in the background, once."""
        if not self._started:
            self._started = True
            self._exchange.start()

    async def close(self) -> None:
        """Disconnects."""
        if self._started:
            await self._exchange.close()

    async def consume(self, asked: Asked) -> Answer:
        """The owner's decision. Raises OwnerUnavailable, KeyReused."""
        levels = [{"policy_id": id_, "version": version, "counted_by": values} for id_, version, values in asked.levels]
        asked_for: dict[str, object] = {**asked.parts, "cost": asked.cost}
        # the policies are no part of the request: a retry after a publication is the same one
        outcome = await self._carried_out("consume_quota", asked.identity, asked_for, {**asked_for, "levels": levels})
        body = _decode(outcome.body)
        if outcome.outcome == "committed":
            return Answer(allowed=True, duplicate=outcome.replayed, levels=_levels(body["result"]["levels"]))
        if body["code"] == "quota_exceeded":
            return Answer(allowed=False, duplicate=False, levels=_levels(body["levels"]))
        raise _refused(body)

    async def refund(self, tenant: str, consumed: str) -> int:
        """Gives back, once, what was consumed under a digest: its cost, 0 for nothing. Raises OwnerUnavailable."""
        payload: dict[str, object] = {"tenant": tenant, "identity": consumed}
        outcome = await self._carried_out("refund_quota", f"refund:{consumed}", payload, payload)
        body = _decode(outcome.body)
        if outcome.outcome == "committed":
            return int(body["result"]["cost"])
        if body["code"] in ("not_found", "state_conflict"):
            return 0
        raise _refused(body)

    async def _carried_out(
        self, operation: str, key: str, asked_for: dict[str, object], payload: dict[str, object]
    ) -> Pending:
        self.prepare()
        ends_at = time.monotonic() + self._timeout_s
        command = _command(operation, key, asked_for, payload, self._timeout_s)
        while True:
            left_s = ends_at - time.monotonic()
            try:
                (pending,) = await self._exchange.carry_out([command], left_s, only_acknowledged=False, bulk=False)
            except (errors.Overloaded, errors.QuotaExceeded) as error:
                raise OwnerUnavailable(cause=error.public) from error
            except errors.Unavailable as error:  # not connected yet: nothing was sent
                if left_s <= 0:
                    raise OwnerUnavailable(cause=error.public) from error
                await asyncio.sleep(limits.LIMIT_DURABLE_CONNECT_POLL_S)
                continue
            if pending.outcome is None:
                raise OwnerUnavailable(cause=str(pending.error or "no result in time"))
            return pending


def _command(
    operation: str, key: str, asked_for: dict[str, object], payload: dict[str, object], timeout_s: float
) -> Command:
    quotas = quotas_of(str(payload["tenant"]))
    now = time.time_ns() // 1_000
    return Command(
        operation=operation,
        request_id=key,
        idempotency_key=key,
        aggregate_key=quotas,
        expected_version=None,
        scope=scope_of(quotas),
        request_hash=identity.request_hash(OPERATIONS[operation].template, quotas, asked_for),
        trace_id=uuid.uuid4().hex,
        issued_at=now,
        deadline_at=now + int(timeout_s * _US_PER_S),
        reply_to=-1,
        reply_id=0,
        payload=payload,
    )


def _levels(rows: list[dict[str, Any]]) -> dict[str, Left]:
    return {
        row["policy_id"]: Left(row["policy_version"], row["remaining"], row["reset_us"], row["retry_us"])
        for row in rows
    }


def _refused(body: dict[str, Any]) -> OwnerUnavailable:
    """Another cost under the same identity is the caller's fault (KeyReused); all else leaves the decision open."""
    if body["code"] == errors.KeyReused.code:
        raise errors.KeyReused
    return OwnerUnavailable(cause=f"{body['code']}: {body['detail']}")
