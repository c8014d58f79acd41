"""A small world for breaking owners: real Kafka and Postgres, owner processes to kill, commands with known effects."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from schemas import identity, records, services
from schemas.avro import codec
from schemas.fields import validation
from schemas.payments import topics
from schemas.senders import ROLES
from tests import asked
from tests.eventually import becomes, eventually, patient
from tests.worlds.senders import signed

if TYPE_CHECKING:
    from pathlib import Path

    from compose.settings.settings import Settings

SCOPE = "m_faults"
_LAST_WORDS_MAX = 1_500  # characters of a log


def command(
    name: str, key: str, payload: dict[str, Any], aggregate_key: str | None = None, **given: Any
) -> records.Command:
    """A command as an ingress would write it."""
    operation = services.OPERATIONS[name]
    normal, wrong = validation.normalize(operation.payload, payload)
    assert not wrong, wrong
    scope = given.pop("scope", SCOPE)
    aggregate = aggregate_key or identity.derived_id("pi", scope, operation.template, key)
    fields: dict[str, Any] = {
        "operation": name,
        "request_id": f"req_{key}",
        "idempotency_key": key,
        "aggregate_key": aggregate,
        "expected_version": None,
        "scope": scope,
        "request_hash": identity.request_hash(operation.template, aggregate, normal),
        "trace_id": "0" * 32,
        "issued_at": 1,
        "deadline_at": 0,
        "reply_to": -1,
        "reply_id": 0,
        "payload": normal,
    }
    return records.Command(**(fields | given))


@dataclass
class OwnerWorld:
    """Starts and stops owners, sends payments, and says what must be true in the end."""

    settings: Settings
    owners: list[subprocess.Popen[bytes]] = field(default_factory=list)
    sent: dict[str, int] = field(default_factory=dict)  # intent id -> amount

    def __post_init__(self) -> None:
        addresses = self.settings.addresses()
        self.dsn = addresses.postgres_superuser_dsn
        self.kafka = self.settings.kafka_as(*ROLES)
        self.producer = Producer(self.kafka.producer("faults"))

    # --- owners --------------------------------------------------------------------------------------------

    def start_owner(self, fail_point: str = "", driver: str = "bytewax", scale: int = 1) -> subprocess.Popen[bytes]:
        """An owner process; with a fail point it kills itself there. Its bounds are the real ones divided by ``scale``."""
        environment = (
            os.environ | self.settings.environment() | {"MILLRACE_OWNER_DRIVER": driver, "MILLRACE_OPS_PORT": "0"}
        )
        if fail_point:
            environment["MILLRACE_FAIL_POINT"] = fail_point
        log = self._log_of(len(self.owners)).open("ab")
        program = ["compose.services"] if scale == 1 else ["tests.faults.scaled_owner", str(scale)]
        owner = subprocess.Popen(
            [sys.executable, "-m", *program, "owner", "--instance", str(len(self.owners))],
            env=environment,
            stdout=log,
            stderr=log,
        )
        log.close()
        self.owners.append(owner)
        return owner

    def log(self, owner: subprocess.Popen[bytes]) -> str:
        """What it has said; an owner of the same number before it, too."""
        return self._log_of(self.owners.index(owner)).read_text()

    def _log_of(self, number: int) -> Path:
        return self.settings.the_home().log(f"fault-owner-{number}")

    def stop_owners(self) -> None:
        """SIGTERM to all, frozen ones woken first; SIGKILL to what does not end."""
        for owner in self.owners:
            if owner.poll() is None:
                owner.send_signal(signal.SIGCONT)
                owner.terminate()
        for owner in self.owners:
            try:
                owner.wait(patient(20))
            except subprocess.TimeoutExpired:
                owner.kill()
                owner.wait(patient(5))

    # --- traffic -------------------------------------------------------------------------------------------

    def send(self, *commands: records.Command) -> None:
        """Writes commands to their topic, acknowledged by all replicas."""
        for one in commands:
            self.append(codec.encode_command(one), one.aggregate_key)
        assert self.producer.flush(patient(30)) == 0

    def append(self, value: bytes, key: str) -> None:
        """A record as it is, by a sender who may."""
        headers = signed(self.kafka, topics.COMMANDS, key, value)
        self.producer.produce(topics.COMMANDS, value, key, headers=headers)

    def send_payments(self, count: int, *, duplicates: bool = True) -> list[str]:
        """Payments that are created, confirmed and captured; every command also a second time."""
        made = []
        commands: list[records.Command] = []
        for n in range(count):
            tag = uuid.uuid4().hex
            amount = 1_000 + n
            create = command(
                "create_payment_intent",
                f"{tag}-create",
                {"amount": amount, "currency": "USD", "payment_method": "tok_sim_approve"},
            )
            intent = create.aggregate_key
            confirm = command("confirm_payment_intent", f"{tag}-confirm", {}, intent)
            fact = command(
                "record_attempt_outcome",
                f"{tag}-captured",
                {
                    "operation_id": identity.operation_id(intent, 1),
                    "attempt": 1,
                    "status": "captured",
                    "provider_ref": f"sim_{n}",
                    "amount": amount,
                    "currency": "USD",
                },
                intent,
                scope="processor:simulator",
            )
            for one in (create, confirm, fact):
                commands += [one, one] if duplicates else [one]
            self.sent[intent] = amount
            made.append(intent)
        self.send(*commands)
        return made

    # --- what must be true ---------------------------------------------------------------------------------

    def query(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """Rows as the superuser sees them."""
        return asked.rows(self.dsn, sql, *parameters)

    def committed(self) -> int:
        """How many of our payments are final."""
        return self.query(
            "select count(*) from payment_intent where id = any(%s) and state = 'succeeded'", list(self.sent)
        )[0][0]

    def await_all(self, within_s: float = 45) -> None:
        """Every payment that was sent is final."""
        try:
            becomes(self.committed, len(self.sent), within_s, what="all payments final")
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self._owners_last_words()}") from None

    def _owners_last_words(self) -> str:
        """How each owner ended, or None, and what its log says last."""
        logs = (self.settings.the_home().log(f"fault-owner-{n}") for n in range(len(self.owners)))
        return "\n".join(
            f"owner {owner.pid}, exit {owner.poll()}: {log.read_text(errors='replace')[-_LAST_WORDS_MAX:]}"
            for owner, log in zip(self.owners, logs, strict=True)
        )

    def assert_exact(self) -> None:
        """Every payment has exactly one effect, in the aggregate, the ledger, the results, the outbox and on Kafka."""
        ids = list(self.sent)
        rows = self.query("select id, version, amount_received from payment_intent where id = any(%s)", ids)
        assert {r[0]: (r[1], r[2]) for r in rows} == {i: (3, amount) for i, amount in self.sent.items()}
        captured = self.query(
            "select t.aggregate_key, count(distinct t.txn_id), sum(e.debit) filter (where e.account_id like 'processor_receivable:%%')"
            " from ledger_txn t join ledger_entry e using (txn_id) where t.aggregate_key = any(%s) group by 1",
            ids,
        )
        assert {r[0]: (r[1], r[2]) for r in captured} == {i: (1, amount) for i, amount in self.sent.items()}
        assert self.query(
            "select count(*) from idempotency where aggregate_key = any(%s) and status = 'committed'", ids
        ) == [(3 * len(ids),)]
        versions = self.query(
            "select aggregate_key, array_agg(version order by seq) from outbox where aggregate_key = any(%s) group by 1",
            ids,
        )
        assert {tuple(v) for _, v in versions} == ({(1, 2, 3)} if ids else set())
        gaps = self.query(
            "select partition from outbox group by partition having count(*) <> max(seq) or min(seq) <> 1"
        )
        assert gaps == []
        unbalanced = self.query("select currency from ledger_entry group by 1 having sum(debit) <> sum(credit)")
        assert unbalanced == []
        derived = self.query(
            "select account_id, partition from account_balance full join ("
            " select e.account_id, t.partition, sum(e.debit) d, sum(e.credit) c, count(*) n"
            " from ledger_entry e join ledger_txn t using (txn_id) group by 1, 2) s using (account_id, partition)"
            " where (debits, credits, version) is distinct from (d, c, n)"
        )
        assert derived == []
        eventually(self.stream_is_outbox, 30, what="Kafka's events equal the outbox")

    def stream_is_outbox(self) -> bool:
        """The events topic, read with the consumers' rule (accept seq == last + 1), holds exactly the outbox."""
        consumer = Consumer(self.kafka.consumer("faults", f"faults-{uuid.uuid4().hex}"))
        expected = dict(self.query("select partition, array_agg(event_id order by seq) from outbox group by 1"))
        found: dict[int, list[str]] = defaultdict(list)
        try:
            ends = {p: _end_of(consumer, p) for p in range(topics.PARTITIONS)}
            consumer.assign([TopicPartition(topics.EVENTS, p, 0) for p in ends])
            left = sum(ends.values())
            while left:
                messages = consumer.consume(min(left, 1_000), 5)
                assert messages, f"{left} records of {ends} did not arrive"
                for message in messages:
                    assert not message.error(), message.error()
                    left -= 1
                    event = codec.decode_event(message.value())
                    if event.seq == len(found[message.partition()]) + 1:
                        found[message.partition()].append(event.event_id)
        finally:
            consumer.close()
        assert dict(found) == expected
        return True


def _end_of(consumer: Consumer, partition: int) -> int:
    """The offset after the last event. A broker that is too busy to say it is asked again by whoever waits for more."""
    try:
        offsets = consumer.get_watermark_offsets(TopicPartition(topics.EVENTS, partition), 5)
    except KafkaException as error:
        raise AssertionError(f"no end of partition {partition}: {error}") from None
    assert offsets is not None, f"no end of partition {partition} in time"
    return offsets[1]
