"""The calendars that policies count by, and the windows of them that a snapshot has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from schemas.calendar_windows import Calendar, CalendarWindows, windows_of
from schemas.limiter import limits
from schemas.limiter.limit_policy import LimitPolicy, further_limits_of

if TYPE_CHECKING:
    from collections.abc import Iterable


def calendars_of(policies: Iterable[LimitPolicy], now_s: int) -> tuple[CalendarWindows, ...]:
    """The windows that a snapshot of these policies must have to be of use for as long as it may be used."""
    from_s, until_s = now_s - limits.LIMIT_CALENDAR_BEFORE_S, now_s + limits.LIMIT_CALENDAR_AHEAD_S
    return windows_of(named_calendars(policies), from_s, until_s)


def named_calendars(policies: Iterable[LimitPolicy]) -> set[Calendar]:
    """The calendars by which some limit of these policies counts."""
    found = {one.calendar for policy in policies for one in (policy, *further_limits_of(policy))}
    return {calendar for calendar in found if calendar is not None}
