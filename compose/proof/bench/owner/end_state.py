"""Compares what the owners stored with what the model expects; every difference is a sentence."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import psycopg

from compose.proof.bench.model import Model

_INTENTS: Final = (
    "select id, state, version, amount_capturable, amount_received, latest_attempt, merchant_id, amount, currency"
    " from payment_intent"
)
_COUNTS: Final = {
    "committed identities": "select count(*) from idempotency where status = 'committed'",
    "refused identities": "select count(*) from idempotency where status = 'refused'",
    "events": "select count(*) from outbox",
    "gaps in the order of events": "select count(*) from (select seq, row_number() over (partition by topic, partition"
    " order by seq) as place from outbox) numbered where seq <> place",
    "ledger transactions": "select count(*) from ledger_txn",
    "unbalanced ledger transactions": "select count(*) from (select txn_id from ledger_entry group by txn_id, currency"
    " having sum(debit) <> sum(credit)) unbalanced",
    "parked records": "select count(*) from dead_letter",
}


def differences(dsn: str, model: Model) -> list[str]:
    """Empty when the database holds exactly what the model says."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        return [*_counts(connection, model), *_intents(connection, model), *_balances(connection, model)]


def _counts(connection: psycopg.Connection[Any], model: Model) -> Iterator[str]:
    answers = list(model.identities.values())
    expected = dict.fromkeys(_COUNTS, 0) | {
        "committed identities": answers.count("committed"),
        "refused identities": answers.count("refused"),
        "events": answers.count("committed"),
        "ledger transactions": model.transactions,
    }
    for name, query in _COUNTS.items():
        row = connection.execute(query.encode()).fetchone()
        if row is None or row[0] != expected[name]:
            yield f"{name}: {row and row[0]} stored, {expected[name]} expected"


def _intents(connection: psycopg.Connection[Any], model: Model) -> Iterator[str]:
    seen = 0
    for key, *found in connection.execute(_INTENTS):
        seen += 1
        intent = model.intents.get(key)
        expected = intent and (*intent.public(), intent.merchant, intent.amount, intent.currency)
        if tuple(found) != expected:
            yield f"intent {key}: {tuple(found)} stored, {expected} expected"
    if seen != len(model.intents):
        yield f"intents: {seen} stored, {len(model.intents)} expected"


def _balances(connection: psycopg.Connection[Any], model: Model) -> Iterator[str]:
    entries = "select account_id, sum(debit) - sum(credit) from ledger_entry group by account_id"
    totals = "select account_id, balance from account_total"
    expected = {account: balance for account, balance in model.balances.items() if balance}
    for name, query in (("ledger", entries), ("balances", totals)):
        found = {account: int(balance) for account, balance in connection.execute(query.encode()) if balance}
        for account in sorted(found.keys() | expected.keys()):
            if found.get(account, 0) != expected.get(account, 0):
                yield f"{name} of {account}: {found.get(account, 0)} stored, {expected.get(account, 0)} expected"
