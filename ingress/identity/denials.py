"""Who is not let in any more, as one process knows it: read once a second, and asked with every call.

Guarantee: whom an operator has denied is refused, and what it has open ends, within 5 s of the commit, in every process
that holds one of these. What is older than ``ACCESS_DENIED_STALE_MAX_S`` is read before anybody is let in, and where it
cannot be read nobody is (fail_closed): a process that slept or lost Postgres lets in no one of whom it cannot know.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final

import structlog

from ingress import limits
from ingress.identity.clock import JudgedClock
from schemas import errors
from schemas.operators.access_denial import SUBJECT, TOKEN
from schemas.senders import kind_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ingress.identity.caller import Caller
    from ingress.identity.known_keys import Rows

QUERY: Final = "access_denials"
Denied = dict[tuple[str, str], float | None]  # kind and name -> only tokens issued until then, in seconds; None: all


class Denials:
    """One process's copy of the list. ``start`` begins to follow it, ``close`` ends that."""

    def __init__(
        self, store: Rows, clock: Callable[[], float] = time.monotonic, wall: Callable[[], float] = time.time
    ) -> None:
        self._store = store
        self._clock = clock
        self._judged = JudgedClock(wall)
        self._denied: Denied = {}
        self._version = 0
        self._read_at = self._tried_at = float("-inf")
        self._reading: asyncio.Task[None] | None = None
        self._follower: asyncio.Task[None] | None = None
        self._open: dict[asyncio.Task[object], list[Caller]] = {}  # for whom, as far as that could be told
        self._ended: dict[asyncio.Task[object], errors.PlatformError] = {}

    def start(self) -> None:
        """Follows the list until ``close``."""
        self._follower = asyncio.get_running_loop().create_task(self._follow())

    def close(self) -> None:
        """Reads no more."""
        for task in (self._follower, self._reading):
            if task is not None:
                task.cancel()

    async def require(self, caller: Caller) -> None:
        """Raises Suspended or Unauthenticated for who is denied; Unavailable when nobody can know it."""
        if self._age() > limits.ACCESS_DENIED_STALE_MAX_S:
            await self._read_now()
        self.require_clock()
        if (refusal := self.why_not(caller)) is not None:
            raise refusal
        open_for = self._open.get(asyncio.current_task())  # type: ignore[arg-type] # None is nobody's
        if open_for is not None and caller not in open_for:
            open_for.append(caller)

    def require_clock(self) -> None:
        """Raises Unavailable while our clock is far off the database's: whom we know by a time, we do not know."""
        self._judged.require_right()

    def why_not(self, caller: Caller) -> errors.PlatformError | None:
        """Why this caller is refused, by what is known now."""
        if not self._denied:
            return None
        for key in _names_of(caller):
            if key not in self._denied:
                continue
            issued_before = self._denied[key]
            if issued_before is None and key[0] != TOKEN:
                return errors.Suspended()
            if issued_before is None or caller.issued_at <= issued_before:
                return errors.Unauthenticated("The token was revoked; sign in again.")
        return None

    def opened(self, task: asyncio.Task[object], caller: Caller | None) -> None:
        """The task answers this caller, and is cancelled when it is denied meanwhile.

        So it is when anybody is denied whom ``require`` lets in within the task: None could not be told just now.
        """
        self._open[task] = [] if caller is None else [caller]

    def closed(self, task: asyncio.Task[object]) -> errors.PlatformError | None:
        """The task is done; why it was cancelled, when it was."""
        self._open.pop(task, None)
        return self._ended.pop(task, None)

    async def _follow(self) -> None:
        while True:
            try:
                await self._read_now()
            except errors.Unavailable as error:
                structlog.get_logger().warning("access_denials_not_read", cause=error.public)
            await asyncio.sleep(limits.ACCESS_DENIED_POLL_S)

    async def _read_now(self) -> None:
        """One read for all who wait for it. Raises Unavailable, also shortly after one that failed."""
        if self._reading is None or self._reading.done():
            if self._clock() - self._tried_at < limits.ACCESS_DENIED_RETRY_S and self._read_at < self._tried_at:
                raise errors.Unavailable("Who is suspended cannot be read; try again later.")
            self._reading = asyncio.get_running_loop().create_task(self._read())
        await asyncio.shield(self._reading)

    async def _read(self) -> None:
        # before the query: what is older than its answer is not called younger
        asked_at, wall_asked_at = self._clock(), self._judged.wall()
        self._tried_at = asked_at
        try:
            async with asyncio.timeout(limits.ACCESS_DENIED_READ_TIMEOUT_S):
                rows = await self._store.rows(QUERY, {"known": self._version})
        except TimeoutError as error:
            raise errors.Unavailable("Who is suspended cannot be read; try again later.") from error
        finally:
            self._tried_at = self._clock()
        database_s, version = rows[0][:2]
        self._judged.judge(wall_asked_at, database_s)
        if version != self._version:
            self._version = version
            self._denied = {(kind, name): issued_before for _, _, kind, name, issued_before in rows if kind is not None}
            self._end_open()
        self._read_at = asked_at

    def _end_open(self) -> None:
        for task, callers in list(self._open.items()):
            refusal = next((why for caller in callers if (why := self.why_not(caller)) is not None), None)
            if refusal is not None:
                self._ended[task] = refusal
                del self._open[task]
                task.cancel()

    def _age(self) -> float:
        return self._clock() - self._read_at


def _names_of(caller: Caller) -> Iterator[tuple[str, str]]:
    """By which names a caller may be denied. Support acts for a tenant, but is not it."""
    if not caller.grant_id:
        yield kind_of(caller.principal), caller.principal.rpartition(":")[2]
    yield SUBJECT, caller.subject
    if caller.token_id:
        yield TOKEN, caller.token_id
