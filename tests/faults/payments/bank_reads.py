"""Reads all balances again and again while something is broken: every single read must add up, as in Jepsen's bank test.

Money only moves between accounts, so in any snapshot all balances of a currency sum to zero, equal the entries that made
them, and the totals never fall back to what an earlier read had passed.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import psycopg

from tests.eventually import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

_READ = """
select coalesce(sum(debits), 0)::bigint, coalesce(sum(credits), 0)::bigint,
       (select coalesce(sum(debit), 0)::bigint from ledger_entry),
       (select count(*) from (select 1 from account_balance group by currency having sum(debits) <> sum(credits)) off)
from account_balance
"""
_READS_LEAST = 20


@dataclass
class Reads:
    """Every total that was read, and what did not add up."""

    totals: list[int] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def take(self, debits: int, credited: int, entries: int, currencies_off: int) -> None:
        """One snapshot."""
        if not debits == credited == entries or currencies_off:
            self.wrong.append(f"{debits=} {credited=} {entries=} {currencies_off=}")
        if self.totals and debits < self.totals[-1]:
            self.wrong.append(f"a read of {debits} after one of {self.totals[-1]}")
        self.totals.append(debits)


@contextmanager
def bank_reads(dsn: str) -> Iterator[Reads]:
    """Reads beside the block, and says at its end whether every read added up."""
    reads, over = Reads(), threading.Event()

    def read() -> None:
        with psycopg.connect(dsn, autocommit=True) as connection:
            while not over.wait(0.02):
                reads.take(*(connection.execute(_READ).fetchone() or ()))

    reader = threading.Thread(target=read, name="bank-reads")
    reader.start()
    try:
        yield reads
        eventually(lambda: len(reads.totals) >= _READS_LEAST or not reader.is_alive(), 30, what="enough reads")
    finally:
        over.set()
        reader.join(30)
    assert reads.wrong == []
    assert len(set(reads.totals)) > 1, "nothing moved while it was read: this proved nothing"
