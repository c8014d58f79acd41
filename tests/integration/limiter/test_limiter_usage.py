"""Totals of keys on real Kafka and Postgres: exactly once, whoever reads and whatever is sent again."""

from __future__ import annotations

import math
import random
import threading
import uuid
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from confluent_kafka import Producer

from limiter.policy.keys import signed_hash
from limiter.policy.policies import PolicySet
from limiter.spending.decision import Decision
from limiter.stream.decisions import Recorder
from limiter.stream.kafka_blocks import KafkaBlocks
from limiter.stream.usage import SQL, UsageStream
from limiter.stream.usage_idle import IdleTotals, prune
from schemas import errors
from schemas.limiter import limits, topics
from sinks.kafka.topics import ensure_topics
from sinks.postgres.migrate import migrate
from sinks.streams.record_positions import RecordPositions
from sinks.streams.stand_by import StandBy
from tests.eventually import becomes, eventually
from tests.worlds.limiter.counter_server import Blocks, policy

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.servers import World

pytestmark = pytest.mark.servers
ALLOW = Decision(True, 9, 0, 0, "pl_a", 3)
DENY = ALLOW._replace(allowed=False, remaining=0)
SHADOW = PolicySet([policy("pl_shadow", shadow=True)], 1).all_levels()[0]
ROUNDS, KEYS = 200, 7


def test_a_key_of_any_length_is_added_up_and_trouble_is_told(stack: World, tmp_path: Path) -> None:
    """No index holds a key whole; while nothing can be added, the process is not ready and says why."""
    migrate(stack.addresses.postgres_superuser_dsn, stack.settings.role_passwords())
    ensure_topics(stack.addresses.kafka)
    tenant, superuser = f"t_{uuid.uuid4().hex[:8]}", stack.addresses.postgres_superuser_dsn
    user = "".join(random.Random(1).sample([chr(c) for c in range(0x4E00, 0x9FA5)], 1_000))
    kafka = KafkaBlocks(stack.addresses.kafka, "test-blocks")
    recorder = Recorder("g", kafka, tmp_path / "r", records=65_536)
    stream = UsageStream(stack.addresses.kafka, stack.addresses.postgres_dsns["millrace_worker"], "usage-long")
    thread = threading.Thread(target=stream.run)
    thread.start()
    try:
        becomes(stream.why_not_ready, None, 30)
        with psycopg.connect(superuser, autocommit=True) as connection:
            connection.execute("create index too_narrow on limit_usage (limit_key)")
            recorder.record(f"{tenant}:{user}:/r", 2, ALLOW)
            recorder.flush()
            assert eventually(stream.why_not_ready, 30).startswith("totals do not move: index row size")
            connection.execute("drop index too_narrow")
            becomes(stream.why_not_ready, None, 30)
            query = "select allowed, allowed_cost from limit_usage where limit_key = %s"
            assert connection.execute(query, (f"{tenant}:{user}:/r",)).fetchall() == [(1, 2)]
    finally:
        stream.stop()
        thread.join()
        recorder.close()
        kafka.close()
        with psycopg.connect(superuser, autocommit=True) as connection:
            connection.execute("drop index if exists too_narrow")


def test_totals_stand_still_before_what_cannot_be_read(stack: World, tmp_path: Path) -> None:
    """Of its partition alone, and not ready; an operator moves the position past it, and nothing behind it is missing."""
    migrate(stack.addresses.postgres_superuser_dsn, stack.settings.role_passwords())
    ensure_topics(stack.addresses.kafka)
    tenant, superuser = f"t_{uuid.uuid4().hex[:8]}", stack.addresses.postgres_superuser_dsn
    dsn, copies, kafka = (
        stack.addresses.postgres_dsns["millrace_worker"],
        Blocks(),
        KafkaBlocks(stack.addresses.kafka, "b"),
    )
    recorder = Recorder("g", copies, tmp_path / "r", records=65_536)
    recorder.record(f"{tenant}:u:/r", 2, ALLOW)
    recorder.flush()
    ((partition, block),) = copies.sent
    producer: Any = Producer(stack.addresses.kafka.producer("stranger"))
    producer.produce(stack.addresses.kafka.topic(topics.DECISIONS), b"no block", partition=partition)
    assert producer.flush(60) == 0
    assert kafka.send(partition, block)
    kafka.close()
    counted = "select allowed, allowed_cost from limit_usage where limit_key = %s"
    with psycopg.connect(superuser, autocommit=True) as connection:
        with running(UsageStream(stack.addresses.kafka, dsn, "usage-still")) as stream:
            eventually(lambda: "cannot be read" in (stream.why_not_ready() or ""), 30)
        assert connection.execute(counted, (f"{tenant}:u:/r",)).fetchall() == []
        offset = int(str(stream.why_not_ready()).partition("offset ")[2].partition(" ")[0])
        moved = "update stream_position set next_offset = %s where follower = 'limiter_usage' and partition = %s"
        connection.execute(moved, (offset + 1, partition))
        with running(UsageStream(stack.addresses.kafka, dsn, "usage-on")) as stream:
            becomes(lambda: connection.execute(counted, (f"{tenant}:u:/r",)).fetchall(), [(1, 2)], 30)
            becomes(stream.why_not_ready, None, 30)
    recorder.close()


def test_totals_that_nobody_asked_for_are_let_go(stack: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """With all that belongs to their keys, the longest idle first; of too many none but the last hours'."""
    migrate(stack.addresses.postgres_superuser_dsn, stack.settings.role_passwords())
    tenant = f"t_{uuid.uuid4().hex[:8]}"
    keys = [f"{tenant}:{name}:/r" for name in ("now", "today", "idle", "idler")]
    monkeypatch.setattr(limits, "LIMIT_USAGE_PRUNED_MAX", 1)
    superuser, worker = stack.addresses.postgres_superuser_dsn, stack.addresses.postgres_dsns["millrace_worker"]
    with psycopg.connect(superuser, autocommit=True) as connection, psycopg.connect(worker, autocommit=True) as role:
        role.execute(SQL["usage_add"], [keys, ["p"] * 4, *([[1] * 4] * 5)])
        role.execute(SQL["usage_add_shadows"], [keys, ["p"] * 4, [1] * 4, [1] * 4])
        for key, hours in zip(keys, (90 * 24 + 20, 23, 90 * 24 + 2, 90 * 24 + 9), strict=True):
            aged = "update limit_usage set seen_hour = now() - %s * interval '1 hour' where limit_key = %s"
            connection.execute(aged, (hours, key))
            refund = "insert into limit_usage_refund values (%s, 1, 1, now())"
            connection.execute(refund, (signed_hash(key),))
        role.execute(SQL["usage_add"], [keys[:1], ["p"], *([[1]] * 5)])  # it is asked for again

        def left() -> list[str]:
            query = """select limit_key from limit_usage join limit_usage_shadow using (key_digest)
                where limit_key = any(%s)"""
            found = {key for (key,) in connection.execute(query, (keys,))}
            hashes = [signed_hash(key) for key in keys]
            kept = connection.execute("select limit_key from limit_usage_refund where limit_key = any(%s)", (hashes,))
            assert {hash_ for (hash_,) in kept} == {signed_hash(key) for key in found}
            return [key for key in keys if key in found]

        assert (prune(role, is_full=False), left()) == (1, keys[:3])
        assert ([prune(role, is_full=False) for _ in range(2)], left()) == ([1, 0], keys[:2])
        connection.execute("analyze limit_usage")
        IdleTotals().let_go(role)
        assert left() == keys[:2]
        monkeypatch.setattr(limits, "LIMIT_USAGE_TOTALS_MAX", 1)
        idle = IdleTotals()
        for _ in range(3):
            idle.let_go(role)
        assert left() == keys[:1]
        role.execute(SQL["usage_source_counted"], [[tenant], [0], [5]])
        connection.execute("update limit_usage_source set counted_at = now() - interval '91 days'")
        IdleTotals().let_go(role)
        assert connection.execute("select from limit_usage_source where source = %s", (tenant,)).fetchall() == []


def test_who_follows_is_left_alone_until_it_leaves_or_says_nothing(stack: World) -> None:
    """Else two processes take a stream from each other for ever, and neither gets on."""
    migrate(stack.addresses.postgres_superuser_dsn, stack.settings.role_passwords())
    dsn, stop, name = stack.addresses.postgres_dsns["millrace_worker"], threading.Event(), uuid.uuid4().hex
    stands_by = StandBy(dsn, name, "some.topic")
    with psycopg.connect(dsn, autocommit=True) as connection:
        first, second = (RecordPositions(name, "some.topic", 2, holder) for holder in ("first", "second"))
        stands_by.wait(stop)  # nobody follows
        first.claim(connection)
        for end in (lambda: first.release(connection), stop.set):
            waiting = threading.Thread(target=stands_by.wait, args=(stop,))
            waiting.start()
            becomes(lambda: stands_by.is_waiting, True, 30)
            end()
            waiting.join()
            assert not stands_by.is_waiting
            first.claim(connection)
        stop.clear()
        aged = "update stream_position set held_at = now() - interval '6 seconds' where follower = %s"
        connection.execute(aged, (name,))
        stands_by.wait(stop)
        second.claim(connection)
        first.release(connection)  # it is not first's any more
        held = "select max(held_at) from stream_position where follower = %s"
        assert connection.execute(held, (name,)).fetchone() != (None,)
        first._said_at = -math.inf
        with pytest.raises(errors.Fenced):
            first.hold(connection)


@contextmanager
def running(stream: UsageStream) -> Iterator[UsageStream]:
    thread = threading.Thread(target=stream.run)
    thread.start()
    try:
        yield stream
    finally:
        stream.stop()
        thread.join()


def test_two_consumers_and_blocks_that_come_again(stack: World, tmp_path: Path) -> None:
    migrate(stack.addresses.postgres_superuser_dsn, stack.settings.role_passwords())
    ensure_topics(stack.addresses.kafka)
    tenant = f"t_{uuid.uuid4().hex[:8]}"
    copies, kafka = Blocks(), KafkaBlocks(stack.addresses.kafka, "test-blocks")
    recorder = Recorder("g", copies, tmp_path / "r", records=65_536)
    dsn = stack.addresses.postgres_dsns["millrace_worker"]
    streams = [UsageStream(stack.addresses.kafka, dsn, f"usage-{n}") for n in range(2)]
    threads = [threading.Thread(target=stream.run) for stream in streams]
    for thread in threads:
        thread.start()
    try:
        for _ in range(ROUNDS):
            for n in range(KEYS):
                recorder.record(f"{tenant}:u{n}:/r", 2, ALLOW, shadows=[SHADOW])
                recorder.record(f"{tenant}:u{n}:/r", 3, DENY)
            recorder.flush()
            for _ in range(2):  # as after a kill
                for partition, block in copies.sent:
                    assert kafka.send(partition, block)
            copies.sent.clear()
        kafka.close()

        def counted() -> list[tuple[int, ...]]:
            query = """select allowed, denied, allowed_cost, refused
                from limit_usage join limit_usage_shadow s using (key_digest)
                where limit_key like %s and s.policy_id = 'pl_shadow'"""
            with psycopg.connect(stack.addresses.postgres_reader_dsn) as connection:
                rows = connection.execute(query, (f"{tenant}:%",)).fetchall()
            assert len(rows) == KEYS
            assert min(allowed for allowed, *_ in rows) >= ROUNDS
            return rows

        assert eventually(counted, 30) == [(ROUNDS, ROUNDS, 2 * ROUNDS, ROUNDS)] * KEYS
    finally:
        for stream in streams:
            stream.stop()
        for thread in threads:
            thread.join()
        recorder.close()
