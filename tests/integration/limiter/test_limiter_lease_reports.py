"""The stream of leases on a real Valkey and a real Kafka: exact in the end, and no decision depends on it."""

from __future__ import annotations

import asyncio
import uuid
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, TopicPartition

from limiter.stream.kafka_blocks import KafkaReports
from limiter.stream.lease_book import LeaseReport, decode_reports, encode_reports, unreported_max
from schemas.limiter import topics
from sinks.kafka.topics import ensure_topics
from tests.eventually import eventually
from tests.worlds.limiter.counter_server import CounterServer, limiter, policy
from tests.worlds.limiter.lease_reports import Reports

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from limiter import Decision, Limiter
    from tests.servers import World

pytestmark = pytest.mark.servers
GENEROUS_S = 30.0  # for a store on a loaded machine
DECISIONS = 5_000


@pytest.fixture
def server(tmp_path: Path) -> Iterator[CounterServer]:
    found = CounterServer(tmp_path / "valkey")
    yield found
    found.close()


async def decided(gateway: Limiter, count: int) -> AsyncIterator[Decision]:
    """Decisions on one key, with turns of the loop between them."""
    for _ in range(count // 50):
        for decision in await asyncio.gather(*(gateway.check("t", "u", "/r") for _ in range(50))):
            yield decision
        await asyncio.sleep(0.001)


def test_reports_sum_up_to_what_leases_allowed(server: CounterServer, tmp_path: Path) -> None:
    async def arriving(reports: Reports) -> None:
        while True:
            await asyncio.sleep(0.001)
            reports.arrive()

    async def test() -> None:
        reports = Reports()
        terms = policy(capacity=1_000_000)
        async with limiter(server.url, tmp_path, terms, timeout_s=GENEROUS_S, reports=reports) as gateway:
            tasks = [asyncio.create_task(part) for part in (gateway._recorder.run(), arriving(reports))]
            answers = [decision async for decision in decided(gateway, DECISIONS)]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await gateway.close()
            gateway._recorder.flush()
            reports.arrive()
        assert all(answer.allowed for answer in answers)
        leased = sum(answer.approximate for answer in answers)
        newest = reports.newest().values()
        assert leased > 0
        assert sum(r.allowed_cost for r in newest) == sum(r.allowed_n for r in newest) == leased
        assert all(r.closed and r.settled for r in newest)

    asyncio.run(test())


def test_a_silent_kafka_delays_no_decision_and_hides_no_spend(server: CounterServer, tmp_path: Path) -> None:
    """Rule: beyond what Kafka knows at most an eighth of a lease is spent; the store decides the rest, and exactly."""

    async def test() -> None:
        reports = Reports()
        async with limiter(server.url, tmp_path, policy(), timeout_s=GENEROUS_S, reports=reports) as gateway:
            answers = []
            async for answer in decided(gateway, DECISIONS):
                answers.append(answer)
                for bucket in gateway._buckets.values():
                    assert bucket.granted - bucket.left - bucket.held <= unreported_max(bucket.granted)
            assert not any(answer.degraded for answer in answers)
            allowed = sum(answer.allowed for answer in answers)
            assert 1_000 - 100 <= allowed <= 1_000  # leases of one key hold at most a tenth
            await gateway.close()
            gateway._recorder.flush()
            reports.arrive()
            assert sum(r.allowed_n for r in reports.newest().values()) == sum(
                answer.approximate and answer.allowed for answer in answers
            )

    asyncio.run(test())


def test_reports_arrive_on_kafka(stack: World) -> None:
    ensure_topics(stack.addresses.kafka)
    sink, told = KafkaReports(stack.addresses.kafka, "test-reports"), list[bool]()
    report = LeaseReport(
        lease_id=uuid.uuid4().hex,
        key_hash="0" * 32,
        policy_id="pl_a",
        policy_version=1,
        epoch=0,
        terms=b"",
        granted=8,
        ends_at_us=1,
    )
    assert sink.send(1, encode_reports([report]), told.append)
    sink.close()
    assert told == [True]
    consumer = Consumer(stack.addresses.kafka.consumer("test-reports", "test-reports"))
    consumer.assign([TopicPartition(stack.addresses.kafka.topic(topics.LEASES), 1, 0)])
    found: list[LeaseReport] = []

    def arrived() -> bool:
        for message in consumer.consume(100, 0.2):
            found.extend(decode_reports(message.value() or b""))
        return report in found

    try:
        assert eventually(arrived, 60)
    finally:
        consumer.close()
