"""Refusals of one person and action as the audit log keeps them: the first of a minute each, all further as one number.

The log is for ever and its rows are written one after the other, so whoever is refused ten thousand times a minute
would fill it, and slow the operators who decide. What a killed process had only counted is lost: a number, and never
that there were refusals.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import structlog

from ingress import limits
from schemas import errors
from sinks import cancelled

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

Key = tuple[str, str]  # who, and what was refused
_OTHERS: Final[Key] = ("(others)", "(others)")


class Refusals:
    """Which refusals are written one by one. ``append`` writes the row of so many at once."""

    def __init__(self, append: Callable[[Key, int], Awaitable[None]]) -> None:
        self._append = append
        self._seen: dict[Key, int] = {}  # in this minute
        self._ending: asyncio.Task[None] | None = None

    def is_written(self, key: Key) -> bool:
        """Whether this refusal gets a row of its own; one that does not is in the number of its minute."""
        if key not in self._seen and len(self._seen) >= limits.AUDIT_REFUSALS_KEYS_MAX:
            key = _OTHERS
        seen = self._seen[key] = self._seen.get(key, 0) + 1
        if self._ending is None:
            self._ending = asyncio.get_running_loop().create_task(self._end_of_minute())
        return seen <= limits.AUDIT_REFUSALS_EACH_MAX and key != _OTHERS

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
            more = seen if key == _OTHERS else seen - limits.AUDIT_REFUSALS_EACH_MAX
            if more <= 0:
                continue
            try:
                await self._append(key, more)
            except errors.PlatformError as error:  # the log is out: nothing privileged is answered then
                structlog.get_logger().warning("audit_refusals_lost", count=more, code=error.code)
