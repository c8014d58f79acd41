"""A world for processor-attempt workers alone: real Kafka, Postgres and simulator, and tests that play the owner.

Events are written as an owner publishes them, facts are read from the command topic. The topics are a module's
own, because made-up events would confuse everything else that reads the stream.
"""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import uuid
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import httpx
import psycopg
import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.cimpl import TopicPartition

from schemas import identity
from schemas.avro import codec
from schemas.payments import topics
from schemas.topics import partition_for
from sinks.kafka.topics import ensure_topics
from tests import asked
from tests.eventually import eventually, patient
from tests.servers import clean_environment

if TYPE_CHECKING:
    from collections.abc import Iterator

    from compose.settings.settings import Settings
    from schemas.records import Command
    from tests.servers import World

MERCHANT: Final = "m_test"
_STOP_WITHIN_S: Final = 15
_FLUSH_WITHIN_S: Final = 10
_TOO_LATE: Final = frozenset({"timeout", "vault_timeout", "vault_502"})  # an answer, at the worker or at the vault


def new_attempt(token: str = "tok_sim_approve", **changes: Any) -> dict[str, Any]:
    """A processor_attempt that an owner has just committed, of an intent of its own."""
    intent_id = "pi_" + uuid.uuid4().hex[:26]
    attempt: dict[str, Any] = {
        "intent_id": intent_id,
        "attempt": 1,
        "kind": "purchase",
        "status": "created",
        "operation_id": "",
        "processor": "simulator",
        "amount": 1_234,
        "currency": "USD",
        "payment_method": token,
        "parent_ref": None,
        "final": True,
        "provider_ref": None,
        "error_code": None,
        "created_at": 0,
        "updated_at": 0,
        "settled_line": None,
    } | changes
    attempt["operation_id"] = identity.operation_id(attempt["intent_id"], attempt["attempt"])
    return attempt


def next_attempt(attempt: dict[str, Any], number: int, **changes: Any) -> dict[str, Any]:
    """Another attempt of the same payment."""
    operation_id = identity.operation_id(attempt["intent_id"], number)
    return attempt | {"attempt": number, "operation_id": operation_id} | changes


def event_of(attempt: dict[str, Any], caused_by: dict[str, Any] | None = None, seq: int = 1) -> bytes:
    """The event of a commit that made or changed this attempt, because of another one perhaps, as published."""
    intent = {
        "id": attempt["intent_id"],
        "merchant_id": MERCHANT,
        "amount": attempt["amount"],
        "currency": attempt["currency"],
        "state": "processing",
        "version": 2,
        "capture_method": "automatic",
        "payment_method": attempt["payment_method"],
        "processor": attempt["processor"],
        "amount_capturable": 0,
        "amount_received": 0,
        "amount_refunded": 0,
        "amount_disputed": 0,
        "amount_pending": 0,
        "last_payment_error": None,
        "cancellation_reason": None,
        "latest_attempt": attempt["attempt"],
        "metadata": {},
        "created_at": 0,
        "updated_at": 0,
    }
    event = {
        "event_id": "evt_" + uuid.uuid4().hex,
        "aggregate_key": attempt["intent_id"],
        "event_type": "payment_system_committed",
        "schema_version": 2,
        "trace_id": trace_of(attempt),
        "seq": seq,
        "occurred_at": 0,
        "version": 2,
        "scope": MERCHANT,
        "operation": "confirm_payment_intent",
        "body": {
            "payment_intent": intent,
            "processor_attempt": attempt,
            "ledger_txns": [],
            "refund": None,
            "dispute": None,
            "caused_by": caused_by,
        },
    }
    return codec.encode("PaymentSystemCommitted", event)


def partition_of(attempt: dict[str, Any]) -> int:
    """Where the events of this attempt lie."""
    return partition_for(attempt["intent_id"], topics.PARTITIONS)


def trace_of(attempt: dict[str, Any]) -> str:
    """A trace id of this attempt's own."""
    return uuid.uuid5(uuid.NAMESPACE_OID, attempt["operation_id"]).hex


@dataclass
class AttemptsWorld:
    """The servers, and what a test does with them."""

    settings: Settings
    producer: Producer
    consumer: Consumer
    facts_seen: list[Command] = field(default_factory=list)
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    last_seqs: Counter[int] = field(default_factory=Counter)  # of the events published so far, by partition

    @property
    def events_topic(self) -> str:
        """Where owners publish."""
        return self.settings.addresses().kafka.topic(topics.EVENTS)

    def publish(self, *attempts: dict[str, Any]) -> None:
        """Publishes an event for each and waits until Kafka has them."""
        for attempt in attempts:
            self.write(attempt, self.next_event(attempt))
        assert self.producer.flush(patient(_FLUSH_WITHIN_S)) == 0

    def publish_with_cause(self, attempt: dict[str, Any], caused_by: dict[str, Any]) -> None:
        """Publishes one event about two attempts."""
        self.write(attempt, self.next_event(attempt, caused_by))
        assert self.producer.flush(patient(_FLUSH_WITHIN_S)) == 0

    def next_event(self, attempt: dict[str, Any], caused_by: dict[str, Any] | None = None) -> bytes:
        """The next event of its partition; it is not published yet."""
        partition = partition_of(attempt)
        self.last_seqs[partition] += 1
        return event_of(attempt, caused_by, self.last_seqs[partition])

    def write(self, attempt: dict[str, Any], record: bytes) -> None:
        """A record where the events of this attempt lie."""
        self.producer.produce(self.events_topic, record, attempt["intent_id"])

    def settle(self, attempt: dict[str, Any], status: str) -> None:
        """The owner's event that settles an attempt."""
        self.publish(attempt | {"status": status})

    def all_facts(self) -> list[Command]:
        """Every fact so far, oldest first within its partition."""
        while message := self.consumer.poll(0.02):
            assert not message.error()
            self.facts_seen.append(codec.decode_command(message.value()))
        return self.facts_seen

    def facts(self, attempt: dict[str, Any]) -> list[Command]:
        """All facts about an attempt so far, oldest first."""
        return [f for f in self.all_facts() if f.payload["operation_id"] == attempt["operation_id"]]

    def statuses(self, attempt: dict[str, Any], expected: int | None = None) -> list[str]:
        """The statuses of all facts about an attempt so far.

        Where so many are ``expected`` and more were told: without as many time-outs of calls. A machine that lets an answer
        wait for longer than a call may last makes doubts that are right; what else is told too much is not.
        """
        told = self.facts(attempt)
        late = [f for f in told if f.payload["status"] == "unknown" and f.payload["error_code"] in _TOO_LATE]
        surplus = 0 if expected is None else max(len(told) - expected, 0)
        return [str(fact.payload["status"]) for fact in told if fact not in late[:surplus]]

    def fact(self, attempt: dict[str, Any], status: str, within_s: float = 10) -> Command:
        """The fact with this status, once it is there."""
        return eventually(
            lambda: next((f for f in self.facts(attempt) if f.payload["status"] == status), None),
            within_s,
            what=f"fact {status} of {attempt['payment_method']}",
        )

    def row(self, attempt: dict[str, Any]) -> dict[str, Any] | None:
        """The dispatch row of an attempt."""
        query = "select * from attempt_dispatch where operation_id = %s"
        return asked.record(self.settings.addresses().postgres_superuser_dsn, query, attempt["operation_id"])

    def row_reaches(self, attempt: dict[str, Any], status: str, within_s: float = 10) -> dict[str, Any]:
        """The row, once it has this status."""

        def reached() -> dict[str, Any] | None:
            row = self.row(attempt)
            return row if row and row["status"] == status else None

        return eventually(reached, within_s, what=f"row {status}")

    def database(self) -> psycopg.Connection:
        """A connection that may do anything."""
        return psycopg.connect(self.settings.addresses().postgres_superuser_dsn, autocommit=True)

    def effects(self, processor: str = "simulator") -> Counter[str]:
        """How often a processor's own book holds each operation."""
        book = httpx.get(f"{self.settings.addresses().processor_urls[processor]}/book", timeout=20).json()
        return Counter(entry["operation_id"] for entries in book.values() for entry in entries)

    def health(self, processor: str) -> dict[str, Any]:
        """What routers are told of a processor; empty before the first word."""
        query = "select * from processor_health where processor = %s"
        return asked.record(self.settings.addresses().postgres_superuser_dsn, query, processor) or {}

    def launch(
        self, service: str, instance: int = 0, module: str = "compose.services", **environment: str
    ) -> tuple[subprocess.Popen[bytes], int]:
        """Starts a service of ours, which ends with the test; with the port of its operator."""
        port = free_port()
        variables = clean_environment() | self.settings.environment() | environment
        process = subprocess.Popen(
            [sys.executable, "-m", module, service, "--instance", str(instance)],
            env=variables | {"MILLRACE_OPS_PORT": str(port)},
        )
        self.processes.append(process)
        return process, port

    def start(self, service: str, instance: int = 0, **environment: str) -> subprocess.Popen[bytes]:
        """Starts a service of ours and waits until it is ready; it ends with the test."""
        process, port = self.launch(service, instance, **environment)
        if service == "simulator":
            port = self.settings.addresses().processors[instance].port
        eventually(lambda: is_ready(port) or process.poll() is not None, 60, what=f"{service} ready")
        assert "MILLRACE_FAIL_POINT" in environment or process.poll() is None, f"it ended with {process.returncode}"
        return process

    def end(self, process: subprocess.Popen[bytes]) -> int:
        """Drains a service and returns its exit status."""
        process.terminate()
        try:
            return process.wait(patient(_STOP_WITHIN_S))
        finally:
            process.kill()
            process.wait()
            self.processes.remove(process)

    def end_all(self) -> None:
        """Ends what is left of started services; drained, so that the next worker need not wait for the group."""
        for process in self.processes:
            process.send_signal(signal.SIGCONT)
            process.terminate()
        for process in self.processes:
            try:
                process.wait(patient(_STOP_WITHIN_S))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.processes.clear()


def free_port() -> int:
    """A port that the kernel says is free."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def is_ready(port: int) -> bool:
    """True when /readyz answers 200 there."""
    return (readiness(port) or (0,))[0] == 200


def readiness(port: int) -> tuple[int, str] | None:
    """What /readyz says there; None where nobody answers."""
    try:
        answer = httpx.get(f"http://127.0.0.1:{port}/readyz", timeout=2)
    except httpx.HTTPError:
        return None
    return answer.status_code, answer.text.strip()


@contextmanager
def attempts_world(settings: Settings) -> Iterator[AttemptsWorld]:
    """On these servers, with topics and tables, without a worker or simulator yet."""
    addresses = settings.addresses()
    ensure_topics(addresses.kafka)
    consumer = Consumer(addresses.kafka.consumer("test", "test"))
    commands = addresses.kafka.topic(topics.COMMANDS)
    consumer.assign([TopicPartition(commands, p, 0) for p in range(topics.PARTITIONS)])
    made = AttemptsWorld(settings, Producer(addresses.kafka.producer("test")), consumer)
    try:
        yield made
    finally:
        made.end_all()
        consumer.close()


@pytest.fixture(scope="module")
def world(stack: World) -> Iterator[AttemptsWorld]:
    """One world for a module's tests; each uses intents of its own."""
    with attempts_world(stack.settings) as made:
        yield made
