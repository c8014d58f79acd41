"""The exact arithmetic of quota policies: what the counter store computes with for each.

Everything is integers below 2^53: the counter store computes in doubles. A policy whose terms could leave that range is
refused when it is published, never when it decides. Source: reference limiter 2.1.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from schemas.calendar_windows import LONGEST_S, Calendar
from schemas.limiter.limit_policy import LimitPolicy

SAFE_INTEGER: Final = 2**52  # products of capacity and ticks stay below it: exact in a double, with room for a sum
TICKS_US: Final = (1, 1_000, 1_000_000)
_CODES: Final[dict[str, int]] = {"token_bucket": 0, "sliding_window": 1, "fixed_window": 2, "concurrency": 3}
CALENDAR_CODE: Final = 4  # a fixed window of a calendar
_US_PER_S: Final = 1_000_000
_US_PER_MS: Final = 1_000
CAPACITY_MAX: Final = SAFE_INTEGER - 1


class Terms(Struct, frozen=True):
    """A policy as the counter store computes with it: ``capacity`` tokens, ``refill`` of them per ``period`` ticks."""

    algorithm: int
    capacity: int
    refill: int
    period: int
    slots: int
    tick_us: int
    strict: bool
    calendar: Calendar | None = None  # then ``period`` is that of its longest window


_NEVER_ASKED: Final = Terms(-1, 0, 1, 1, 1, 1, strict=False)  # the script refuses them


def counted_window(policy: LimitPolicy) -> tuple[int, int]:
    """How long it counts, in microseconds, and in how many slots; of no calendar."""
    window_ms = policy.refill_period_ms if policy.algorithm == "token_bucket" else policy.window_ms or 0
    return window_ms * _US_PER_MS, policy.slots if policy.algorithm == "sliding_window" else 1


def terms(policy: LimitPolicy) -> Terms | None:
    """The terms with the finest clock that keeps the arithmetic exact; None when there is none."""
    if not policy.is_counted:
        return _NEVER_ASKED
    if policy.calendar is not None:  # a count and no product: any capacity is exact by the finest clock
        longest_us = LONGEST_S[policy.calendar.unit] * _US_PER_S
        return Terms(CALENDAR_CODE, policy.capacity, policy.capacity, longest_us, 1, 1, False, policy.calendar)
    window_us, slots = counted_window(policy)
    refill = (policy.refill_rate or 0) if policy.algorithm == "token_bucket" else policy.capacity
    for tick_us in TICKS_US:
        period, rest = divmod(window_us, tick_us)
        fits = policy.capacity * period < SAFE_INTEGER and refill < SAFE_INTEGER
        if rest == 0 and period > 0 and slots > 0 and period % slots == 0 and fits:
            return Terms(
                _CODES[policy.algorithm], policy.capacity, max(refill, 1), period, slots, tick_us, policy.strict
            )
    return None
