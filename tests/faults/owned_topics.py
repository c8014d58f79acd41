"""Topics that are cut, expire, are made again or refuse records, under an owner with a database of its own."""

from __future__ import annotations

import copy
import threading
import uuid
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import psycopg
from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from confluent_kafka.cimpl import NewTopic

from dataflows.owner.supervise import supervise
from dataflows.payments.service import payments_service
from schemas import topics
from schemas.avro import codec
from schemas.payments import topics as payments_topics
from sinks.kafka.admin import KafkaAdmin
from sinks.kafka.topic_offsets import Held, TopicOffsets
from tests import asked
from tests.eventually import becomes, eventually, patient
from tests.faults.owners import command
from tests.migrated import clone_database, in_database
from tests.property.owner_history import Stream
from tests.worlds.senders import KnownKeys, signed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dataflows.owner.drivers import Driver
    from dataflows.owner.process import OwnerProcess
    from dataflows.owner.senders import Keys
    from schemas.records import Command
    from tests.servers import World

PARTITION, OTHER, UNUSED = 3, 5, 7


class OwnedTopics:
    """Commands and events of one service whose owner the test starts and ends."""

    def __init__(self, stack: World, owner_dsn: str, superuser_dsn: str, operator_dsn: str) -> None:
        self.stream = Stream(stack.addresses.kafka, payments_service())
        self.kafka = self.stream.kafka
        self.commands = self.stream.service.commands_topic
        self.events = self.stream.service.events_topic
        self.operator_dsn = operator_dsn
        self._owner_dsn, self._dsn = owner_dsn, superuser_dsn
        self._admin = KafkaAdmin(self.kafka.admin())
        self._number = 0
        self.process: OwnerProcess | None = None

    # --- the owner -----------------------------------------------------------------------------------------

    @contextmanager
    def owned(self, driver: Driver = "plain", keys: Keys | None = None) -> Iterator[None]:
        """An owner is at work inside the block, and has drained after it."""
        stop = threading.Event()
        arguments: dict[str, Any] = {
            "driver": driver,
            "group": f"{self.commands}-owner",
            "on_start": lambda process: setattr(self, "process", process),
        }
        where = (self.kafka, self._owner_dsn, self.stream.service, "owner-topics", stop, keys or KnownKeys())
        thread = threading.Thread(target=supervise, args=where, kwargs=arguments)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join(patient(40))
            assert not thread.is_alive()

    def stands_still(self) -> dict[int, str]:
        """What the owner's /readyz says."""
        return self.process.standing_still() if self.process is not None else {}

    def known_senders(self) -> set[bytes]:
        """Whose records the owner takes."""
        assert self.process is not None
        return set(self.process.reader._senders._known)

    # --- commands and what became of them ------------------------------------------------------------------

    def make(self, count: int, partition: int = PARTITION) -> list[Command]:
        """Commands, never the same twice, whose payments belong to the partition."""
        found: list[Command] = []
        while len(found) < count:
            self._number += 1
            payload = {"amount": self._number, "currency": "USD", "payment_method": "tok_sim_approve"}
            made = command("create_payment_intent", f"topics-{self._number}", payload)
            if topics.partition_for(made.aggregate_key, payments_topics.PARTITIONS) == partition:
                found.append(made)
        return found

    def send(self, *commands: Command, partition: int = PARTITION) -> None:
        """Appends them to the command topic, acknowledged."""
        producer = Producer(self.kafka.producer("topics"))
        for one in commands:
            self._produce(producer, one, partition)
        assert producer.flush(patient(30)) == 0

    def send_in_a_transaction(self, *commands: Command, partition: int = PARTITION) -> None:
        """The same by a producer whose marker takes an offset that is no command's."""
        settings = self.kafka.producer("topics", **{"transactional.id": uuid.uuid4().hex})
        producer = Producer(settings)
        producer.init_transactions(patient(30))
        producer.begin_transaction()
        for one in commands:
            self._produce(producer, one, partition)
        producer.commit_transaction(patient(30))

    def _produce(self, producer: Producer, one: Command, partition: int) -> None:
        value, key = codec.encode_command(one), one.aggregate_key
        headers = signed(self.kafka, self.commands, key, value)
        producer.produce(self.kafka.topic(self.commands), value, key, partition, headers=headers)

    def decided(self) -> set[str]:
        """The aggregates of all commands that have a stored result."""
        return {row[0] for row in self.query("select aggregate_key from idempotency")}

    def await_decided(self, *commands: Command) -> None:
        """All of them have a stored result."""
        wanted = {one.aggregate_key for one in commands}
        becomes(lambda: wanted - self.decided(), set(), 40, what="commands without a result")

    def halted(self) -> dict[int, str]:
        """The reason by partition."""
        rows = self.query("select partition, halted from partition_owner where halted is not null")
        return dict(rows)  # type: ignore[arg-type]

    def await_halted(self, code: str, partition: int = PARTITION) -> str:
        """The reason, which begins with this code."""
        reason = eventually(lambda: self.halted().get(partition), 40, what=f"partition {partition} halted")
        assert reason.startswith(f"{code}: "), reason
        return reason

    def query(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """Rows as the superuser sees them."""
        return asked.rows(self._dsn, sql, *parameters)

    def copied(self) -> OwnedTopics:
        """The same topics over a copy of the database as it is now. No owner is at work."""
        asked.end()  # nobody may have a session in what is copied
        name = f"topics_{uuid.uuid4().hex[:10]}"
        superuser = clone_database(in_database(self._dsn, "postgres"), name, urlsplit(self._dsn).path.strip("/"))
        found = copy.copy(self)
        found._dsn, found._owner_dsn = superuser, in_database(self._owner_dsn, name)
        found.operator_dsn = in_database(self.operator_dsn, name)
        return found

    def change(self, sql: str) -> None:
        """A statement of the superuser."""
        with psycopg.connect(self._dsn, autocommit=True) as connection:
            connection.execute(sql)

    def read_by_seq(self, partition: int = PARTITION) -> list[str]:
        """The events of a partition as readers take them: exactly last + 1."""
        found: list[str] = []
        for value in self.stream.read(self.events, partition):
            event = codec.decode_event(value)
            if event.seq == len(found) + 1:
                found.append(event.event_id)
        return found

    def outbox(self, partition: int = PARTITION) -> list[str]:
        """The events of a partition as they were committed."""
        rows = self.query("select event_id from outbox where partition = %s order by seq", partition)
        return [row[0] for row in rows]

    def published_seq(self, partition: int = PARTITION) -> int:
        """How far Postgres says that they are on Kafka."""
        return int(self.query("select published_seq from partition_owner where partition = %s", partition)[0][0])

    # --- what happens to topics ----------------------------------------------------------------------------

    def held(self, partition: int = PARTITION) -> Held:
        """What Kafka holds of the command topic."""
        return TopicOffsets(self.kafka, self.commands).ask([partition]).answer()[partition]

    def make_again(self, name: str) -> None:
        """The topic is deleted, and there is an empty one of its name: what is sent from now on lies in that."""
        topic = self.kafka.topic(name)
        before = self._held(name)[PARTITION].topic_id
        self._admin.delete_topics([topic])[topic].result(patient(30))
        eventually(lambda: self._is_made(topic), 30, what="the topic made again")
        # a busy broker answers for the old topic for a while, and takes records into it
        eventually(
            lambda: all(held.topic_id != before and not held.high for held in self._held(name).values()),
            30,
            what="an empty topic with a leader of every partition",
        )

    def _is_made(self, topic: str) -> bool:
        try:
            self._admin.create_topics([NewTopic(topic, payments_topics.PARTITIONS)])[topic].result(patient(30))
        except KafkaException as error:  # the old one is not gone yet
            assert error.args[0].name() == "TOPIC_ALREADY_EXISTS", error
            return False
        return True

    def _held(self, name: str) -> dict[int, Held]:
        try:
            return TopicOffsets(self.kafka, name).ask(range(payments_topics.PARTITIONS)).answer()
        except KafkaException as error:  # a partition without a leader
            raise AssertionError(str(error)) from None

    def expire(self, name: str, before: int, partition: int = PARTITION) -> None:
        """Retention takes what lies before this offset; -1 is all."""
        place = TopicPartition(self.kafka.topic(name), partition, before)
        self._admin.delete_records([place])[place].result(patient(30))

    def refuse_above(self, name: str, bytes_max: int) -> None:
        """The topic refuses larger records from now on. Its controller knows it a moment before the broker obeys."""
        self._bound(name, bytes_max)
        eventually(lambda: self._is_refused(name, bytes_max + 1), what="a larger record is refused")

    def refuse_none(self, name: str) -> None:
        """The topic takes what it took before, soon."""
        self._bound(name, 1_000_000)

    def _bound(self, name: str, bytes_max: int) -> None:
        entry = ConfigEntry("max.message.bytes", str(bytes_max), incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, self.kafka.topic(name), incremental_configs=[entry])
        self._admin.incremental_alter_configs([resource])[resource].result(patient(30))

    def _is_refused(self, name: str, bytes_: int) -> bool:
        """Of a record in a partition that no test looks at."""
        refusals: list[KafkaError | None] = []
        producer = Producer(self.kafka.producer("large"))
        record = bytes(bytes_)
        producer.produce(self.kafka.topic(name), record, partition=UNUSED, on_delivery=lambda e, _: refusals.append(e))
        assert producer.flush(patient(30)) == 0
        return refusals[0] is not None and refusals[0].code() == KafkaError.MSG_SIZE_TOO_LARGE


def owned_topics(stack: World) -> OwnedTopics:
    """Topics and a database that nobody else uses."""
    name = f"topics_{uuid.uuid4().hex[:10]}"
    dsns = stack.addresses.postgres_dsns
    superuser = clone_database(stack.addresses.postgres_superuser_dsn, name)
    owner, operator = (in_database(dsns[role], name) for role in ("millrace_owner", "millrace_operator"))
    return OwnedTopics(stack, owner, superuser, operator)
