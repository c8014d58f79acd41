"""The way to one processor: its adapter, a bulkhead and a circuit breaker, and the turn of one lease.

Nothing of it is shared with another processor, so one that hangs delays no call of another's. A slot is reserved before
a lease is taken in the database, so every leased attempt starts at once and its lease never runs out while it queues.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Literal

import structlog

from dataflows.payments.attempts.adapter import (
    CHARGES,
    Answer,
    NotExecuted,
    NotSent,
    ProcessorAdapter,
    RequiresAction,
    Unknown,
)
from dataflows.payments.attempts.circuit_breaker import CircuitBreaker
from dataflows.payments.attempts.health import Health, HealthWindow, outcome_of
from schemas.payments import limits

if TYPE_CHECKING:
    from dataflows.payments.attempts.dispatch import AttemptLease
    from dataflows.payments.attempts.metrics import AttemptMetrics

CallKind = Literal["query", "send", "end_wait"]
log = structlog.get_logger()


class ProcessorLane:
    """Bounded calls to one processor; used from one event loop."""

    def __init__(self, adapter: ProcessorAdapter, metrics: AttemptMetrics) -> None:
        self.adapter = adapter
        self.has_backlog = False  # the table holds due attempts that found no free slot
        self._breaker = CircuitBreaker()
        self._window = HealthWindow()
        self._is_probing = False
        self._metrics = metrics
        self._taken = 0

    @property
    def name(self) -> str:
        """The processor's name."""
        return self.adapter.name

    def reserve(self, wanted: int) -> int:
        """Takes up to ``wanted`` slots and returns how many; each must be released once."""
        calls_max = self._breaker.calls_max(self._taken)
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

    @property
    def is_away(self) -> bool:
        """True when the processor has not answered anything for so long that what never left need not wait for it."""
        return self._breaker.away_for_s(time.monotonic()) >= limits.ATTEMPT_UNAVAILABLE_AFTER_S

    def health(self) -> Health:
        """How the processor is, as its last calls tell."""
        return Health(processor=self.name, counts=self._window.counts(time.monotonic()), breaker=self._breaker.state)

    def wants_probe(self) -> bool:
        """True once when an ill processor is to be asked how it is: call ``probe`` then."""
        if self._is_probing or not self._breaker.is_probe_due(time.monotonic()):
            return False
        self._is_probing = True
        return True

    async def probe(self) -> None:
        """Asks the processor; what it answers decides whether an attempt may be tried."""
        try:
            is_answered = await self.adapter.is_reachable()
        except Exception:
            log.exception("adapter_failed", processor=self.name)
            is_answered = False
        finally:
            self._is_probing = False
        self._breaker.probed(time.monotonic(), is_answered=is_answered)

    async def turn(self, lease: AttemptLease) -> Answer | None:
        """Carries the leased attempt out as far as one turn goes; None when there was no time left to send anything.

        Rule: what may have been sent is queried first, and sent again only when the processor does not know it. What
        waits for its payer in vain is ended.
        """
        answer: Answer | None = None
        if lease.in_doubt:
            answer = await self._call(lease, "query")
            if isinstance(answer, RequiresAction) and _is_wait_over(lease) and _has_time(lease):
                return await self._call(lease, "end_wait", answer)
            if lease.only_asked or not isinstance(answer, NotExecuted):
                return answer
        if not _has_time(lease):
            return answer  # somebody else may hold it before an answer comes: left to a later turn
        if lease.in_doubt and time.monotonic() - lease.first_at >= self.adapter.identity_kept_s:
            return Unknown("identity_forgotten")  # a second send could be a second effect
        return await self._call(lease, "send")

    async def _call(self, lease: AttemptLease, kind: CallKind, waits: RequiresAction | None = None) -> Answer:
        started = time.monotonic()
        answer: Answer
        try:
            if waits is not None:
                answer = await self.adapter.end_wait(lease.call, waits)
            else:
                answer = await (self.adapter.query(lease.call) if kind == "query" else self.adapter.send(lease.call))
        except Exception:
            # A fault of the adapter: this attempt is in doubt, the others go on.
            log.exception("adapter_failed", processor=self.name, operation_id=lease.call.operation_id)
            answer = Unknown("adapter_failed")
        now = time.monotonic()
        if isinstance(answer, NotSent) or (isinstance(answer, Unknown) and answer.is_outage):
            self._breaker.failed(now)
        else:
            self._breaker.answered()
        outcome = outcome_of(answer, is_query=kind == "query")
        if outcome is not None and kind != "end_wait":  # what we ended is no failure of the processor's
            self._window.add(outcome, now)
        self._metrics.call_seconds.labels(self.name, kind).observe(now - started)
        self._metrics.answers.labels(self.name, kind, type(answer).__name__).inc()
        self._metrics.breaker_open.labels(self.name).set(self._breaker.state == "open")
        return answer


def _has_time(lease: AttemptLease) -> bool:
    """Whether one more call is answered while the lease is still ours."""
    return time.monotonic() < lease.ends_at - limits.ATTEMPT_CALL_TIMEOUT_MS / 1_000


def _is_wait_over(lease: AttemptLease) -> bool:
    """Whether a charge waits for its payer in vain: for too long, or of a payment that was canceled."""
    is_late = time.monotonic() - lease.first_at >= limits.ATTEMPT_ACTION_WAIT_S
    return lease.call.kind in CHARGES and (is_late or lease.is_unwanted)
