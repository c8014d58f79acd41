"""The COPY ceiling: how fast one connection writes the very rows that an owner wrote, with no thought behind them.

The rows come out of a finished run and go, batch by batch, into a new database with the same tables, indexes, checks
and triggers, every batch one durable transaction. COPY is the fastest way into Postgres, so this is what the same
server could do at best for one writer.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import psycopg
from psycopg import sql

_TABLES: Final = ("payment_intent", "processor_attempt", "ledger_txn", "ledger_entry", "idempotency", "outbox")
Batch = list[tuple[str, bytes]]  # table and rows


@dataclass(frozen=True, slots=True)
class CopyCeiling:
    """What one connection with COPY did."""

    commands_per_s: float
    rows_per_command: float
    bytes_per_command: float
    batches: int


def batches_of(dsn: str, batches: int) -> tuple[list[Batch], int]:
    """All rows of a finished run in the order in which they lie, cut into so many batches; and their number."""
    found: list[Batch] = [[] for _ in range(batches)]
    total = 0
    with psycopg.connect(dsn, autocommit=True) as connection:
        for table in _TABLES:
            rows = _rows(connection, table)
            total += len(rows)
            edges = [_after_transaction(rows, len(rows) * n // batches) for n in range(batches + 1)]
            for n, (begin, end) in enumerate(pairwise(edges)):
                if end > begin:
                    found[n].append((table, b"".join(rows[begin:end])))
    return found, total


def _after_transaction(rows: list[bytes], edge: int) -> int:
    """The first place from ``edge`` on where the first column changes: no ledger transaction is cut."""
    while 0 < edge < len(rows) and rows[edge].split(b"\t", 1)[0] == rows[edge - 1].split(b"\t", 1)[0]:
        edge += 1
    return edge


def _rows(connection: psycopg.Connection[Any], table: str) -> list[bytes]:
    # Concurrent writers leave the lines of a ledger transaction on different pages, and COPY must not cut one.
    source = "(select * from {} order by txn_id, line)" if table == "ledger_entry" else "{}"
    with connection.cursor().copy(sql.SQL(f"copy {source} to stdout").format(sql.Identifier(table))) as copy:
        return [bytes(row) for row in copy]


def measure(dsn: str, batches: list[Batch], rows: int, commands: int) -> CopyCeiling:
    """Writes the batches into an empty database."""
    size = 0
    with psycopg.connect(dsn, autocommit=True) as connection:
        cursor = connection.cursor()
        began = time.perf_counter()
        for batch in batches:
            with connection.transaction():
                for table, data in batch:
                    size += len(data)
                    with cursor.copy(sql.SQL("copy {} from stdin").format(sql.Identifier(table))) as copy:
                        copy.write(data)
        seconds = time.perf_counter() - began
    return CopyCeiling(
        commands_per_s=round(commands / seconds, 1),
        rows_per_command=round(rows / commands, 2),
        bytes_per_command=round(size / commands, 1),
        batches=len(batches),
    )
