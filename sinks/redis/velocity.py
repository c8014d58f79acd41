"""Velocity counters: how often, or for how much, within a window. Counted once for each confirm, whatever is retried.

They are signals, not facts: a crash of the server may lose the last second of them, and nothing is rebuilt.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from importlib import resources
from typing import Final

from msgspec import Struct
from redis.exceptions import RedisError

from schemas import errors
from schemas.payments import limits as payments_limits
from sinks import limits as sinks_limits
from sinks.redis.connection import connect

_PREFIX: Final = "millrace:velocity"
_MS: Final = 1_000


class Counter(Struct, frozen=True):
    """One counter that a confirm counts in; ``subject`` is whose, in our words (merchant and ip, ...)."""

    name: str
    subject: str
    window_s: int
    increment: int


class Counting(Struct, frozen=True):
    """One confirm: its identity, by which a retry is known, and what it counts in."""

    identity: str
    counters: tuple[Counter, ...]


class VelocityCounters:
    """The counters of one process's connection. Any number of processes count in the same ones."""

    def __init__(self, url: str, timeout_ms: int = sinks_limits.VELOCITY_TIMEOUT_MS) -> None:
        self._redis = connect(url, timeout_ms)
        self._timeout_s = timeout_ms / _MS
        script = resources.files("sinks.redis") / "scripts" / "payments" / "velocity.lua"
        self._script = self._redis.register_script(script.read_text())

    async def count(self, countings: Sequence[Counting]) -> list[dict[str, int]]:
        """What each confirm's counters hold, by their names, itself counted. Raises Unavailable within its timeout."""
        found = []
        try:
            async with asyncio.timeout(self._timeout_s):
                for start in range(0, len(countings), payments_limits.VELOCITY_PIPELINE_MAX):
                    found += await self._counted(countings[start : start + payments_limits.VELOCITY_PIPELINE_MAX])
        except (RedisError, OSError, TimeoutError) as error:
            raise errors.Unavailable(cause=type(error).__name__) from error
        return found

    async def close(self) -> None:
        """Disconnects."""
        await self._redis.aclose()

    async def _counted(self, countings: Sequence[Counting]) -> list[dict[str, int]]:
        if len(countings) == 1:
            totals = [await self._script(*_call(countings[0]))]
        else:
            async with self._redis.pipeline(transaction=False) as pipeline:
                for counting in countings:
                    await self._script(*_call(counting), client=pipeline)
                totals = await pipeline.execute()
        return [
            {counter.name: int(total) for counter, total in zip(counting.counters, row, strict=True)}
            for counting, row in zip(countings, totals, strict=True)
        ]


def _call(counting: Counting) -> tuple[list[str], list[int]]:
    longest_s = max(counter.window_s for counter in counting.counters)
    remembered_s = min(longest_s, payments_limits.VELOCITY_IDENTITY_KEPT_S)
    keys = [_key("seen", counting.identity)]
    arguments = [remembered_s, payments_limits.VELOCITY_BUCKETS]
    for counter in counting.counters:
        keys.append(_key(counter.name, counter.subject))
        arguments += [counter.window_s, counter.increment]
    return keys, arguments


def _key(name: str, subject: str) -> str:
    """A key of bounded length that holds nobody's address or token."""
    return f"{_PREFIX}:{name}:{hashlib.sha256(subject.encode()).hexdigest()[:32]}"
