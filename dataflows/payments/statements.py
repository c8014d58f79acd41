"""The set-based writes of payments: rows of a batch as columns, in the order that queries/payments.sql names them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from dataflows.owner.batch import Statement
from schemas.records import Command, LedgerTxn, PaymentIntent, ProcessorAttempt
from sinks.postgres.arrays import Bigints, Integers, bool_array, int_array, optional_text_array, text_array
from sinks.postgres.ledger_chain import ChainRow
from sinks.postgres.sql_files import queries

SQL: Final = queries("sinks.postgres.queries", "payments.sql")
_json: Final = msgspec.json.Encoder()


def intents_insert(intents: Sequence[PaymentIntent], partition: int) -> Statement:
    """Intents that did not exist."""
    return SQL["intents_insert"], (
        partition,
        text_array([i.id for i in intents]),
        text_array([i.merchant_id for i in intents]),
        Bigints([i.amount for i in intents]),
        text_array([i.currency for i in intents]),
        text_array([i.state for i in intents]),
        Bigints([i.version for i in intents]),
        text_array([i.capture_method for i in intents]),
        optional_text_array([i.payment_method for i in intents]),
        text_array([i.processor for i in intents]),
        Bigints([i.amount_capturable for i in intents]),
        Bigints([i.amount_received for i in intents]),
        Bigints([i.amount_refunded for i in intents]),
        Bigints([i.amount_disputed for i in intents]),
        optional_text_array([i.last_payment_error for i in intents]),
        optional_text_array([i.cancellation_reason for i in intents]),
        Integers([i.latest_attempt for i in intents]),
        text_array([_json.encode(i.metadata).decode() if i.metadata else "{}" for i in intents]),
        Bigints([i.created_at for i in intents]),
        Bigints([i.updated_at for i in intents]),
    )


def intents_update(intents: Sequence[PaymentIntent], read_versions: Sequence[int]) -> Statement:
    """Intents that were read at these versions; the statement fails when one is not at its version any more."""
    return SQL["intents_update"], (
        text_array([i.id for i in intents]),
        Bigints(read_versions),
        text_array([i.state for i in intents]),
        Bigints([i.version for i in intents]),
        optional_text_array([i.payment_method for i in intents]),
        Bigints([i.amount_capturable for i in intents]),
        Bigints([i.amount_received for i in intents]),
        Bigints([i.amount_refunded for i in intents]),
        Bigints([i.amount_disputed for i in intents]),
        optional_text_array([i.last_payment_error for i in intents]),
        optional_text_array([i.cancellation_reason for i in intents]),
        Integers([i.latest_attempt for i in intents]),
        Bigints([i.updated_at for i in intents]),
        len(intents),
    )


def attempts_insert(attempts: Sequence[ProcessorAttempt]) -> Statement:
    """New attempts, durable before any I/O to a processor."""
    return SQL["attempts_insert"], (
        text_array([a.intent_id for a in attempts]),
        Integers([a.attempt for a in attempts]),
        text_array([a.kind for a in attempts]),
        text_array([a.status for a in attempts]),
        text_array([a.operation_id for a in attempts]),
        text_array([a.processor for a in attempts]),
        Bigints([a.amount for a in attempts]),
        text_array([a.currency for a in attempts]),
        text_array([a.payment_method for a in attempts]),
        optional_text_array([a.parent_ref for a in attempts]),
        bool_array([a.final for a in attempts]),
        optional_text_array([a.provider_ref for a in attempts]),
        optional_text_array([a.error_code for a in attempts]),
        Bigints([a.created_at for a in attempts]),
        Bigints([a.updated_at for a in attempts]),
    )


def attempts_update(attempts: Sequence[ProcessorAttempt]) -> Statement:
    """Attempts whose fact came."""
    return SQL["attempts_update"], (
        text_array([a.intent_id for a in attempts]),
        Integers([a.attempt for a in attempts]),
        text_array([a.status for a in attempts]),
        optional_text_array([a.provider_ref for a in attempts]),
        optional_text_array([a.error_code for a in attempts]),
        Bigints([a.updated_at for a in attempts]),
        len(attempts),
    )


def ledger_txns_insert(txns: Sequence[tuple[LedgerTxn, Command]], partition: int) -> Statement:
    """Ledger transactions with the command that caused each."""
    return SQL["ledger_txns_insert"], (
        partition,
        Bigints([txn.txn_id for txn, _ in txns]),
        text_array([txn.reference for txn, _ in txns]),
        text_array([txn.kind for txn, _ in txns]),
        text_array([command.aggregate_key for _, command in txns]),
        text_array([command.trace_id for _, command in txns]),
        Bigints([txn.effective_at for txn, _ in txns]),
    )


def ledger_entries_insert(txns: Sequence[LedgerTxn]) -> Statement:
    """All lines of these transactions in one statement: the database checks the balance over the whole of it."""
    lines = [(txn, number, entry) for txn in txns for number, entry in enumerate(txn.entries)]
    return SQL["ledger_entries_insert"], (
        Bigints([txn.txn_id for txn, _, _ in lines]),
        Integers([number for _, number, _ in lines]),
        text_array([entry.account_id for _, _, entry in lines]),
        Bigints([entry.debit for _, _, entry in lines]),
        Bigints([entry.credit for _, _, entry in lines]),
        text_array([entry.currency for _, _, entry in lines]),
        Bigints([txn.effective_at for txn, _, _ in lines]),
    )


def chain_rows(txns: Sequence[LedgerTxn]) -> Iterator[ChainRow]:
    """The entries as the hash chain reads them."""
    for txn in txns:
        for number, e in enumerate(txn.entries):
            head = (txn.txn_id, txn.reference, txn.kind, txn.effective_at)
            yield (*head, number, e.account_id, e.debit, e.credit, e.currency)


def balances_add(txns: Sequence[LedgerTxn], partition: int) -> Statement:
    """The sums of a batch per account: hot accounts cost one row a batch, not one a command."""
    sums: dict[str, list[int]] = {}
    currencies: dict[str, str] = {}
    for txn in txns:
        for entry in txn.entries:
            total = sums.setdefault(entry.account_id, [0, 0, 0])
            total[0] += entry.debit
            total[1] += entry.credit
            total[2] += 1
            currencies[entry.account_id] = entry.currency
    accounts = sorted(sums)
    return SQL["balances_add"], (
        partition,
        text_array(accounts),
        text_array([currencies[a] for a in accounts]),
        int_array([sums[a][0] for a in accounts]),
        int_array([sums[a][1] for a in accounts]),
        Bigints([sums[a][2] for a in accounts]),
    )
