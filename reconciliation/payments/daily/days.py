"""Which days of a processor's reports are due, and when one is over. Pure; all times are UTC.

A day begins to be asked for at the processor's hour, and its report has to be there by the deadline
(``REPORTS_DEADLINE_S`` later). What a processor makes between two deadlines is the report of the later one's day.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from typing import TYPE_CHECKING, Final

from schemas.payments import limits

if TYPE_CHECKING:
    from collections.abc import Iterable

A_DAY: Final = timedelta(days=1)


def begins(day: date, hour: int) -> datetime:
    """From when on this day's report is asked for."""
    return datetime.combine(day, time(hour), UTC)


def deadline(day: date, hour: int) -> datetime:
    """When its report has to be there."""
    return begins(day, hour) + timedelta(seconds=limits.REPORTS_DEADLINE_S)


def last_due(now: datetime, hour: int) -> date:
    """The last day that has begun."""
    today = now.astimezone(UTC).date()
    return today if now >= begins(today, hour) else today - A_DAY


def due(done: date, now: datetime, hour: int) -> list[date]:
    """The days that are not over, oldest first, at most ``REPORTS_CATCH_UP_DAYS``; none when all are.

    A day further ahead than tomorrow was done by a clock that was wrong: the last one that has begun is due then.
    """
    last = last_due(now, hour)
    if done > last + A_DAY:
        return [last]
    missed = min((last - done).days, limits.REPORTS_CATCH_UP_DAYS)
    return [last - n * A_DAY for n in reversed(range(missed))]


def has_report(day: date, hour: int, made: Iterable[datetime]) -> bool:
    """Whether one of the reports that were made at these times is that of the day."""
    after, until = deadline(day - A_DAY, hour), deadline(day, hour)
    return any(after < at <= until for at in made)


def pause_s(tries: int) -> float:
    """How long to wait after so many tries of a day."""
    if tries == 0:
        return 0.0
    doubled: float = limits.REPORTS_RETRY_S * 2.0 ** min(tries - 1, 30)
    return min(doubled, float(limits.REPORTS_RETRY_MAX_S))
