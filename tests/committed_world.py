"""Commits as an owner makes them, without an owner: decided by the real domain, encoded by the real codec, stored in
the real tables. Tests of what reads commits (sink, check, replay) are thereby independent of what writes them.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import msgspec
from confluent_kafka import Producer

from compose.simulator.operations import provider_ref_for
from dataflows.domain import commands as domain
from dataflows.domain.decision import Context, Decision, Payment
from dataflows.domain.fees import FeeSchedule
from dataflows.payments.partition import txn_id
from schemas import codec, identity, topics
from schemas.records import Command, LedgerTxn, PaymentIntent, ProcessorAttempt
from sinks.postgres.ledger_chain import GENESIS, link_hash

if TYPE_CHECKING:
    from collections.abc import Iterable

    import psycopg

    from sinks.kafka.connection import KafkaConnection

START_US = 1_790_000_000_000_000
_CURRENCIES = (("USD", 2), ("EUR", 2), ("JPY", 0), ("KWD", 3))


@dataclass(slots=True)
class Commit:
    """One committed command with everything its transaction wrote."""

    partition: int
    offset: int
    seq: int
    event_id: str
    command: Command
    intent: PaymentIntent
    attempt: ProcessorAttempt | None
    txns: list[LedgerTxn]
    payload: bytes
    occurred_at: int


@dataclass(slots=True)
class _Partition:
    offset: int = 0
    seq: int = 0
    link: int = 0
    hash: bytes = GENESIS


@dataclass
class CommittedWorld:
    """A seeded history of payments over all partitions, and the processor's book that belongs to it."""

    seed: int = 0
    merchants: int = 3
    step_us: int = 1_000_000
    partitions: int = topics.PAYMENTS_PARTITIONS
    events_topic: str = topics.EVENTS_PAYMENTS
    commands_topic: str = topics.COMMANDS_PAYMENTS
    commits: list[Commit] = field(default_factory=list)
    #: attempts whose outcome is known, in order: what the processor was asked to do
    carried_out: list[ProcessorAttempt] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self._now = START_US
        self._number = 0
        self._payments: dict[str, Payment] = {}
        self._places = {p: _Partition() for p in range(self.partitions)}
        self._stored = self._published = 0

    # -- histories ------------------------------------------------------------------------------------------
    def payments_made(self, count: int) -> CommittedWorld:
        """Adds that many payments of every kind: purchased, captured in parts, voided, declined, open."""
        for _ in range(count):
            self._payment(self._random.choice(("purchase", "parts", "void", "decline", "hold", "unknown", "created")))
        return self

    def _payment(self, kind: str) -> None:
        currency, _ = self._random.choice(_CURRENCIES)
        amount = self._random.randint(1_000, 90_000)
        manual = kind in ("parts", "void", "hold")
        token = "tok_sim_decline" if kind == "decline" else "tok_sim_approve"
        intent_id = self._create(amount, currency, "manual" if manual else "automatic", token)
        if kind == "created":
            return
        self._act(intent_id, "confirm_payment_intent", {"payment_method": None})
        if kind == "unknown":
            self.outcome(intent_id, "unknown")
            return
        if kind == "decline":
            self.outcome(intent_id, "declined", error_code="insufficient_funds")
            return
        self.outcome(intent_id, "authorized" if manual else "captured")
        if kind == "parts":
            self._act(intent_id, "capture_payment_intent", {"amount": amount // 3, "final": False})
            self.outcome(intent_id, "captured")
            self._act(intent_id, "capture_payment_intent", {"amount": None, "final": True})
            self.outcome(intent_id, "captured")
        elif kind == "void":
            self._act(intent_id, "cancel_payment_intent", {"cancellation_reason": "duplicate"})
            self.outcome(intent_id, "voided")

    def _create(self, amount: int, currency: str, capture_method: str, token: str) -> str:
        self._number += 1
        merchant = f"m_{self._random.randrange(self.merchants)}"
        key = f"k{self.seed}-{self._number}"
        intent_id = identity.derived_id("pi", merchant, "POST /v1/payment_intents", key)
        payload: dict[str, object] = {
            "amount": amount,
            "currency": currency,
            "payment_method": token,
            "capture_method": capture_method,
            "metadata": {"order": f"A-{self._number}", "note": 'quote " and \\ and é'},
        }
        self._commit("create_payment_intent", merchant, intent_id, payload, key)
        return intent_id

    def _act(self, intent_id: str, operation: str, payload: dict[str, object]) -> None:
        self._number += 1
        merchant = self._payments[intent_id].intent.merchant_id
        self._commit(operation, merchant, intent_id, payload, f"k{self.seed}-{self._number}")

    def outcome(self, intent_id: str, status: str, error_code: str | None = None) -> None:
        """A fact about the newest attempt."""
        payment = self._payments[intent_id]
        attempt = payment.attempts[payment.intent.latest_attempt]
        if status != "unknown":
            self.carried_out.append(attempt)
        payload: dict[str, object] = {
            "operation_id": attempt.operation_id,
            "attempt": attempt.attempt,
            "status": status,
            "provider_ref": None if status == "unknown" else provider_ref_for(attempt.operation_id),
            "amount": attempt.amount,
            "currency": attempt.currency,
            "error_code": error_code,
        }
        self._commit(
            "record_attempt_outcome",
            f"processor:{payment.intent.processor}",
            intent_id,
            payload,
            f"{attempt.operation_id}:{status}",
        )

    def _commit(self, operation: str, scope: str, intent_id: str, payload: dict[str, object], key: str) -> None:
        self._now += self.step_us
        partition = topics.partition_for(intent_id, self.partitions)
        place = self._places[partition]
        command = Command(
            operation=operation,
            request_id=f"req-{self.seed}-{self._number}-{operation}-{len(self.commits)}",
            idempotency_key=key,
            aggregate_key=intent_id,
            expected_version=None,
            scope=scope,
            request_hash=identity.request_hash(operation, intent_id, payload),
            trace_id=f"{len(self.commits):032x}",
            issued_at=self._now,
            deadline_at=0,
            reply_to=-1,
            reply_id=0,
            payload=payload,
        )
        context = Context(now=self._now, fees=FeeSchedule(), processor="sim")
        decision = domain.decide(self._payments.get(intent_id), command, context)
        assert isinstance(decision, Decision), decision
        payment = self._payments.setdefault(intent_id, Payment(intent=decision.intent, attempts={}))
        payment.intent = decision.intent
        if decision.attempt:
            payment.attempts[decision.attempt.attempt] = decision.attempt
        txns = [
            LedgerTxn(
                txn_id=txn_id(partition, place.offset, number),
                reference=posting.reference,
                kind=posting.kind,
                effective_at=self._now,
                entries=posting.entries,
            )
            for number, posting in enumerate(decision.postings)
        ]
        place.seq += 1
        event_id = identity.event_id("p", partition, place.seq)
        self.commits.append(
            Commit(
                partition=partition,
                offset=place.offset,
                seq=place.seq,
                event_id=event_id,
                command=command,
                intent=decision.intent,
                attempt=decision.attempt,
                txns=txns,
                payload=_event(event_id, place.seq, self._now, command, decision, txns),
                occurred_at=self._now,
            )
        )
        place.offset += 1

    # -- where they go ---------------------------------------------------------------------------------------
    def store(self, connection: psycopg.Connection) -> None:
        """Writes what is new into Postgres in one transaction, as the owners' transactions would have."""
        fresh, self._stored = self.commits[self._stored :], len(self.commits)
        with connection.transaction():
            _store_results(connection, fresh, self.events_topic)
            _store_aggregates(connection, fresh)
            _store_ledger(connection, fresh)
            self._store_chain(connection, fresh)
            for partition, place in self._places.items():
                connection.execute(
                    "insert into partition_owner (topic, partition, epoch, owner_id, next_offset, published_seq)"
                    " values (%s, %s, 1, 'world', %s, %s) on conflict (topic, partition) do update"
                    " set next_offset = excluded.next_offset, published_seq = excluded.published_seq",
                    (self.commands_topic, partition, place.offset, place.seq),
                )

    def _store_chain(self, connection: psycopg.Connection, fresh: list[Commit]) -> None:
        for partition, place in self._places.items():
            txns = [t for c in fresh if c.partition == partition for t in c.txns]
            if not txns:
                continue
            rows = [
                (t.txn_id, t.reference, t.kind, t.effective_at, n, e.account_id, e.debit, e.credit, e.currency)
                for t in txns
                for n, e in enumerate(t.entries)
            ]
            following = link_hash(place.hash, rows)
            place.link += 1
            connection.execute(
                "insert into ledger_chain values (%s, %s, %s, %s, %s, %s, %s)",
                (partition, place.link, txns[0].txn_id, txns[-1].txn_id, len(txns), place.hash, following),
            )
            place.hash = following

    def publish(self, kafka: KafkaConnection, *, repeat_last: int = 0) -> None:
        """Sends what is new to the events topic, and the last ones before it again, as after a crash."""
        fresh = self.commits[max(0, self._published - repeat_last) :]
        self._published = len(self.commits)
        publish_all(kafka, self.events_topic, ((c.partition, c.command.aggregate_key, c.payload) for c in fresh))


def publish_all(kafka: KafkaConnection, topic: str, records: Iterable[tuple[int, str, bytes]]) -> None:
    """Sends (partition, key, value) records to the events topic and waits for all of them."""
    producer = Producer(kafka.producer("test-world"))
    for partition, key, value in records:
        producer.produce(topic, value, key, partition)
        producer.poll(0)
    assert producer.flush(30) == 0


def _event(event_id: str, seq: int, now: int, command: Command, decision: Decision, txns: list[LedgerTxn]) -> bytes:
    asdict = msgspec.structs.asdict
    return codec.encode(
        "PaymentSystemCommitted",
        {
            "event_id": event_id,
            "aggregate_key": command.aggregate_key,
            "event_type": "payment_system_committed",
            "schema_version": 1,
            "trace_id": command.trace_id,
            "seq": seq,
            "occurred_at": now,
            "version": decision.intent.version,
            "scope": decision.intent.merchant_id,
            "operation": command.operation,
            "body": {
                "payment_intent": asdict(decision.intent),
                "processor_attempt": asdict(decision.attempt) if decision.attempt else None,
                "ledger_txns": [{**asdict(t), "entries": [asdict(e) for e in t.entries]} for t in txns],
            },
        },
    )


_TIME = "timestamptz 'epoch' + %s * interval '1 microsecond'"


def _store_results(connection: psycopg.Connection, fresh: list[Commit], events_topic: str) -> None:
    cursor = connection.cursor()
    cursor.executemany(
        "insert into idempotency (merchant_id, key, request_hash, response, status, operation, request_id,"
        ' aggregate_key, event_id, partition, "offset", created_at)'
        f" values (%s, %s, %s, %s, 'committed', %s, %s, %s, %s, %s, %s, {_TIME})",
        [
            (
                *(c.command.scope, c.command.idempotency_key, c.command.request_hash, b"{}", c.command.operation),
                *(c.command.request_id, c.command.aggregate_key, c.event_id, c.partition, c.offset, c.occurred_at),
            )
            for c in fresh
        ],
    )
    cursor.executemany(
        "insert into outbox (topic, partition, seq, event_id, aggregate_key, version, scope, payload, occurred_at)"
        f" values (%s, %s, %s, %s, %s, %s, %s, %s, {_TIME})",
        [
            (
                *(events_topic, c.partition, c.seq, c.event_id, c.command.aggregate_key, c.intent.version),
                *(c.intent.merchant_id, c.payload, c.occurred_at),
            )
            for c in fresh
        ],
    )


def _store_aggregates(connection: psycopg.Connection, fresh: list[Commit]) -> None:
    intents = {c.intent.id: (c.intent, c.partition) for c in fresh}
    attempts = {(c.attempt.intent_id, c.attempt.attempt): c.attempt for c in fresh if c.attempt}
    columns = PaymentIntent.__struct_fields__
    marks = ", ".join(_TIME if name.endswith("_at") else "%s" for name in columns)
    updates = ", ".join(f"{name} = excluded.{name}" for name in columns)
    connection.cursor().executemany(
        f"insert into payment_intent ({', '.join(columns)}, partition) values ({marks}, %s)"
        f" on conflict (id) do update set {updates}",
        [
            (*(msgspec.json.encode(v).decode() if isinstance(v, dict) else v for v in msgspec.structs.astuple(i)), p)
            for i, p in intents.values()
        ],
    )
    columns = ProcessorAttempt.__struct_fields__
    marks = ", ".join(_TIME if name.endswith("_at") else "%s" for name in columns)
    updates = ", ".join(f"{name} = excluded.{name}" for name in columns)
    connection.cursor().executemany(
        f"insert into processor_attempt ({', '.join(columns)}) values ({marks})"
        f" on conflict (intent_id, attempt) do update set {updates}",
        [msgspec.structs.astuple(a) for a in attempts.values()],
    )
    connection.cursor().executemany(
        "insert into attempt_dispatch (operation_id, intent_id, attempt, processor, kind, amount, currency,"
        " payment_method, final, merchant_id, trace_id, status, in_doubt, send_count, next_at, first_at, updated_at)"
        f" values (%s, %s, %s, %s, %s, %s, %s, %s, %s, '', '', %s, false, 0, now(), {_TIME}, now())"
        " on conflict (operation_id) do update set status = excluded.status",
        [
            (
                *(a.operation_id, a.intent_id, a.attempt, a.processor, a.kind, a.amount, a.currency, a.payment_method),
                *(a.final, "waiting" if a.status in ("created", "pending", "unknown") else "done", a.created_at),
            )
            for a in attempts.values()
        ],
    )


def _store_ledger(connection: psycopg.Connection, fresh: list[Commit]) -> None:
    cursor = connection.cursor()
    txns = [(t, c) for c in fresh for t in c.txns]
    cursor.executemany(
        f"insert into ledger_txn values (%s, %s, %s, %s, %s, %s, {_TIME}, {_TIME})",
        [
            (t.txn_id, t.reference, t.kind, c.intent.id, c.command.trace_id, c.partition, t.effective_at, c.occurred_at)
            for t, c in txns
        ],
    )
    lines = [(t, n, e, c) for t, c in txns for n, e in enumerate(t.entries)]
    with cursor.copy("copy ledger_entry from stdin") as copy:
        copy.set_types(["int8", "int2", "text", "int8", "int8", "text", "timestamptz"])
        for t, n, e, _ in lines:
            when = _when(t.effective_at)
            copy.write_row((t.txn_id, n, e.account_id, e.debit, e.credit, e.currency, when))
    sums: dict[tuple[str, int], list[Any]] = {}
    for _, _, e, c in lines:
        total = sums.setdefault((e.account_id, c.partition), [e.currency, 0, 0, 0])
        total[1] += e.debit
        total[2] += e.credit
        total[3] += 1
    cursor.executemany(
        "insert into account_balance as b values (%s, %s, %s, %s, %s, %s) on conflict (account_id, partition) do update"
        " set debits = b.debits + excluded.debits, credits = b.credits + excluded.credits,"
        " version = b.version + excluded.version",
        [(account, partition, *total) for (account, partition), total in sums.items()],
    )


def _when(microseconds: int) -> Any:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=microseconds)
