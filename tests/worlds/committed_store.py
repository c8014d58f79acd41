"""Writes commits into Postgres as the owners' transactions would have: see ``tests.worlds.committed_world``."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import msgspec

from schemas.payments.records import (
    Dispute,
    LedgerTxn,
    MerchantAccount,
    PaymentIntent,
    Payout,
    PayoutDestination,
    ProcessorAttempt,
    Refund,
)
from schemas.records import Command

if TYPE_CHECKING:
    import psycopg

    from dataflows.payments.domain.ledger.journal import JournalEntry


@dataclass(slots=True)
class Commit:
    """One committed command with everything its transaction wrote."""

    partition: int
    offset: int
    seq: int
    event_id: str
    command: Command
    intent: PaymentIntent | None  # None for a journal entry
    attempts: list[ProcessorAttempt]
    txns: list[LedgerTxn]
    payload: bytes
    occurred_at: int
    refund: Refund | None = None
    dispute: Dispute | None = None
    journal: JournalEntry | None = None
    account: MerchantAccount | None = None
    payout: Payout | None = None
    destination: PayoutDestination | None = None

    @property
    def version(self) -> int:
        """Of the aggregate after it."""
        aggregate = self.intent or self.account
        return aggregate.version if aggregate else 1

    @property
    def scope(self) -> str:
        """Who may see its event."""
        aggregate = self.intent or self.account
        return aggregate.merchant_id if aggregate else self.command.scope


_TIME = "timestamptz 'epoch' + %s::bigint * interval '1 microsecond'"


def store_results(connection: psycopg.Connection, fresh: list[Commit], commands_topic: str, events_topic: str) -> None:
    """Answers and events."""
    cursor = connection.cursor()
    cursor.executemany(
        "insert into idempotency (merchant_id, key, request_hash, response, status, operation, request_id,"
        ' aggregate_key, event_id, partition, "offset", topic, created_at)'
        f" values (%s, %s, %s, %s, 'committed', %s, %s, %s, %s, %s, %s, %s, {_TIME})",
        [
            (
                *(c.command.scope, c.command.idempotency_key, c.command.request_hash, b"{}", c.command.operation),
                *(c.command.request_id, c.command.aggregate_key, c.event_id, c.partition, c.offset),
                *(commands_topic, c.occurred_at),
            )
            for c in fresh
        ],
    )
    cursor.executemany(
        "insert into outbox (topic, partition, seq, event_id, aggregate_key, version, scope, payload, occurred_at)"
        f" values (%s, %s, %s, %s, %s, %s, %s, %s, {_TIME})",
        [
            (
                *(events_topic, c.partition, c.seq, c.event_id, c.command.aggregate_key, c.version),
                *(c.scope, c.payload, c.occurred_at),
            )
            for c in fresh
        ],
    )


def store_aggregates(connection: psycopg.Connection, fresh: list[Commit]) -> None:
    """Intents, attempts, and what the workers keep of these."""
    intents = {c.intent.id: (c.intent, c.partition) for c in fresh if c.intent}
    attempts = {(a.intent_id, a.attempt): a for c in fresh for a in c.attempts}
    columns = PaymentIntent.__struct_fields__
    marks = ", ".join(_TIME if name.endswith(("_at", "_until")) else "%s" for name in columns)
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
    marks = ", ".join(_TIME if name.endswith(("_at", "_until")) else "%s" for name in columns)
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


def store_parts(connection: psycopg.Connection, fresh: list[Commit]) -> None:
    """Refunds, disputes and journal entries."""
    refunds = {c.refund.id: c.refund for c in fresh if c.refund}
    disputes = {c.dispute.id: c.dispute for c in fresh if c.dispute}
    payouts = {c.payout.id: c.payout for c in fresh if c.payout}
    _upsert(connection, "refund", Refund, [*refunds.values()])
    _upsert(connection, "dispute", Dispute, [*disputes.values()])
    _upsert(connection, "payout", Payout, [*payouts.values()])
    destinations = {c.destination.id: c.destination for c in fresh if c.destination}
    _upsert(connection, "payout_destination", PayoutDestination, [*destinations.values()])
    accounts = {c.account.id: (c.account, c.partition) for c in fresh if c.account}
    partitions = [partition for _, partition in accounts.values()]
    _upsert(connection, "merchant_account", MerchantAccount, [a for a, _ in accounts.values()], partitions)
    connection.cursor().executemany(
        "insert into settlement_line (processor, line_id, report_id, line_no, type, operation_id, currency, gross, fee,"
        " net, net_currency, class, matched, intent_id, attempt, finding, posted_difference, posting)"
        " values (%s, %s, 'rpt', 1, 'charge', %s, %s, %s, %s, %s, %s, 'matched', %s, %s, %s, %s, %s, 'decided')",
        [
            (
                *(c.command.scope.removeprefix("settlement:"), line["line_id"], line["operation_id"], line["currency"]),
                *(line["gross"], line["fee"], line["gross"] - line["fee"], line["currency"], line["operation_id"]),
                *(c.command.aggregate_key, line["attempt"], line["finding"], line["difference"]),
            )
            for c in fresh
            if c.command.operation == "record_settlement_line" and (line := c.command.payload)
        ],
    )
    connection.cursor().executemany(
        "insert into settlement_line (processor, line_id, report_id, line_no, type, currency, gross, fee, net,"
        " net_currency, class, matched, counterpart) values ('bank:main', %s, 'st', 1, 'bank', %s, %s, 0, %s, %s, 'matched', %s, %s)",
        [
            (c.command.idempotency_key, p.currency, moved, moved, p.currency, p.id, f"merchant:{p.merchant_id}")
            for c in fresh
            if c.command.operation == "record_payout_outcome" and (p := c.payout)
            for moved in (-p.amount if c.command.payload["status"] == "paid" else p.amount,)
        ],
    )
    connection.cursor().executemany(
        f"insert into journal_entry values (%s, %s, %s, %s, %s, %s, {_TIME})",
        [
            (j.id, j.posting.reference, j.posting.kind, j.note, c.command.scope, c.partition, c.occurred_at)
            for c in fresh
            if (j := c.journal)
        ],
    )


def _upsert(
    connection: psycopg.Connection, table: str, kind: type[Any], parts: list[Any], partitions: list[int] | None = None
) -> None:
    """The newest of each, by its fields; with the owner's partition where the table has one."""
    columns = kind.__struct_fields__
    marks = ", ".join(_TIME if name.endswith(("_at", "_until")) else "%s" for name in columns)
    updates = ", ".join(f"{name} = excluded.{name}" for name in columns)
    last, mark = (", partition", ", %s") if partitions is not None else ("", "")
    rows = [
        tuple(msgspec.json.encode(v).decode() if isinstance(v, dict) else v for v in msgspec.structs.astuple(p))
        for p in parts
    ]
    connection.cursor().executemany(
        f"insert into {table} ({', '.join(columns)}{last}) values ({marks}{mark}) on conflict (id) do update set {updates}",
        rows if partitions is None else [(*row, p) for row, p in zip(rows, partitions, strict=True)],
    )


def store_ledger(connection: psycopg.Connection, fresh: list[Commit]) -> None:
    """Transactions, lines and balances."""
    cursor = connection.cursor()
    txns = [(t, c) for c in fresh for t in c.txns]
    cursor.executemany(
        f"insert into ledger_txn values (%s, %s, %s, %s, %s, %s, {_TIME}, {_TIME})",
        [
            (
                t.txn_id,
                t.reference,
                t.kind,
                c.command.aggregate_key,
                c.command.trace_id,
                c.partition,
                t.effective_at,
                c.occurred_at,
            )
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
