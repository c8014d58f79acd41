"""Commits as an owner makes them, without an owner: decided by the real domain, encoded by the real codec, stored in
the real tables. Tests of what reads commits (sink, check, replay) are thereby independent of what writes them.
"""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from confluent_kafka import Producer

from compose.simulator.operations.nouns import provider_ref_for
from dataflows.payments.domain import commands as domain
from dataflows.payments.domain.accounts import account, account_commands
from dataflows.payments.domain.decision import Context, Decision, Payment, applied
from dataflows.payments.domain.ledger.journal import JournalEntry, decide_post
from dataflows.payments.domain.policies.fees import FeeSchedule
from dataflows.payments.ledger_batch import txn_id
from schemas import identity, topics
from schemas.fields.currency import EXPONENTS
from schemas.identity import OPERATOR_SCOPE
from schemas.payments import topics as payments_topics
from schemas.payments.facts import RECONCILIATION_SCOPE, journal_id
from schemas.payments.records import LedgerTxn, Payout, ProcessorAttempt
from schemas.records import Command, Rejection
from sinks.postgres.ledger_chain import GENESIS, link_hash
from tests.worlds.committed_event import Decided, event_of, parts_of
from tests.worlds.committed_store import Commit, store_aggregates, store_ledger, store_parts, store_results
from tests.worlds.payments.account_cases import rates_of
from tests.worlds.payments.committed_destinations import destinations_used

if TYPE_CHECKING:
    from collections.abc import Iterable

    import psycopg

    from sinks.kafka.connection import KafkaConnection

START_US = 1_790_000_000_000_000
_SPENT = 40  # at least what ``account_used`` spends
_FAR_AWAY_US = 4_000_000_000_000_000  # in the year 2096: no dispute of a world is due
_CURRENCIES = (("USD", 2), ("EUR", 2), ("JPY", 0), ("KWD", 3))
_PAIRS = {f"{source}/{target}": ("1", 1) for source, _ in _CURRENCIES for target in ("GBP", "KRW")}
_RATES = rates_of(_PAIRS, START_US - 1, life_s=10**8)


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
    partitions: int = payments_topics.PARTITIONS
    events_topic: str = payments_topics.EVENTS
    commands_topic: str = payments_topics.COMMANDS
    commits: list[Commit] = field(default_factory=list)
    #: attempts whose outcome is known, in order: what the processor was asked to do
    carried_out: list[ProcessorAttempt] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self._now = START_US
        self._number = self._received = 0
        self._payments: dict[str, Payment] = {}
        self._accounts: dict[str, account.Account] = {}
        self._held: defaultdict[str, int] = defaultdict(int)  # credits less debits by ledger account
        self._places = {p: _Partition() for p in range(self.partitions)}
        self._stored = self._published = 0

    # -- histories ------------------------------------------------------------------------------------------
    def payments_made(self, count: int) -> CommittedWorld:
        """Adds that many payments of every kind: purchased, captured in parts, voided, declined, open, refunded, disputed."""
        for number in range(count):
            kind = self._random.choice(("purchase", "parts", "void", "decline", "hold", "unknown", "created"))
            intent_id = self._payment(kind)
            if self._payments[intent_id].intent.amount_received:
                self._afterwards(intent_id, self._received)
                self._received += 1
            if number % 10 == 9:
                self.journal(f"payout:{self.seed}:{len(self.commits)}")
        self.account_used()
        return self

    def account_used(self) -> None:
        """Once, every command on the account of the merchant that has most available; one payout stays pending."""
        funds = [(held, name) for name, held in self._held.items() if name.startswith("merchant_available:")]
        if self._accounts or not funds or max(funds)[0] < _SPENT:
            return
        _, merchant, currency = max(funds)[1].split(":")
        made = [self.payout(merchant, currency, amount) for amount in (7, 5, 3, 2)]
        self.payout_outcome(made[0], "paid")
        self.payout_outcome(made[1], "paid")
        self.payout_outcome(made[1], "failed")
        self._act_on_account("cancel_payout", merchant, {"payout": made[2].id}, scope=merchant)
        money: dict[str, object] = {"amount": 4, "currency": currency, "reason": "r"}
        self._act_on_account("hold_reserve", merchant, money)
        self._act_on_account("release_reserve", merchant, money | {"amount": 1})
        self._act_on_account("freeze_account", merchant, {"reason": "r"})
        self._act_on_account("unfreeze_account", merchant, {"reason": "r"})
        target = "GBP" if EXPONENTS[currency] else "KRW"  # of which no payment is
        exchange = {"source_amount": 10, "source_currency": currency, "target_amount": 10, "target_currency": target}
        if EXPONENTS[currency] == EXPONENTS[target]:
            self._act_on_account("convert_currency", merchant, {**exchange, "rate": "1"})
        destinations_used(self._act_on_account, self.commits, merchant)

    def payout(self, merchant: str, currency: str, amount: int) -> Payout:
        """A pending payout."""
        payload = {"amount": amount, "currency": currency, "destination": "main", "metadata": {"run": "é"}}
        self._act_on_account("create_payout", merchant, payload, scope=merchant)
        made = self.commits[-1].payout
        assert made is not None
        return made

    def payout_outcome(self, made: Payout, status: str) -> None:
        """What the bank did."""
        fact = {"status": status, "amount": made.amount, "currency": made.currency, "bank": "main", "reason": None}
        told = (RECONCILIATION_SCOPE, made.account_id, {"payout": made.id, **fact}, f"{made.id}:{status}")
        self._commit("record_payout_outcome", *told)

    def _act_on_account(
        self, operation: str, merchant: str, payload: dict[str, object], scope: str = "operator:by_test"
    ) -> None:
        self._number += 1
        if scope.startswith(OPERATOR_SCOPE):
            payload = {"merchant_id": merchant, **payload}
        self._commit(operation, scope, identity.account_id(merchant), payload, f"k{self.seed}-{self._number}")

    def _afterwards(self, intent_id: str, number: int) -> None:
        """What may become of money that was received: nothing, a refund, a dispute, a settlement, and all of them."""
        payment = self._payments[intent_id]
        amount = payment.intent.amount_received // 4
        for captured in [a for a in payment.attempts.values() if a.status == "captured" and number % 3 == 0]:
            self.settled(captured, in_halves=number % 6 == 0)
        if number % 2 == 0:
            self.refund(intent_id, amount)
            if number % 4 == 0:
                self.outcome(intent_id, "refunded")
                self._line(self._payments[intent_id].attempts[payment.intent.latest_attempt + 1], -amount)
            if number % 8 == 2:  # its failure is heard of before its success
                self.outcome(intent_id, "failed", error_code="lost_card", key="failed_later")
        if number % 5 == 0:
            self.disputed(intent_id, amount, "needs_response", "withdrawn")
            self.disputed(intent_id, amount, *(("won", "reinstated"), ("lost", "withdrawn"))[number % 10 == 0])

    def refund(self, intent_id: str, amount: int) -> None:
        """A refund under way."""
        payload: dict[str, object] = {"payment_intent": intent_id, "amount": amount, "reason": None, "metadata": {}}
        self._act(intent_id, "create_refund", payload)

    def disputed(self, intent_id: str, amount: int, status: str, funds: str) -> None:
        """A fact about the dispute of a payment."""
        payload: dict[str, object] = {"provider_ref": f"dis_{intent_id}", "status": status, "funds": funds}
        payload |= {"amount": amount, "currency": self._payments[intent_id].intent.currency, "fee": 15}
        payload |= {"reason": "fraudulent"}
        payload |= {"evidence_due_by": _FAR_AWAY_US if status == "needs_response" else None}
        scope = f"processor:{self._payments[intent_id].intent.processor}"
        self._commit("record_dispute", scope, intent_id, payload, f"dis_{intent_id}:{status}:{funds}")

    def settled(self, attempt: ProcessorAttempt, *, in_halves: bool = False) -> None:
        """A settlement of a capture, in one line or over two days."""
        half = attempt.amount // 2
        rest = attempt.amount - half
        if in_halves:
            self._line(attempt, half, "short", rest)
            self._line(attempt, rest, "duplicate", rest)
        else:
            self._line(attempt, attempt.amount)

    def _line(self, attempt: ProcessorAttempt, gross: int, finding: str = "matched", difference: int = 0) -> None:
        """A settlement line with another fee than was accrued."""
        line_id = f"line_{attempt.operation_id}" + ("" if finding == "matched" else f"_{finding}")
        payload: dict[str, object] = {
            "line_id": line_id,
            "attempt": attempt.attempt,
            "operation_id": attempt.operation_id,
            "finding": finding,
            "gross": gross,
            "fee": 7,
            "difference": difference,
            "currency": attempt.currency,
        }
        self._commit("record_settlement_line", f"settlement:{attempt.processor}", attempt.intent_id, payload, line_id)

    def journal(self, reference: str, amount: int = 5) -> None:
        """A payout on its way: a ledger transaction that belongs to no payment."""
        entries = [
            {"account_id": "payout_in_transit:sim:USD", "debit": amount, "credit": 0, "currency": "USD"},
            {"account_id": "processor_receivable:sim:USD", "debit": 0, "credit": amount, "currency": "USD"},
        ]
        payload: dict[str, object] = {"reference": reference, "kind": "payout", "entries": entries, "note": None}
        self._commit("post_journal", RECONCILIATION_SCOPE, journal_id(reference), payload, reference)

    def _payment(self, kind: str) -> str:
        currency, _ = self._random.choice(_CURRENCIES)
        amount = self._random.randint(1_000, 90_000)
        manual = kind in ("parts", "void", "hold")
        token = "tok_sim_decline" if kind == "decline" else "tok_sim_approve"
        intent_id = self._create(amount, currency, "manual" if manual else "automatic", token)
        if kind == "created":  # and agreed on anew: its first event is of another currency than it is
            changes = dict.fromkeys(("amount", "payment_method", "capture_method", "metadata"))
            self._act(intent_id, "update_payment_intent", {**changes, "currency": "GBP"})
            return intent_id
        self._act(intent_id, "confirm_payment_intent", {"payment_method": None})
        if kind == "unknown":
            self.outcome(intent_id, "unknown")
            return intent_id
        if kind == "decline":
            self.outcome(intent_id, "declined", error_code="insufficient_funds")
            return intent_id
        self.outcome(intent_id, "authorized" if manual else "captured")
        if kind == "parts":
            self._act(intent_id, "capture_payment_intent", {"amount": amount // 3, "final": False})
            self.outcome(intent_id, "captured")
            self._act(intent_id, "capture_payment_intent", {"amount": None, "final": True})
            self.outcome(intent_id, "captured")
        elif kind == "void":
            self._act(intent_id, "cancel_payment_intent", {"cancellation_reason": "duplicate"})
            self.outcome(intent_id, "voided")
        return intent_id

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

    def outcome(self, intent_id: str, status: str, error_code: str | None = None, key: str = "") -> None:
        """A fact about the newest attempt."""
        payment = self._payments[intent_id]
        attempt = payment.attempts[payment.intent.latest_attempt]
        if status != "unknown" and not key:
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
            f"{attempt.operation_id}:{key or status}",
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
        decision: Decided
        if operation == "post_journal":
            decided: Decided | Rejection = decide_post(command, exists=False)
        elif operation in account_commands.OPERATIONS_OF_ACCOUNTS:
            held = account.AccountContext(now=self._now, held=self._held, reference_rates=_RATES)
            decided = account_commands.decide(self._accounts.get(intent_id), command, held)
        else:
            decided = domain.decide(self._payments.get(intent_id), command, context)
        assert not isinstance(decided, Rejection), decided
        decision = decided
        self._keep(intent_id, decision)
        postings = (decision.posting,) if isinstance(decision, JournalEntry) else decision.postings
        for entry in (entry for posting in postings for entry in posting.entries):
            self._held[entry.account_id] += entry.credit - entry.debit
        txns = [
            LedgerTxn(
                txn_id=txn_id(partition, place.offset, number),
                reference=posting.reference,
                kind=posting.kind,
                effective_at=self._now,
                entries=posting.entries,
            )
            for number, posting in enumerate(postings)
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
                txns=txns,
                payload=event_of(event_id, place.seq, self._now, command, decision, txns),
                occurred_at=self._now,
                **parts_of(decision),
            )
        )
        place.offset += 1

    def _keep(self, key: str, decision: Decided) -> None:
        if isinstance(decision, Decision):
            self._payments[key] = applied(self._payments.get(key), decision)
        elif isinstance(decision, account.AccountDecision):
            known = self._accounts.setdefault(key, account.Account(account=decision.account))
            known.account = decision.account
            if decision.payout is not None:
                known.payouts[decision.payout.id] = decision.payout
            if decision.destination is not None:
                known.destinations[decision.destination.id] = decision.destination

    # -- where they go ---------------------------------------------------------------------------------------
    def store(self, connection: psycopg.Connection) -> None:
        """Writes what is new into Postgres in one transaction, as the owners' transactions would have."""
        fresh, self._stored = self.commits[self._stored :], len(self.commits)
        with connection.transaction():
            store_results(connection, fresh, self.commands_topic, self.events_topic)
            store_aggregates(connection, fresh)
            store_parts(connection, fresh)
            store_ledger(connection, fresh)
            self._store_chain(connection, fresh)
            for partition, place in self._places.items():
                connection.execute(
                    "insert into partition_owner (topic, partition, epoch, owner_id, next_offset, published_seq, signed_from)"
                    " values (%s, %s, 1, 'world', %s, %s, null) on conflict (topic, partition) do update"
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
        producer.produce(kafka.topic(topic), value, key, partition)
        producer.poll(0)
    assert producer.flush(30) == 0
