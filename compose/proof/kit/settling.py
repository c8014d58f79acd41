"""Waits until nothing moves any more: attempts, events, ClickHouse, webhooks. Bounded; what is left is a problem."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import psycopg

from schemas import limits
from sinks.postgres.sql_files import queries

if TYPE_CHECKING:
    from compose.proof.demo.tally import Tally

_QUERIES = queries("compose.proof.kit", "evidence.sql")


async def settle(postgres_dsn: str, tally: Tally) -> float:
    """The seconds it took until all is final; past the bound the tally says what was not."""
    took, unfinished = await all_final(postgres_dsn, limits.DEMO_VIEWS_WAIT_S)
    if unfinished:
        tally.problem(unfinished)
    return took


async def all_final(postgres_dsn: str, within_s: float) -> tuple[float, str]:
    """The seconds it took until nothing moves, and what did past the bound ('' when nothing did)."""
    began = time.monotonic()
    async with await psycopg.AsyncConnection.connect(postgres_dsn, autocommit=True) as connection:
        while True:
            rows = await connection.execute(_QUERIES["unfinished"])
            attempts, events, webhooks = await rows.fetchone() or (0, 0, 0)
            took = time.monotonic() - began
            if not attempts and not events and not webhooks:
                return took, ""
            if took > within_s:
                return took, (
                    f"after {took:.0f} s {attempts} attempts are open, {events} events not in ClickHouse and "
                    f"{webhooks} webhooks not applied"
                )
            await asyncio.sleep(limits.DEMO_SETTLE_POLL_MS / 1_000)
