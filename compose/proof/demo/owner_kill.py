"""Kills one owner without warning while requests go on, and sees how long its partitions were nobody's."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psycopg

from compose.proof import limits
from schemas.payments import topics
from sinks.postgres.sql_files import queries

if TYPE_CHECKING:
    from compose.proof.kit.own_stack import OwnStack

_QUERIES = queries("compose.proof.kit", "evidence.sql")


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """What was done, and what came of it. ``moved_after_s`` None: its partitions were not taken over in time."""

    name: str
    pid: int
    killed_at: int  # microseconds since the epoch
    partitions: int
    moved_after_s: float | None


async def kill_an_owner(stack: OwnStack, postgres_dsn: str) -> Kill:
    """Kills the owner that holds the most partitions, and returns when others have taken all of them over."""
    pids = stack.pids("owner-")
    async with await psycopg.AsyncConnection.connect(postgres_dsn, autocommit=True) as connection:
        held = await _held_by_one_of(connection, list(pids.values()))
        name = max(pids, key=lambda owner: _held_by(held, pids[owner]))
        pid, partitions = pids[name], _held_by(held, pids[name])
        os.kill(pid, signal.SIGKILL)
        killed_at, began = time.time_ns() // 1_000, time.monotonic()
        moved_after_s: float | None = None
        while time.monotonic() - began < limits.DEMO_OWNER_BACK_WAIT_S:
            await asyncio.sleep(limits.DEMO_SETTLE_POLL_MS / 1_000)
            if not _held_by(await _held(connection), pid):
                moved_after_s = time.monotonic() - began
                break
    return Kill(name=name, pid=pid, killed_at=killed_at, partitions=partitions, moved_after_s=moved_after_s)


async def _held_by_one_of(connection: psycopg.AsyncConnection, pids: list[int]) -> list[str]:
    """Who holds the partitions once one of these holds any: on a busy machine the first share-out takes a while."""
    ends_at = time.monotonic() + limits.DEMO_OWNER_BACK_WAIT_S
    while True:
        held = await _held(connection)
        if any(_held_by(held, pid) for pid in pids) or time.monotonic() > ends_at:
            return held
        await asyncio.sleep(limits.DEMO_SETTLE_POLL_MS / 1_000)


async def _held(connection: psycopg.AsyncConnection) -> list[str]:
    rows = await connection.execute(_QUERIES["partition_owners"], {"topic": topics.COMMANDS})
    return [owner_id for (owner_id,) in await rows.fetchall()]


def _held_by(held: list[str], pid: int) -> int:
    """How many partitions the process holds: its owner id ends in its pid and its number."""
    return sum(str(pid) in owner_id.split("-") for owner_id in held)
