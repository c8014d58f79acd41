"""Which statement Postgres works on, by looking often: the server needs no extension and no measuring for that."""

from __future__ import annotations

import threading
from collections import Counter
from types import TracebackType
from typing import Final, Self

import psycopg

_INTERVAL_S: Final = 0.05
_ACTIVE: Final = """
select left(query, 600), coalesce(wait_event_type, '')
from pg_stat_activity
where state = 'active' and backend_type = 'client backend' and datname = current_database() and pid <> pg_backend_pid()
"""
# Words that tell our statements apart, in the order in which they are looked for.
_NAMES: Final = (
    ("update partition_owner", "claim"),
    ("join idempotency", "identities read"),
    ("from parked_aggregate", "parked read"),
    ("from payment_intent where", "intents read"),
    ("from processor_attempt where", "attempts read"),
    ("insert into payment_intent", "intents insert"),
    ("copy payment_intent", "intents insert"),
    ("update payment_intent", "intents update"),
    ("insert into processor_attempt", "attempts insert"),
    ("copy processor_attempt", "attempts insert"),
    ("update processor_attempt", "attempts update"),
    ("insert into ledger_txn", "ledger transactions insert"),
    ("copy ledger_txn", "ledger transactions insert"),
    ("insert into ledger_entry", "ledger entries insert"),
    ("copy ledger_entry", "ledger entries insert"),
    ("insert into ledger_chain", "ledger chain insert"),
    ("insert into account_balance", "balances add"),
    ("insert into idempotency", "identities insert"),
    ("copy idempotency", "identities insert"),
    ("insert into outbox", "outbox insert"),
    ("copy outbox", "outbox insert"),
    ("commit", "commit"),
    ("begin", "begin"),
)


class StatementSampler:
    """Counts, while it is open, how often each statement was seen at work; waiting for a client is not counted."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="statement-sampler", daemon=True)
        self.counts: Counter[str] = Counter()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        with psycopg.connect(self._dsn, autocommit=True) as connection:
            while not self._over.wait(_INTERVAL_S):
                for query, wait in connection.execute(_ACTIVE).fetchall():
                    if wait != "Client":
                        self.counts[_name(" ".join(query.split()))] += 1


def _name(query: str) -> str:
    return next((name for words, name in _NAMES if words in query), "other")
