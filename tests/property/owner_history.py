"""What holds of every service's owners: a history through Kafka and either driver, with owners that die at any step.

A service gives its ``OwnedService``, random steps and a check of its end state; the rest is the same for all of them.
"""

from __future__ import annotations

import dataclasses
import random
import threading
import uuid
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psycopg
from confluent_kafka import Consumer, Producer
from confluent_kafka.cimpl import NewTopic, TopicPartition
from msgspec import structs

from dataflows import limits as dataflows_limits
from dataflows.owner import fail_points
from dataflows.owner.drivers import Driver
from dataflows.owner.supervise import supervise
from dataflows.owner.transaction.retried import Retried
from schemas import limits, stored_answer, stored_event, topics
from schemas.avro import codec
from schemas.errors import OwnershipLost
from sinks.kafka.admin import KafkaAdmin
from sinks.kafka.topics import ensure_topics
from tests.eventually import becomes, patient
from tests.worlds.senders import KnownKeys, signed, signing

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pytest

    from dataflows.owner.service import OwnedService
    from schemas.records import Command, Result
    from sinks.kafka.connection import KafkaConnection

CRASHES_MAX = 5
_SETTLED_WITHIN_S = 60
_OWN_POINTS = frozenset(fail_points.NAMES[:7])


class Crash(OwnershipLost):
    """The owner ends here, as if killed; the next one takes over with a higher epoch."""


class Deaths:
    """Decides at every fail point whether the owner dies there; soon one does: large batches reach few points."""

    def __init__(self, chance: random.Random) -> None:
        self.chance, self.left, self.suffered = chance, CRASHES_MAX, list[str]()
        self.until_first = chance.randrange(20)

    def reach(self, point: str) -> None:
        assert point in fail_points.NAMES
        if point not in _OWN_POINTS:
            return
        self.until_first -= 1
        if self.left and (self.until_first == -1 or self.chance.random() < 0.06):
            self.left -= 1
            self.suffered.append(point)
            raise Crash(point)


class Stream:
    """Topics of one history, and everything that goes in and out of them."""

    def __init__(self, kafka: KafkaConnection, service: OwnedService) -> None:
        self.kafka = signing(kafka)
        self.partitions = service.declared.partitions
        # a name, and so topics, of its own
        declared = dataclasses.replace(service.declared, name=uuid.uuid4().hex[:8])
        self.service = dataclasses.replace(service, declared=declared)
        ensure_topics(kafka)
        admin = KafkaAdmin(kafka.admin())
        names = (self.service.commands_topic, self.service.events_topic, self.service.dead_letters_topic)
        for future in admin.create_topics([NewTopic(kafka.topic(n), self.partitions) for n in names]).values():
            future.result(timeout=patient(30))
        self.reply_base = random.randrange(2**40) << 20  # the topic of results is everybody's
        self._producer = Producer(kafka.producer("history"))
        self._commands = kafka.topic(self.service.commands_topic)

    def send(self, steps: list[Step]) -> None:
        """Appends the steps to the command topic, in order."""
        for step in steps:
            data = step.garbage
            if step.command is not None:
                reply_id = self.reply_base + step.number
                data = codec.encode_command(structs.replace(step.command, reply_id=reply_id))
            self._append(step.partition, data, step.command and step.command.aggregate_key)
        assert self._producer.flush(patient(30)) == 0

    def append(self, *records: tuple[int, bytes, str]) -> None:
        """Appends records as they are: partition, value, key."""
        for partition, value, key in records:
            self._append(partition, value, key)
        assert self._producer.flush(patient(30)) == 0

    def _append(self, partition: int, value: bytes, key: str | None) -> None:
        operations = self.service.declared.operation_by_name
        headers = signed(self.kafka, self.service.commands_topic, key, value, operations)
        self._producer.produce(self._commands, value, key, partition, headers=headers)

    def read(self, topic: str, partition: int) -> list[bytes]:
        """Every record of a partition as it is now."""
        consumer = Consumer(self.kafka.consumer("history", f"history-{uuid.uuid4().hex}"))
        try:
            place = TopicPartition(self.kafka.topic(topic), partition, 0)
            low, high = consumer.get_watermark_offsets(place, timeout=patient(10))
            found: list[bytes] = []
            if high > low:
                place.offset = low
                consumer.assign([place])
                while len(found) < high - low:
                    came = consumer.consume(high - low - len(found), 1)
                    found += [message.value() or b"" for message in came if message.error() is None]
            return found
        finally:
            consumer.close()

    def replies(self) -> list[Result]:
        """The answers to this history's commands, by step number."""
        records = self.read(topics.RESULTS, 0)
        found = [reply for record in records for reply in codec.decode_results(record)]
        mine = [r for r in found if r.reply_id >> 20 == self.reply_base >> 20]
        return [structs.replace(r, reply_id=r.reply_id - self.reply_base) for r in mine]


@dataclass
class Step:
    """One record of the topic: a command, or bytes that are none."""

    number: int
    partition: int
    command: Command | None
    invalid: bool = False
    misrouted: bool = False  # written to a partition that does not own the aggregate
    garbage: bytes = b""


class Stored:
    """What lies in the database of a history."""

    def __init__(self, dsn: str) -> None:
        self._connection = psycopg.connect(dsn, autocommit=True)

    def close(self) -> None:
        """Ends the connection."""
        self._connection.close()

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        """All rows of a query."""
        return self._connection.execute(statement.encode()).fetchall()

    def positions(self) -> dict[int, int]:
        """The next offset per partition."""
        return dict(self.rows("select partition, next_offset from partition_owner"))  # type: ignore[arg-type]

    def responses(self) -> dict[tuple[str, str], tuple[str, bytes]]:
        """Status and stored answer by identity, rendered from its event where that is how it is stored."""
        found = self.rows(
            "select merchant_id, key, status, response, payload from idempotency"
            " left join outbox using (event_id) order by 1, 2"
        )
        return {
            (scope, key): (status, stored_answer.whole(bytes(response), event))
            for scope, key, status, response, event in found
        }

    def winners(self) -> dict[tuple[str, str], tuple[int, int]]:
        """Which command an identity belongs to."""
        return {
            (r[0], r[1]): (r[2], r[3])
            for r in self.rows('select merchant_id, key, partition, "offset" from idempotency')
        }

    def outbox(self) -> dict[int, list[tuple[int, str, int, bytes]]]:
        """Events by partition: seq, aggregate, version, payload."""
        found: dict[int, list[tuple[int, str, int, bytes]]] = defaultdict(list)
        for p, *row, payload in self.rows(
            "select partition, seq, aggregate_key, version, payload from outbox order by partition, seq"
        ):
            found[p].append((*row, stored_event.published(bytes(payload))))  # type: ignore[arg-type]
        return found


def _decided(stored: Stored) -> dict[int, int]:
    """Commands decided by partition; a partition without commands has no entry."""
    return {partition: count for partition, count in stored.positions().items() if count}


def own(stream: Stream, dsn: str, driver: Driver, stored: Stored, feed: list[list[Step]], *, group: str) -> None:
    """Runs owners, one after another as they die, until everything that is fed in is decided."""
    stop, wanted = threading.Event(), _decided(stored)
    failure: list[BaseException] = []

    def feeding() -> None:
        try:
            for steps in feed:
                stream.send(steps)
                for step in steps:
                    wanted[step.partition] = wanted.get(step.partition, 0) + 1
            becomes(lambda: _decided(stored), wanted, _SETTLED_WITHIN_S, what="all decided")
        except BaseException as error:  # noqa: BLE001 - handed to the test's own thread
            failure.append(error)
        finally:
            stop.set()

    thread = threading.Thread(target=feeding)
    thread.start()
    try:
        name = f"owner-{uuid.uuid4().hex[:6]}"
        supervise(stream.kafka, dsn, stream.service, name, stop, KnownKeys(), driver=driver, group=group)
    finally:
        stop.set()
        thread.join()
    if failure:
        raise failure[0]


def end_as_modelled(
    stream: Stream,
    owner_dsn: str,
    stored: Stored,
    steps: list[Step],
    check: Callable[[list[Result]], None],
    *,
    driver: Driver,
    chance: random.Random,
    monkeypatch: pytest.MonkeyPatch,
    batches: Sequence[int] = (2, 7, 50),
) -> None:
    """Owners carry the steps out, dying meanwhile; then ``check`` is given their answers, and everybody retries.

    A batch has so many messages at most as one of ``batches`` says.
    """
    deaths = Deaths(chance)
    # Histories say things in names that nobody may speak in: they are signed as parked ones that were all let try again.
    monkeypatch.setattr(Retried, "allows", lambda *_: True)
    # Nobody comes after the last owner, to send what it could not send before it ended.
    monkeypatch.setattr(limits, "PUBLISH_DRAIN_TIMEOUT_S", patient(30))
    with monkeypatch.context() as patched:
        patched.setattr(dataflows_limits, "BATCH_MESSAGES_MAX", chance.choice(batches))
        patched.setattr(fail_points, "reach", deaths.reach)
        own(stream, owner_dsn, driver, stored, _chunks(steps, chance), group=f"{stream.service.events_topic}-owner")
    assert deaths.suffered, "no owner died: this run would have proved little"
    check(stream.replies())
    _everybody_retries(stream, owner_dsn, driver, stored, steps)
    _published(stream, stored)


def _chunks(steps: list[Step], chance: random.Random) -> list[list[Step]]:
    chunks, rest = [], steps
    while rest:
        size = chance.choice((1, 5, 30, 120))
        chunks.append(rest[:size])
        rest = rest[size:]
    return chunks


def _everybody_retries(stream: Stream, dsn: str, driver: Driver, stored: Stored, steps: list[Step]) -> None:
    """Every command that was decided is sent again: nothing changes, and everybody hears the stored bytes."""
    before, events = stored.responses(), stored.outbox()
    heard = len(stream.replies())
    decided = [
        s for s in steps if s.command and (s.command.scope, s.command.idempotency_key) in before and not s.invalid
    ]
    own(stream, dsn, driver, stored, [decided], group=f"{stream.service.events_topic}-again")
    assert stored.responses() == before
    assert stored.outbox() == events
    replies = stream.replies()[heard:]
    assert {r.reply_id for r in replies} == {s.number for s in decided}, "somebody heard nothing"
    for reply in replies:
        command = steps[reply.reply_id].command
        assert command is not None
        status, response = before[command.scope, command.idempotency_key]
        assert (reply.outcome, reply.body) == (status, response) or b"key_reused" in reply.body
        assert reply.replayed == (b"key_reused" not in reply.body)


def _published(stream: Stream, stored: Stored) -> None:
    """The stream as its consumers read it, seq by seq, is the outbox: nothing missing, nothing twice, nothing else."""
    outbox = stored.outbox()
    accepted: dict[int, list[bytes]] = defaultdict(list)
    for partition in range(stream.partitions):
        for payload in stream.read(stream.service.events_topic, partition):
            if codec.decode_event(payload).seq == len(accepted[partition]) + 1:
                accepted[partition].append(payload)
        assert accepted[partition] == [row[3] for row in outbox.get(partition, [])]
    letters = [stream.read(stream.service.dead_letters_topic, p) for p in range(stream.partitions)]
    parked = stored.rows("select record from dead_letter where state <> 'refused'")
    records = {codec.decode(letter)[1]["record"] for found in letters for letter in found}
    assert records == {bytes(row[0]) for row in parked}
