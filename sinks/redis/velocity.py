"""Velocity counters: how often, or for how much, within a window. Counted once for each confirm, whatever is retried.

They are signals, not facts: a crash of the server may lose the last second of them, and nothing is rebuilt. A store
that lost all of them (FLUSHALL, an empty disk) is noticed by its epoch, which Postgres has too: what happened in a
window that began before that is not known.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Sequence
from importlib import resources
from typing import Any, Final

import structlog
from msgspec import Struct
from redis.exceptions import RedisError

from schemas import errors
from schemas.payments import limits as payments_limits
from sinks import limits as sinks_limits
from sinks.redis.connection import connect

_PREFIX: Final = "millrace:velocity"
_EPOCH: Final = "millrace:velocity_epoch"
_STALE: Final = b"stale"
_MS: Final = 1_000
#: the epoch that counters are to have, by the one that the store has now (0 = none)
EpochOf = Callable[[int], Awaitable[int]]
_log: Final = structlog.get_logger(__name__)


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


class _StaleEpoch(Exception):
    """The store counted nothing: it is at another epoch."""

    def __init__(self, held: int) -> None:
        super().__init__(held)
        self.held = held


class VelocityCounters:
    """The counters of one process's connection. Any number of processes count in the same ones."""

    def __init__(self, url: str, epoch_of: EpochOf, timeout_ms: int = sinks_limits.VELOCITY_TIMEOUT_MS) -> None:
        """``epoch_of`` remembers what this store cannot: it may raise what it likes, a confirm then goes without."""
        self._redis = connect(url, timeout_ms)
        self._timeout_s = timeout_ms / _MS
        scripts = resources.files("sinks.redis") / "scripts" / "payments"
        self._script = self._redis.register_script((scripts / "velocity.lua").read_text())
        self._raise_epoch = self._redis.register_script((scripts / "velocity_epoch.lua").read_text())
        self._epoch_of = epoch_of
        self._epoch = 0
        self._fencing = asyncio.Lock()

    async def count(self, countings: Sequence[Counting]) -> list[dict[str, int]]:
        """What each confirm's counters hold, by their names, itself counted; what is not known is left out.

        Raises Unavailable within its timeout, and that of ``epoch_of`` after a loss.
        """
        try:
            return await self._counted_within(countings)
        except _StaleEpoch as stale:
            await self._fence(stale.held)
        try:
            return await self._counted_within(countings)
        except _StaleEpoch as stale:  # another loss, or a process that knows a later one: the next confirm asks again
            raise errors.Unavailable(cause=f"its epoch is {stale.held}, not {self._epoch}") from stale

    async def _counted_within(self, countings: Sequence[Counting]) -> list[dict[str, int]]:
        found = []
        try:
            async with asyncio.timeout(self._timeout_s):
                for start in range(0, len(countings), payments_limits.VELOCITY_PIPELINE_MAX):
                    found += await self._counted(countings[start : start + payments_limits.VELOCITY_PIPELINE_MAX])
        except (RedisError, OSError, TimeoutError) as error:
            raise errors.Unavailable(cause=type(error).__name__) from error
        return found

    async def _fence(self, held: int) -> None:
        """The store has the epoch that is remembered; one that it does not know begins now. Raises Unavailable."""
        async with self._fencing:
            if self._epoch == held != 0:
                return  # somebody was faster
            self._epoch = await self._epoch_of(held)
            if held < self._epoch > 1:
                _log.warning("velocity_counters_lost", held=held, epoch=self._epoch)
            try:
                async with asyncio.timeout(self._timeout_s):
                    self._epoch = int(await self._raise_epoch([_EPOCH], [self._epoch]))
            except (RedisError, OSError, TimeoutError) as error:
                raise errors.Unavailable(cause=type(error).__name__) from error

    async def close(self) -> None:
        """Disconnects."""
        await self._redis.aclose()

    async def _counted(self, countings: Sequence[Counting]) -> list[dict[str, int]]:
        if len(countings) == 1:
            totals: list[list[Any]] = [await self._script(*self._call(countings[0]))]
        else:
            async with self._redis.pipeline(transaction=False) as pipeline:
                for counting in countings:
                    await self._script(*self._call(counting), client=pipeline)
                totals = await pipeline.execute()
        if stale := [row for row in totals if row[0] == _STALE]:
            raise _StaleEpoch(int(stale[0][1]))
        return [
            {counter.name: int(total) for counter, total in zip(counting.counters, row, strict=True) if total}
            for counting, row in zip(countings, totals, strict=True)
        ]

    def _call(self, counting: Counting) -> tuple[list[str], list[int]]:
        longest_s = max(counter.window_s for counter in counting.counters)
        remembered_s = min(longest_s, payments_limits.VELOCITY_IDENTITY_KEPT_S)
        keys = [_EPOCH, _key("seen", counting.identity)]
        arguments = [self._epoch, remembered_s, payments_limits.VELOCITY_BUCKETS]
        for counter in counting.counters:
            keys.append(_key(counter.name, counter.subject))
            arguments += [counter.window_s, counter.increment]
        return keys, arguments


def _key(name: str, subject: str) -> str:
    """A key of bounded length that holds nobody's address or token."""
    return f"{_PREFIX}:{name}:{hashlib.sha256(subject.encode()).hexdigest()[:32]}"
