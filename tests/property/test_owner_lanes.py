"""One owner process in this process, on real Kafka and Postgres: what its lanes do with batches that must not be committed."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest
from prometheus_client import REGISTRY

from dataflows import limits
from dataflows.owner import fail_points
from dataflows.owner.batch import PartitionBatch, Record
from dataflows.owner.drivers import run_plain
from dataflows.owner.process import OwnerProcess
from dataflows.owner.supervise import supervise
from dataflows.payments.domain import commands as domain
from dataflows.payments.service import payments_service
from schemas import topics
from schemas.avro import codec
from schemas.errors import Fenced, OwnershipLost
from schemas.payments import topics as payments_topics
from tests.eventually import becomes, eventually, patient
from tests.faults.owners import command
from tests.property.owner_history import Stored, Stream
from tests.worlds.senders import KnownKeys

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from schemas.records import Command
    from tests.servers import World

pytestmark = pytest.mark.servers
PARTITION = 3


class Death(OwnershipLost):
    """The batch fails as a whole, at a fail point; nothing of it is parked."""


class OneOwner:
    """Topics and a database of their own, and an owner that the test turns."""

    def __init__(self, stack: World, owner_dsn: str, superuser_dsn: str) -> None:
        self.stream = Stream(stack.addresses.kafka, payments_service())
        self.dsn = owner_dsn
        self.stored = Stored(superuser_dsn)
        self.stop = threading.Event()

    def process(self) -> OwnerProcess:
        group = f"{self.stream.service.events_topic}-lanes"
        return OwnerProcess(
            self.stream.kafka, self.dsn, self.stream.service, "owner-lanes", group, self.stop, KnownKeys()
        )

    def send(self, *commands: Command, partition: int = PARTITION) -> None:
        self.stream.append(*((partition, codec.encode_command(one), one.aggregate_key) for one in commands))

    def committed(self) -> list[int]:
        """The offsets whose results are stored, in order."""
        return [row[0] for row in self.stored.rows('select "offset" from idempotency order by 1')]

    def next_offset(self) -> int:
        return self.stored.positions().get(PARTITION, 0)


@pytest.fixture
def owner(stack: World, new_database: Callable[[], tuple[str, str]]) -> Iterator[OneOwner]:
    """It is asked to stop when the test ends."""
    one = OneOwner(stack, *new_database())
    yield one
    one.stop.set()
    one.stored.close()


def creates(count: int, partition: int = PARTITION) -> list[Command]:
    """Commands whose payments belong to the partition."""
    found: list[Command] = []
    number = 0
    while len(found) < count:
        number += 1
        payload = {"amount": number, "currency": "USD", "payment_method": "tok_sim_approve"}
        made = command("create_payment_intent", f"lanes-{number}", payload)
        if topics.partition_for(made.aggregate_key, payments_topics.PARTITIONS) == partition:
            found.append(made)
    return found


def test_what_follows_a_failed_batch_waits_for_it(owner: OneOwner, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another lane may hold the next batch of the same partition already: committing it would skip the failed one."""
    monkeypatch.setattr(limits, "BATCH_MESSAGES_MAX", 2)
    deaths = []

    def reach(point: str) -> None:
        if point == "before_commit" and not deaths:
            # every later batch is read by now, so that a lane could take it at once
            eventually(lambda: len(process.reader.rounds._ready) >= 3, what="batches that wait behind this one")
            deaths.append(point)
            raise Death

    monkeypatch.setattr(fail_points, "reach", reach)
    owner.send(*creates(8))
    process = owner.process()
    try:
        with pytest.raises(Death):
            run_plain(process)
    finally:
        process.close()
    assert (owner.committed(), owner.next_offset()) == ([], 0)
    assert deaths == ["before_commit"]
    thread = _supervised(owner)
    becomes(owner.committed, list(range(8)), 30, what="all committed by the next owner")
    _ended(owner, thread)


def test_a_batch_that_does_not_follow_what_was_committed_is_refused(owner: OneOwner) -> None:
    """A stale batch, read before the partition went away and came back, would leave the commands between undone."""
    first, second, third = creates(3)
    process = owner.process()
    try:
        lease = process.leases.acquire(process.lanes[0].connection, PARTITION)
        assert lease is not None
        process.publisher.resume(process.lanes[0].connection, lease)
        process.lanes[0].commit([PartitionBatch(PARTITION, [Record(0, b"", first)], lease.epoch)])
        assert owner.committed() == [0]
        with pytest.raises(OwnershipLost):
            process.lanes[1].commit([PartitionBatch(PARTITION, [Record(2, b"", third)], lease.epoch)])
        assert (owner.committed(), owner.next_offset()) == ([0], 1)
        assert process.leases.get(PARTITION) is None, "no lane may go on with this partition before it is read again"
        del second
    finally:
        process.close()


def test_a_partition_that_somebody_else_has_keeps_no_other_of_its_round_from_its_commit(owner: OneOwner) -> None:
    """All of a round in one transaction; what fails of it fails alone."""
    (lost,), (kept,) = creates(1), creates(1, partition=PARTITION + 1)
    process = owner.process()
    try:
        connection = process.lanes[0].connection
        leases = [process.leases.acquire(connection, p) for p in (PARTITION, PARTITION + 1)]
        batches = [
            PartitionBatch(lease.partition, [Record(0, b"", one)], lease.epoch)
            for lease, one in zip(leases, (lost, kept), strict=True)
            if lease is not None
        ]
        owner.stored.rows(f"update partition_owner set epoch = epoch + 1 where partition = {PARTITION} returning 1")
        with pytest.raises(Fenced):
            process.lanes[0].commit(batches)
        assert owner.stored.rows("select id from payment_intent") == [(kept.aggregate_key,)]
        assert owner.stored.positions() == {PARTITION: 0, PARTITION + 1: 1}
    finally:
        process.close()


def test_a_command_that_fails_is_parked_and_the_rest_of_its_round_is_committed(
    owner: OneOwner, monkeypatch: pytest.MonkeyPatch
) -> None:
    (poison,), (sound,) = creates(1), creates(1, partition=PARTITION + 1)
    decide = domain.decide

    def explode(payment: object, command: Command, context: object) -> object:
        if command.aggregate_key == poison.aggregate_key:
            raise ZeroDivisionError
        return decide(payment, command, context)

    monkeypatch.setattr(domain, "decide", explode)
    process = owner.process()
    try:
        batches = []
        for one, partition in ((poison, PARTITION), (sound, PARTITION + 1)):
            lease = process.leases.acquire(process.lanes[0].connection, partition)
            assert lease is not None
            batches.append(PartitionBatch(partition, [Record(0, b"poison", one)], lease.epoch))
        pieces = process.lanes[0].commit(batches)
        assert sorted((p.partition, p.parked, p.closes) for p in pieces) == [
            (PARTITION, 1, True),
            (PARTITION + 1, 0, True),
        ]
        assert owner.stored.rows("select id from payment_intent") == [(sound.aggregate_key,)]
        assert owner.stored.rows("select aggregate_key from dead_letter") == [(poison.aggregate_key,)]
    finally:
        process.close()


def test_a_round_keeps_what_it_refuses_and_who_sent_the_rest_by_partition(
    owner: OneOwner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Refused records are counted once, after the commit, although the round was tried in vain before."""
    tries = []

    def reach(point: str) -> None:
        if point == "before_commit" and not tries:
            tries.append(point)
            raise ZeroDivisionError

    def refused() -> float:
        return REGISTRY.get_sample_value("millrace_owner_refused_records_total", {"reason": "mac_wrong"}) or 0

    monkeypatch.setattr(fail_points, "reach", reach)
    process, before, batches = owner.process(), refused(), []
    try:
        for partition in (PARTITION, PARTITION + 1):
            lease = process.leases.acquire(process.lanes[0].connection, partition)
            (one,) = creates(1, partition=partition)
            assert lease is not None
            records = [Record(0, b"forged", refused="mac_wrong"), Record(1, b"", one, sender=f"ingress.{partition}")]
            batches.append(PartitionBatch(partition, records, lease.epoch))
        assert len(process.lanes[0].commit(batches)) == len(batches)
    finally:
        process.close()
    assert owner.stored.rows('select partition, "offset", sender from idempotency order by 1') == [
        (PARTITION, 1, f"ingress.{PARTITION}"),
        (PARTITION + 1, 1, f"ingress.{PARTITION + 1}"),
    ]
    kept = 'select partition, "offset", reason, record, state from dead_letter order by 1'
    assert owner.stored.rows(kept) == [
        (partition, 0, "mac_wrong: sent by nobody known", b"forged", "refused")
        for partition in (PARTITION, PARTITION + 1)
    ]
    assert (tries, refused() - before) == (["before_commit"], 2)


def test_a_round_is_one_transaction(owner: OneOwner) -> None:
    """Commands of several partitions share their statements, their commit and its write to the disk."""
    process = owner.process()
    try:
        batches = []
        for partition in range(4):
            lease = process.leases.acquire(process.lanes[0].connection, partition)
            (one,) = creates(1, partition=partition)
            assert lease is not None
            batches.append(PartitionBatch(partition, [Record(0, b"", one)], lease.epoch))
        assert len(process.lanes[0].commit(batches)) == len(batches)
        assert owner.stored.rows("select count(*), count(distinct xmin::text) from idempotency") == [(4, 1)]
    finally:
        process.close()


def test_lost_ownership_starts_the_owner_over(owner: OneOwner, monkeypatch: pytest.MonkeyPatch) -> None:
    """It joins again, takes the lease with a higher epoch, and nothing is missing."""
    lost = []

    def reach(point: str) -> None:
        if point == "after_claim" and len(lost) < 2:
            lost.append(point)
            raise OwnershipLost("as a test has it")

    monkeypatch.setattr(fail_points, "reach", reach)
    owner.send(*creates(5))
    thread = _supervised(owner)
    becomes(owner.committed, list(range(5)), 40, what="all committed in the end")
    epochs = owner.stored.rows(f"select epoch from partition_owner where partition = {PARTITION}")
    assert len(lost) == 2
    assert epochs[0][0] >= 3, "and once more for each time that Kafka missed its heartbeats"
    _ended(owner, thread)


def test_a_command_in_a_partition_of_another_aggregate_is_refused_and_not_stored(owner: OneOwner) -> None:
    """A producer of its own partitioning could otherwise split one payment between two owners."""
    (strange,) = creates(1, partition=PARTITION + 1)
    (own,) = creates(1)
    owner.send(strange, own)
    thread = _supervised(owner)
    becomes(owner.next_offset, 2, 30, what="both decided")
    assert owner.committed() == [1]
    assert owner.stored.rows("select id from payment_intent") == [(own.aggregate_key,)]
    _ended(owner, thread)


def _supervised(owner: OneOwner) -> threading.Thread:
    def run() -> None:
        group = f"{owner.stream.service.events_topic}-again"
        supervise(
            owner.stream.kafka, owner.dsn, owner.stream.service, "owner-again", owner.stop, KnownKeys(), group=group
        )

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def _ended(owner: OneOwner, thread: threading.Thread) -> None:
    owner.stop.set()
    thread.join(patient(30))
    assert not thread.is_alive()
