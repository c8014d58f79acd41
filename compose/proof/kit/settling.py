"""Waits until nothing moves any more: attempts, events, ClickHouse, webhooks. Bounded; what is left is a problem."""

from __future__ import annotations

import asyncio
import time

import psycopg

from compose.proof import limits
from schemas.payments.topics import EVENTS
from sinks.postgres.sql_files import queries

_QUERIES = queries("compose.proof.kit", "evidence.sql")


async def all_final(postgres_dsn: str, within_s: float) -> tuple[float, str]:
    """The seconds it took until nothing moves, and what did past the bound ('' when nothing did)."""
    began = time.monotonic()
    async with await psycopg.AsyncConnection.connect(postgres_dsn, autocommit=True) as connection:
        while True:
            rows = await connection.execute(_QUERIES["unfinished"], {"topic": EVENTS})
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
