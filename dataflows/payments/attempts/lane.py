"""The way to one processor: its adapter, a bulkhead and a circuit breaker, and the turn of one lease.

A slot is reserved before a lease is taken in the database, so every leased attempt starts at once and its lease
never runs out while it queues in memory.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import structlog

from dataflows.payments.attempts.adapter import Answer, NotExecuted, NotSent, ProcessorAdapter, Unknown
from dataflows.payments.attempts.circuit_breaker import CircuitBreaker
from schemas import limits

if TYPE_CHECKING:
    from dataflows.payments.attempts.dispatch import Lease
    from dataflows.payments.attempts.metrics import AttemptMetrics

log = structlog.get_logger()


class Lane:
    """Bounded calls to one processor; used from one event loop."""

    def __init__(self, adapter: ProcessorAdapter, metrics: AttemptMetrics) -> None:
        self.adapter = adapter
        self.has_backlog = False  # the table holds due attempts that found no free slot
        self._breaker = CircuitBreaker()
        self._metrics = metrics
        self._taken = 0

    @property
    def name(self) -> str:
        """The processor's name."""
        return self.adapter.name

    def reserve(self, wanted: int) -> int:
        """Takes up to ``wanted`` slots and returns how many; each must be released once."""
        calls_max = self._breaker.calls_max(time.monotonic(), self._taken)
        count = max(0, min(wanted, calls_max - self._taken))
        self._taken += count
        self._metrics.in_flight.labels(self.name).set(self._taken)
        return count

    def reserve_new(self, wanted: int) -> int:
        """As ``reserve``, for attempts that have just come in: none while older ones wait in the table."""
        return 0 if self.has_backlog else self.reserve(wanted)

    def release(self, count: int = 1) -> None:
        """Gives slots back."""
        self._taken -= count
        self._metrics.in_flight.labels(self.name).set(self._taken)

    @property
    def is_worth_a_sweep(self) -> bool:
        """True when due attempts wait and enough slots are free to make a statement worth it."""
        return self.has_backlog and self._taken <= limits.ATTEMPT_CALLS_IN_FLIGHT_MAX * 3 // 4

    async def turn(self, lease: Lease) -> Answer | None:
        """Carries the leased attempt out as far as one turn goes; None when there was no time left to send anything.

        Rule: what may have been sent is queried first, and sent again only when the processor does not know it.
        """
        answer: Answer | None = None
        if lease.in_doubt:
            answer = await self._call(lease, is_query=True)
            if not isinstance(answer, NotExecuted):
                return answer
        if time.monotonic() >= lease.ends_at - limits.ATTEMPT_CALL_TIMEOUT_MS / 1_000:
            return answer  # somebody else may hold it before an answer comes: left to a later turn
        return await self._call(lease, is_query=False)

    async def _call(self, lease: Lease, *, is_query: bool) -> Answer:
        started = time.monotonic()
        answer: Answer
        try:
            answer = await (self.adapter.query(lease.call) if is_query else self.adapter.send(lease.call))
        except Exception:
            # A fault of the adapter: this attempt is in doubt, the others go on.
            log.exception("adapter_failed", processor=self.name, operation_id=lease.call.operation_id)
            answer = Unknown("adapter_failed")
        now = time.monotonic()
        if isinstance(answer, NotSent) or (isinstance(answer, Unknown) and answer.is_outage):
            self._breaker.failed(now)
        else:
            self._breaker.answered()
        kind = "query" if is_query else "send"
        self._metrics.call_seconds.labels(self.name, kind).observe(now - started)
        self._metrics.answers.labels(self.name, kind, type(answer).__name__).inc()
        self._metrics.breaker_open.labels(self.name).set(self._breaker.is_open)
        return answer
