"""How a processor has answered lately: counts over a sliding window, for whoever routes payments. Pure.

Counted are operations by what the processor made of them. Being asked for an operation that it does not know says
nothing about its health, and neither does an outage of our vault.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from msgspec import Struct

from dataflows.payments.attempts.adapter import Answer, Definitive, NotExecuted, NotSent, Unknown
from dataflows.payments.attempts.circuit_breaker import BreakerState
from schemas.payments import limits

_SUCCESSES: Final = frozenset({"authorized", "captured", "voided", "refunded", "submitted"})
_BUCKET_S: Final = limits.PROCESSOR_HEALTH_WINDOW_S / limits.PROCESSOR_HEALTH_BUCKETS


class Counts(Struct):
    """Operations by outcome. ``failed``: refused, unreachable or turned away, none of it executed."""

    succeeded: int = 0
    declined: int = 0
    failed: int = 0
    unknown: int = 0

    def add(self, other: Counts) -> None:
        """Adds the other's counts to these."""
        self.succeeded += other.succeeded
        self.declined += other.declined
        self.failed += other.failed
        self.unknown += other.unknown


class Health(Struct, frozen=True, kw_only=True):
    """One processor as one worker sees it now."""

    processor: str
    counts: Counts
    breaker: BreakerState


def outcome_of(answer: Answer, *, is_query: bool) -> Counts | None:
    """What an answer counts as; None when it says nothing about the processor."""
    match answer:
        case Definitive(status=status):
            if status in _SUCCESSES:
                return Counts(succeeded=1)
            return Counts(declined=1) if status == "declined" else Counts(failed=1)
        case Unknown(reason):
            return None if reason.startswith("vault_") else Counts(unknown=1)
        case NotSent():
            return Counts(failed=1)
        case NotExecuted(reason, is_for_good):
            return None if is_query or is_for_good or reason.startswith(("vault_", "no_vault")) else Counts(failed=1)
    return None


class HealthWindow:
    """Counts of the last ``PROCESSOR_HEALTH_WINDOW_S`` seconds; ``now`` is in monotonic seconds."""

    def __init__(self) -> None:
        self._buckets: deque[tuple[float, Counts]] = deque()

    def add(self, outcome: Counts, now: float) -> None:
        """Counts one outcome."""
        if not self._buckets or now - self._buckets[-1][0] >= _BUCKET_S:
            self._buckets.append((now, Counts()))
        self._buckets[-1][1].add(outcome)

    def counts(self, now: float) -> Counts:
        """What came within the window."""
        while self._buckets and now - self._buckets[0][0] >= limits.PROCESSOR_HEALTH_WINDOW_S:
            self._buckets.popleft()
        total = Counts()
        for _, counts in self._buckets:
            total.add(counts)
        return total
