"""The arithmetic of a quota counter in whole numbers: what is left, how long to wait, what a refund gives back.

The same answers as the functions of the counter store (``sinks/redis/scripts/limiter/rl1.lua``), whose numbers are
doubles below 2^53; here they may be of any size. Times are microseconds since the epoch, computed with as ticks of the
policy's terms, and never go back: a clock that does stands still for its counters. Source: reference limiter 2.3.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Struct, field

from schemas.calendar_windows import Calendar, window_at
from schemas.limiter.limit_terms import CALENDAR_CODE, Terms

TOKEN_BUCKET, SLIDING, FIXED, CALENDAR = 0, 1, 2, CALENDAR_CODE
ALGORITHMS: Final = (TOKEN_BUCKET, SLIDING, FIXED, CALENDAR)
_DEBT_MAX: Final = 2**53 - 1  # of what is carried over: twice the fullest bucket, and still a whole number in a double
_WINDOWS: Final = (FIXED, CALENDAR)
_US_PER_S: Final = 1_000_000
NEVER: Final = -1  # a cost above the capacity does not pass, however long it waits
_latest: Final[dict[Calendar, tuple[int, int]]] = {}  # the window that was asked for last: the next is of it, too


def _window(calendar: Calendar, at_us: int) -> tuple[int, int]:
    """The window that an instant lies in: where it begins and ends. The ticks of a calendar are microseconds.

    Raises TimeZoneUnknown, and so does whatever asks a counter of that calendar for anything but its terms.
    """
    begin, end = _latest.get(calendar, (0, 0))
    if not begin <= at_us < end:
        begin, end = (boundary_s * _US_PER_S for boundary_s in window_at(calendar, at_us // _US_PER_S))
        _latest[calendar] = begin, end
    return begin, end


class ExactCounter(Struct):
    """One counter. A token bucket is a debt in token-ticks: an integer leak, no division until it is read."""

    terms: Terms
    debt: int = 0
    at: int = 0  # the newest tick that charged
    counts: dict[int, int] = field(default_factory=dict)  # of windows, by slot; of a calendar, by where they begin

    def copy(self) -> ExactCounter:
        """Another one with the same history; ``counts`` is never changed in place."""
        return msgspec.structs.replace(self)

    def available(self, now_us: int) -> int:
        """Whole tokens that a request may take; below zero after the capacity was lowered under what is used."""
        t, now = self.terms, self._tick(now_us)
        if t.algorithm == TOKEN_BUCKET:
            return (t.capacity * t.period - self._debt(now)) // t.period
        if t.calendar is not None:
            begin, end = _window(t.calendar, now)
            return t.capacity - sum(count for at, count in self.counts.items() if begin <= at < end)
        whole, fading, slot = self._sliding(now)
        if t.algorithm == FIXED:
            return t.capacity - whole
        return ((t.capacity - whole) * slot - fading) // slot

    def used(self, now_us: int) -> int:
        """What is missing of the capacity, rounded up."""
        return self.terms.capacity - self.available(now_us)

    def charge(self, now_us: int, cost: int) -> None:
        """Something was admitted."""
        t, now = self.terms, self._tick(now_us)
        if t.algorithm == TOKEN_BUCKET:
            self.debt, self.at = self._debt(now) + cost * t.period, now
            return
        slot = self._slot(now)
        oldest = slot - t.slots if t.calendar is None else slot
        self.counts = {at: count for at, count in self.counts.items() if at >= oldest}
        self.counts[slot] = self.counts.get(slot, 0) + cost
        self.at = now

    def give_back(self, now_us: int, charged_us: int, cost: int) -> None:
        """A charge is refunded. What has leaked or faded meanwhile is back already and is not credited again."""
        t, now, then = self.terms, self._tick(now_us), charged_us // self.terms.tick_us
        if t.algorithm == TOKEN_BUCKET:
            left = max(0, cost * t.period - t.refill * max(0, now - then))
            self.debt, self.at = max(0, self._debt(now) - left), now
            return
        slot = self._slot(then)
        if slot in self.counts:
            self.counts = {**self.counts, slot: max(0, self.counts[slot] - cost)}
        self.at = now

    def carry_over(self, terms: Terms, read_us: int, placed_us: int) -> None:
        """Another version of the policy: what is used at ``read_us`` counts as used at ``placed_us``.

        What is counted in slots ages as before; a slot of another length as if it had all been admitted at its end.
        """
        if terms == self.terms:
            return
        before, read = self.copy(), self._tick(read_us)
        whole, rest, divisor = self._usage(read)
        self.terms, self.debt, self.counts = terms, 0, {}
        self.at = placed_us // terms.tick_us
        if terms.algorithm == TOKEN_BUCKET:
            self.debt = min(whole * terms.period - (-rest * terms.period // divisor), _DEBT_MAX)
        elif terms.algorithm == before.terms.algorithm == SLIDING:
            self._take_slots(before, read)
        elif used := whole + (rest > 0):
            self.charge(placed_us, used)

    def _usage(self, now: int) -> tuple[int, int, int]:
        """What is used, exactly: whole tokens, and a part of one as numerator and divisor."""
        t = self.terms
        if t.algorithm == TOKEN_BUCKET:
            return (*divmod(self._debt(now), t.period), t.period)
        if t.algorithm in _WINDOWS:
            return self.used(now * t.tick_us), 0, 1
        whole, fading, slot = self._sliding(now)
        return (whole + fading // slot, fading % slot, slot)

    def _sliding(self, now: int) -> tuple[int, int, int]:
        """Of a sliding window: what counts whole, what fades times the ticks that it still counts, ticks of a slot."""
        slot = self.terms.period // self.terms.slots
        here, offset = divmod(now, slot)
        whole = sum(count for at, count in self.counts.items() if at > here - self.terms.slots)
        left = slot if self.terms.strict else slot - offset
        return whole, self.counts.get(here - self.terms.slots, 0) * left, slot

    def _take_slots(self, before: ExactCounter, now: int) -> None:
        """What was counted in slots of another version."""
        was, t = before.terms, self.terms
        length, slot = was.period // was.slots, t.period // t.slots
        for at, count in before.counts.items():
            if at >= now // length - was.slots:
                last = min((at + 1) * length - 1, now) * was.tick_us // t.tick_us // slot
                self.counts[last] = self.counts.get(last, 0) + count

    def reset_us(self, now_us: int) -> int:
        """How long until nothing of the past counts any more."""
        t, now = self.terms, self._tick(now_us)
        if t.algorithm == TOKEN_BUCKET:
            return -(-self._debt(now) // t.refill) * t.tick_us
        if t.algorithm in _WINDOWS:
            return self._rest(now) * t.tick_us
        slot = t.period // t.slots
        oldest = now // slot - t.slots
        newest = max((at for at, count in self.counts.items() if count > 0 and at >= oldest), default=None)
        return 0 if newest is None else ((newest + t.slots + 1) * slot - now) * t.tick_us

    def retry_us(self, now_us: int, cost: int) -> int:
        """The least wait after which a refused cost passes if nothing else comes."""
        t, now = self.terms, self._tick(now_us)
        if cost > t.capacity:
            return NEVER
        if t.algorithm == TOKEN_BUCKET:
            return -(-(self._debt(now) + (cost - t.capacity) * t.period) // t.refill) * t.tick_us
        if t.algorithm in _WINDOWS:
            return self._rest(now) * t.tick_us
        return self._slots_to_wait(now, cost) * t.tick_us

    def _slots_to_wait(self, now: int, cost: int) -> int:
        """Ticks until so many slots have gone, and so much of the one after them has faded, that the cost fits."""
        t, slot = self.terms, self.terms.period // self.terms.slots
        here, offset = divmod(now, slot)
        for gone in range(t.slots + 1):
            whole = sum(count for at, count in self.counts.items() if at > here - t.slots + gone)
            if whole + cost > t.capacity:
                continue
            fading = self.counts.get(here - t.slots + gone, 0)
            faded = 0
            if fading and t.strict:
                faded = slot if whole + fading + cost > t.capacity else 0
            elif fading:
                faded = max(0, slot - (t.capacity - cost - whole) * slot // fading)
            return max(1, gone * slot - offset + max(faded, offset if gone == 0 else 0))
        return (t.slots + 1) * slot - offset

    def _tick(self, now_us: int) -> int:
        return max(now_us // self.terms.tick_us, self.at)

    def _slot(self, tick: int) -> int:
        t = self.terms
        return tick // (t.period // t.slots) if t.calendar is None else _window(t.calendar, tick)[0]

    def _rest(self, now: int) -> int:
        """Of a window, how much is left of it."""
        t = self.terms
        return t.period - now % t.period if t.calendar is None else _window(t.calendar, now)[1] - now

    def _debt(self, now: int) -> int:
        return max(0, self.debt - self.terms.refill * (now - self.at))
