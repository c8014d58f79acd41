"""Repeats a statement until Postgres has taken it: every statement of the workers may be repeated without harm."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, TypeVar

import psycopg
import structlog

from schemas.errors import Unavailable
from schemas.payments import limits

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from dataflows.payments.attempts.metrics import AttemptMetrics

T = TypeVar("T")
_FIRST_WAIT_MS = 50
log = structlog.get_logger()


class StatementRetry:
    """Waits out an absent database with bounded, jittered backoff. When the worker stops it gives up instead."""

    def __init__(self, stop: asyncio.Event, metrics: AttemptMetrics) -> None:
        self._stop = stop
        self._metrics = metrics
        self.is_reachable = False  # until the first statement says otherwise

    async def __call__(self, what: str, statement: Callable[[], Awaitable[T]]) -> T:
        """The statement's result. Raises Unavailable when the database is away and the worker is told to stop."""
        wait_ms = _FIRST_WAIT_MS
        while True:
            try:
                result = await statement()
            except psycopg.OperationalError as error:  # also deadlocks, time-outs of statements and of the pool
                self._metrics.store_errors.inc()
                self.is_reachable = False
                log.warning("attempt_store_unavailable", what=what, error=str(error).partition("\n")[0])
                if self._stop.is_set():
                    raise Unavailable(f"Postgres is away, attempts could not be stored: {what}") from error
                await asyncio.sleep(wait_ms / 1_000 * random.uniform(0.5, 1))
                wait_ms = min(wait_ms * 2, limits.ATTEMPT_POSTGRES_BACKOFF_MAX_MS)
            else:
                self.is_reachable = True
                return result
