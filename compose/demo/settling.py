"""Waits until nothing moves any more: attempts, events, ClickHouse, webhooks. Bounded; what is left is a problem."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import psycopg

from schemas import limits
from sinks.postgres.sql_files import queries

if TYPE_CHECKING:
    from compose.demo.tally import Tally

_QUERIES = queries("compose.demo", "evidence.sql")


async def settle(postgres_dsn: str, tally: Tally) -> float:
    """The seconds it took until all is final; past the bound the tally says what was not."""
    began = time.monotonic()
    async with await psycopg.AsyncConnection.connect(postgres_dsn, autocommit=True) as connection:
        while True:
            rows = await connection.execute(_QUERIES["unfinished"])
            attempts, events, webhooks = await rows.fetchone() or (0, 0, 0)
            took = time.monotonic() - began
            if not attempts and not events and not webhooks:
                return took
            if took > limits.DEMO_VIEWS_WAIT_S:
                tally.problem(
                    f"after {took:.0f} s {attempts} attempts are open, {events} events not in ClickHouse and "
                    f"{webhooks} webhooks not applied"
                )
                return took
            await asyncio.sleep(limits.DEMO_SETTLE_POLL_MS / 1_000)
