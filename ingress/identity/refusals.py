"""Refusals of one person and action as the audit log keeps them: the first of a minute each, all further as one number.

The log is for ever and its rows are written one after the other, so whoever is refused ten thousand times a minute
would fill it, and slow the operators who decide. What a killed process had only counted is lost: a number, and never
that there were refusals.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import structlog
from msgspec import Struct

from ingress import limits
from schemas import errors
from sinks import cancelled

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

Key = tuple[str, str]  # who, and what was refused
_OTHERS: Final[Key] = ("(others)", "(others)")


class _Seen(Struct):
    """Of one key, in this minute."""

    rows: int = 0
    further: int = 0


class Refusals:
    """Which refusals are written one by one. ``append`` writes the row of so many at once."""

    def __init__(self, append: Callable[[Key, int], Awaitable[None]]) -> None:
        self._append = append
        self._seen: dict[Key, _Seen] = {}  # in this minute
        self._ending: asyncio.Task[None] | None = None

    def is_written(self, key: Key) -> bool:
        """Whether this refusal gets a row of its own; one that does not is in the number of its minute."""
        key, seen = self._of_minute(key)
        if key == _OTHERS or seen.rows >= limits.AUDIT_REFUSALS_EACH_MAX:
            seen.further += 1
            return False
        seen.rows += 1
        return True

    def is_one_of_many(self, key: Key) -> bool:
        """Whether this key has had all its rows of this minute: then this refusal is in its number."""
        seen = self._seen.get(key)
        if seen is None or seen.rows < limits.AUDIT_REFUSALS_EACH_MAX:
            return False
        seen.further += 1
        return True

    def wrote(self, key: Key) -> None:
        """A refusal whose row the database has written."""
        self._of_minute(key)[1].rows += 1

    def _of_minute(self, key: Key) -> tuple[Key, _Seen]:
        if key not in self._seen and len(self._seen) >= limits.AUDIT_REFUSALS_KEYS_MAX:
            key = _OTHERS
        if self._ending is None:
            self._ending = asyncio.get_running_loop().create_task(self._end_of_minute())
        return key, self._seen.setdefault(key, _Seen())

    async def close(self) -> None:
        """Writes what was counted so far."""
        if self._ending is not None:
            await cancelled.over(self._ending)
        await self._write()

    async def _end_of_minute(self) -> None:
        await asyncio.sleep(limits.AUDIT_REFUSALS_WINDOW_S)
        self._ending = None
        await self._write()

    async def _write(self) -> None:
        counted, self._seen = self._seen, {}
        for key, seen in counted.items():
            if not seen.further:
                continue
            try:
                await self._append(key, seen.further)
            except errors.PlatformError as error:  # the log is out: nothing privileged is answered then
                structlog.get_logger().warning("audit_refusals_lost", count=seen.further, code=error.code)
