"""Ends tasks that go on for as long as their process, however often they must be told."""

from __future__ import annotations

import asyncio

from sinks import limits


async def over(*tasks: asyncio.Task[None]) -> None:
    """Cancels the tasks, and returns when they are over, whatever they ended with.

    Rule: a cancellation can be lost on its way, and a loop that lost its own would never end, nor who waits for it.
    ``asyncio.wait_for`` of Python 3.11 returns what came in the same turn instead, so a task that waits for a
    connection loses it where the pool is closed just before; and a pool that checks a connection takes it for a broken
    one.
    """
    pending = set(tasks)
    while pending:
        for task in pending:
            task.cancel()
        _, pending = await asyncio.wait(pending, timeout=limits.CANCELLED_AGAIN_S)
