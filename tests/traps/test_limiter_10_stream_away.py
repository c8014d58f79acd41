"""Trap 10: Kafka is away at full load. No decision waits for it, and the gap is exactly what is missing in the end.

Totals of leases are exact when it is back.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, TopicPartition

from limiter.decide.limiter import Limiter
from limiter.spending.decision import Decision
from limiter.store.store import CounterStore
from limiter.stream.blocks import decisions_in, decode
from limiter.stream.decisions import Recorder
from limiter.stream.kafka_blocks import KafkaBlocks
from schemas.limiter import limits as limiter_limits
from schemas.limiter import topics
from sinks import limits as sinks_limits
from sinks.kafka.connection import KafkaConnection
from sinks.kafka.topics import ensure_topics
from tests.eventually import becomes, eventually, patient
from tests.freezing import frozen
from tests.servers import World, own_servers, process_id, without
from tests.worlds.limiter.counter_server import CounterServer, policies, policy
from tests.worlds.limiter.lease_world import PATIENT_S, WITHIN_S, Settled, lease_stream, reporting

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


pytestmark = [pytest.mark.servers, pytest.mark.faults, pytest.mark.slow]
QUEUED, ROUNDS, A_ROUND = 8, 40, 500
GIVEN_UP_MS = 1_000  # by whoever gives up for age: far less than the broker is frozen here
STOPPED_S = 3.0  # longer than a gateway takes its silence for slowness
CAPACITY = 1_000_000


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Servers of its own: its Kafka stands still for a while."""
    with own_servers(tmp_path_factory.mktemp("kafka"), **without("clickhouse")) as settings:
        yield World(settings)


def arrived(stack: World, source: str) -> list[int]:
    """The numbers of the decisions of one source in all of the topic."""
    consumer = Consumer(stack.addresses.kafka.consumer("test-gap", "test-gap"))
    topic = stack.addresses.kafka.topic(topics.DECISIONS)
    ends = {
        p: consumer.get_watermark_offsets(TopicPartition(topic, p), timeout=30)[1]
        for p in range(topics.DECISIONS_PARTITIONS)
    }
    consumer.assign([TopicPartition(topic, p, 0) for p in ends])
    left = {p for p, end in ends.items() if end}
    found: list[int] = []
    while left:
        for message in consumer.consume(100, 1.0):
            assert message.error() is None
            block = decode(message.value())
            if block.source.startswith(source):
                assert decisions_in(block) == len(block.columns())  # every one is a row
                found += block.numbers().tolist()
            if message.offset() + 1 >= ends[message.partition()]:
                left.discard(message.partition())
    consumer.close()
    return found


def test_decisions_go_on_while_the_broker_is_frozen_and_the_gap_is_what_is_missing(
    stack: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The queue for Kafka is full long before the last decision: every one is made while the broker answers nobody.

    What is under way when it falls silent may stand in its log or not: it arrives once, and is in the gap in no case,
    however long that takes. ``millrace bench limiter-outage`` says how long decisions take.
    """
    monkeypatch.setattr(limiter_limits, "LIMIT_BLOCKS_MAX", QUEUED)
    monkeypatch.setattr(sinks_limits, "KAFKA_DELIVERY_TIMEOUT_MS", GIVEN_UP_MS)
    ensure_topics(stack.addresses.kafka)
    server = CounterServer(tmp_path)
    blocks = KafkaBlocks(stack.addresses.kafka, "trap-10")
    recorder = Recorder("trap-10", blocks, tmp_path / "ring", records=4 * A_ROUND)

    async def load(rounds: int) -> tuple[int, int]:
        store = CounterStore(server.url, timeout_s=30)
        await store.load()
        gateway = Limiter(store, recorder, "trap-10")
        gateway.use(policies(policy(capacity=10**9)))
        allowed = 0
        for at in range(rounds):
            identities = [f"{rounds}-{at}-{n}" for n in range(A_ROUND)]
            decided = [await gateway.check("t", f"u{n % 20}", "/r", 1, one) for n, one in enumerate(identities)]
            allowed += sum(one.allowed for one in decided)
            recorder.flush()
        await store.close()
        return allowed, gateway.degraded

    try:
        assert asyncio.run(load(1)) == (A_ROUND, 0)
        becomes(lambda: blocks.under_way, 0, 60, what="Kafka is there")
        assert recorder.gap() == 0
        stopped_at = time.monotonic()
        with frozen([process_id(stack.settings, "kafka")]):
            assert asyncio.run(load(ROUNDS)) == (ROUNDS * A_ROUND, 0)
            assert blocks.under_way > 0  # the broker is still away: nobody waited for it
            given_up_at = stopped_at + 3 * GIVEN_UP_MS / 1_000
            eventually(
                lambda: blocks.under_way and time.monotonic() > given_up_at, 60, what="the broker is away longer"
            )
        becomes(lambda: blocks.under_way, 0, 60, what="Kafka takes what was queued")
        gap = recorder.gap()
        assert gap > 0
        decided = (1 + ROUNDS) * A_ROUND
        assert recorder.outcomes.named()["allowed"] == decided
        numbers = arrived(stack, "trap-10.")
        assert len(numbers) == len(set(numbers)) == decided - gap
    finally:
        recorder.close()
        blocks.close()
        server.close()


def test_a_ring_that_nobody_flushed_loses_the_oldest_and_says_so(tmp_path: Path, stack: World) -> None:
    ensure_topics(stack.addresses.kafka)
    blocks = KafkaBlocks(stack.addresses.kafka, "trap-10-ring")
    recorder = Recorder("trap-10-ring", blocks, tmp_path / "ring", records=100)
    for n in range(250):
        recorder.record(f"t:u{n % 3}:/r", 1, Decision(True, 9, 0, 0, "pl_a", 1))
    recorder.flush()
    becomes(lambda: blocks.under_way, 0, 60)
    assert recorder.gap() == 150
    assert sorted(arrived(stack, "trap-10-ring.")) == list(range(150, 250))
    recorder.close()
    blocks.close()


def test_what_finds_no_room_is_in_the_gap_at_once_and_what_waits_only_when_it_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody listens there. Blocks that were taken are kept for whenever somebody does; here they are thrown away."""
    monkeypatch.setattr(limiter_limits, "LIMIT_BLOCKS_MAX", 2)
    blocks = KafkaBlocks(KafkaConnection(bootstrap="127.0.0.1:9"), "trap-10-nobody")
    recorder = Recorder("trap-10-nobody", blocks, tmp_path / "ring", records=1_000)
    for n in range(300):
        recorder.record(f"t:u{n % 30}:/r", 1, Decision(n % 2 == 0, 9, 0, 0, "pl_a", 1))
    recorder.flush()
    assert 0 < recorder.gap() == recorder.refused < 300
    assert (blocks.under_way, blocks.lost) == (2, 0)
    blocks._producer.purge()
    becomes(lambda: blocks.under_way, 0, 60, what="Kafka's client says so")
    assert (recorder.gap(), blocks.lost, blocks.failed) == (300, 300 - recorder.refused, 2)
    recorder.close()
    blocks.close()


async def loaded(gateway: Limiter, seconds: float, leased_min: int = 0) -> tuple[int, int]:
    """Decisions, and those out of leases; for longer where there are too few of these yet."""
    total = leased = 0
    until = asyncio.get_running_loop().time() + seconds
    while asyncio.get_running_loop().time() < until or leased < leased_min:
        for decided in await asyncio.gather(*(gateway.check("t", "u", "/r") for _ in range(20))):
            assert decided.allowed
            assert not decided.degraded
            total += 1
            leased += decided.approximate
        await asyncio.sleep(0.002)
    return total, leased


def test_decisions_go_on_and_lease_totals_are_exact_afterwards(stack: World, tmp_path: Path) -> None:
    name = f"k{uuid.uuid4().hex[:8]}"
    settled = Settled(stack, name)

    async def test() -> int:
        terms = policy(f"pl_{name}", capacity=CAPACITY)
        async with reporting(stack, tmp_path, terms, name) as gateway, asyncio.timeout(patient(PATIENT_S)):
            before = await loaded(gateway, 1.0, leased_min=1)
            with frozen([process_id(stack.settings, "kafka")]):
                during = await loaded(gateway, STOPPED_S)
            after = await loaded(gateway, 1.0, leased_min=1)  # Kafka has to find itself again
            assert during[0] > during[1]  # the store was asked for what could not be reported
            await gateway.close()
            gateway._recorder.flush()
            return before[1] + during[1] + after[1]

    with lease_stream(stack):
        leased = asyncio.run(test())
        eventually(lambda: settled.sums()[2] == leased and settled.open() == 0, WITHIN_S, what="exact totals")
    _, granted, reported, assumed, released = settled.sums()
    assert (assumed, granted) == (0, reported + released)
    assert settled.reasons() <= {"returned", "closed"}
    assert settled.violations() == []
