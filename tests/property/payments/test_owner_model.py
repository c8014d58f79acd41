"""What is promised: any history, through Kafka and either driver, with owners dying at any step, ends as the model says.

Duplicates, stale versions, keys used again with other bodies and from other partitions, unreadable records, late facts:
the intents, the answers, the ledger, the outbox and the published stream are compared, and then everybody retries.
"""

from __future__ import annotations

import dataclasses
import random
import threading
import uuid
from collections import defaultdict
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic, TopicPartition
from msgspec import structs

from dataflows.owner import fail_points
from dataflows.owner.drivers import Driver
from dataflows.owner.supervise import supervise
from dataflows.payments.service import payments_service
from schemas import codec, limits, topics
from schemas.errors import OwnershipLost
from schemas.payments import topics as payments_topics
from sinks.kafka.topics import ensure_topics
from tests.eventually import becomes, patient
from tests.gate import examples
from tests.property.payments import end_state
from tests.property.payments.history import History, Step, random_history
from tests.seeds import seeds
from tests.worlds.senders import KnownKeys, signed, signing

if TYPE_CHECKING:
    from collections.abc import Callable

    from schemas.records import Result
    from sinks.kafka.connection import KafkaConnection
    from tests.servers import World

pytestmark = [pytest.mark.servers, pytest.mark.slow]
PARTITIONS = payments_topics.PARTITIONS
STEPS = examples(300, 600)
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

    def __init__(self, kafka: KafkaConnection) -> None:
        name = uuid.uuid4().hex[:8]
        self.kafka = signing(kafka)
        payments = payments_service()
        self.service = dataclasses.replace(payments, declared=dataclasses.replace(payments.declared, name=name))
        ensure_topics(kafka)
        admin = AdminClient(kafka.admin())
        names = (self.service.commands_topic, self.service.events_topic, self.service.dead_letters_topic)
        for future in admin.create_topics([NewTopic(kafka.topic(n), PARTITIONS) for n in names]).values():
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
        headers = signed(self.kafka, self.service.commands_topic, key, value)
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


def _decided(stored: end_state.Stored) -> dict[int, int]:
    """Commands decided by partition; a partition without commands has no entry."""
    return {partition: count for partition, count in stored.positions().items() if count}


def own(
    stream: Stream, dsn: str, driver: Driver, stored: end_state.Stored, feed: list[list[Step]], *, group: str
) -> None:
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
        supervise(
            stream.kafka,
            dsn,
            stream.service,
            f"owner-{uuid.uuid4().hex[:6]}",
            stop,
            KnownKeys(),
            driver=driver,
            group=group,
        )
    finally:
        stop.set()
        thread.join()
    if failure:
        raise failure[0]


@pytest.mark.parametrize("seed", seeds(examples(1, 2)))
@pytest.mark.parametrize("driver", ["bytewax", "plain"])
def test_any_history_ends_in_the_models_state(
    driver: Driver,
    seed: int,
    stack: World,
    new_database: Callable[[], tuple[str, str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    chance = random.Random(seed)
    history = random_history(seed, STEPS, PARTITIONS, "pi_k")
    stream = Stream(stack.addresses.kafka)
    owner_dsn, superuser_dsn = new_database()
    stored = end_state.Stored(superuser_dsn)
    deaths = Deaths(chance)
    # Nobody comes after the last owner, to send what it could not send before it ended.
    monkeypatch.setattr(limits, "PUBLISH_DRAIN_TIMEOUT_S", patient(30))
    try:
        with monkeypatch.context() as patched:
            patched.setattr(limits, "BATCH_MESSAGES_MAX", chance.choice((2, 7, 50)))
            patched.setattr(fail_points, "reach", deaths.reach)
            own(
                stream,
                owner_dsn,
                driver,
                stored,
                _chunks(history, chance),
                group=f"{stream.service.events_topic}-owner",
            )
        assert deaths.suffered, "no owner died: this run would have proved little"
        end_state.check(history.steps, stream.replies(), stored)
        _everybody_retries(stream, owner_dsn, driver, stored, history)
        _published(stream, stored)
    finally:
        stored.close()


def _chunks(history: History, chance: random.Random) -> list[list[Step]]:
    chunks, rest = [], history.steps
    while rest:
        size = chance.choice((1, 5, 30, 120))
        chunks.append(rest[:size])
        rest = rest[size:]
    return chunks


def _everybody_retries(stream: Stream, dsn: str, driver: Driver, stored: end_state.Stored, history: History) -> None:
    """Every command that was decided is sent again: nothing changes, and everybody hears the stored bytes."""
    before, events = stored.responses(), stored.outbox()
    heard = len(stream.replies())
    decided = [
        s
        for s in history.steps
        if s.command and (s.command.scope, s.command.idempotency_key) in before and not s.invalid
    ]
    own(stream, dsn, driver, stored, [decided], group=f"{stream.service.events_topic}-again")
    assert stored.responses() == before
    assert stored.outbox() == events
    replies = stream.replies()[heard:]
    assert {r.reply_id for r in replies} == {s.number for s in decided}, "somebody heard nothing"
    for reply in replies:
        command = history.steps[reply.reply_id].command
        assert command is not None
        status, response = before[command.scope, command.idempotency_key]
        assert (reply.outcome, reply.body) == (status, response) or b"key_reused" in reply.body
        assert reply.replayed == (b"key_reused" not in reply.body)


def _published(stream: Stream, stored: end_state.Stored) -> None:
    """The stream as its consumers read it, seq by seq, is the outbox: nothing missing, nothing twice, nothing else."""
    outbox = stored.outbox()
    accepted: dict[int, list[bytes]] = defaultdict(list)
    for partition in range(PARTITIONS):
        for payload in stream.read(stream.service.events_topic, partition):
            if codec.decode_event(payload).seq == len(accepted[partition]) + 1:
                accepted[partition].append(payload)
        assert accepted[partition] == [row[3] for row in outbox.get(partition, [])]
    letters = [stream.read(stream.service.dead_letters_topic, p) for p in range(PARTITIONS)]
    parked = stored.rows("select record from dead_letter where state <> 'refused'")
    records = {codec.decode(letter)[1]["record"] for found in letters for letter in found}
    assert records == {bytes(row[0]) for row in parked}
