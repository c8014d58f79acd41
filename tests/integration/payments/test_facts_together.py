"""Facts that come one by one are produced together: an owner decides them in one round."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from prometheus_client import CollectorRegistry

from dataflows.payments.attempts.fact_producer import FactProducer
from dataflows.payments.attempts.facts import Fact
from dataflows.payments.attempts.metrics import AttemptMetrics
from schemas.payments import limits
from schemas.senders import PROCESSOR_WORKER
from tests.worlds.payments.attempts_world import AttemptsWorld, new_attempt, trace_of, world

if TYPE_CHECKING:
    from typing import Any

__all__ = ["world"]
pytestmark = pytest.mark.servers

_FACTS = 5
_APART_S = 0.1


def test_facts_that_come_one_by_one_are_produced_together_and_each_once(
    world: AttemptsWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "ATTEMPT_FACTS_GATHER_MS", 2_000)
    attempts = [new_attempt() for _ in range(_FACTS)]
    assert asyncio.run(_told(world, attempts)) == [True] * _FACTS
    issued = [world.fact(attempt, "captured").issued_at for attempt in attempts]
    assert max(issued) - min(issued) < _APART_S * 1_000_000
    assert [len(world.facts(attempt)) for attempt in attempts] == [1] * _FACTS


async def _told(world: AttemptsWorld, attempts: list[dict[str, Any]]) -> list[bool]:
    kafka = world.settings.kafka_of("processor_worker", PROCESSOR_WORKER)
    producer = FactProducer(kafka, "test", AttemptMetrics(CollectorRegistry()))

    async def told(number: int, attempt: dict[str, Any]) -> bool:
        await asyncio.sleep(number * _APART_S)  # so far apart its answer comes
        return await producer.produce(_fact(attempt))

    try:
        return await asyncio.gather(*(told(number, attempt) for number, attempt in enumerate(attempts)))
    finally:
        await producer.close()


def _fact(attempt: dict[str, Any]) -> Fact:
    return Fact(
        operation_id=attempt["operation_id"],
        intent_id=attempt["intent_id"],
        attempt=attempt["attempt"],
        processor="simulator",
        trace_id=trace_of(attempt),
        send_count=1,
        status="captured",
        provider_ref="ref",
        amount=attempt["amount"],
        currency=attempt["currency"],
        error_code=None,
    )
