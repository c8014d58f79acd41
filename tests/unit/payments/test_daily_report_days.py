"""Which days of a processor's reports are due, and which report is that of a day."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone

import pytest

from reconciliation.payments.daily import days
from schemas.payments import limits

DAY = date(2026, 3, 10)
HOUR = 5


def at(hour: int, minute: int = 0, day: int = 10) -> datetime:
    return datetime(2026, 3, day, hour, minute, tzinfo=UTC)


@pytest.mark.parametrize(
    ("done", "now", "due"),
    [
        (DAY - days.A_DAY, at(4, 59), []),
        (DAY - days.A_DAY, at(5), [DAY]),
        (DAY, at(23), []),
        (DAY - 3 * days.A_DAY, at(6), [DAY - 2 * days.A_DAY, DAY - days.A_DAY, DAY]),
        (DAY - 3 * days.A_DAY, at(4), [DAY - 2 * days.A_DAY, DAY - days.A_DAY]),
        (DAY + days.A_DAY, at(6), []),  # a clock that was a little ahead
        (DAY + 30 * days.A_DAY, at(6), [DAY]),  # by a clock that was wrong
    ],
)
def test_a_day_is_due_from_its_hour_until_it_is_over(done: date, now: datetime, due: list[date]) -> None:
    assert days.due(done, now, HOUR) == due


def test_the_hour_is_of_utc_wherever_the_clock_is() -> None:
    now = datetime(2026, 3, 10, 1, 0, tzinfo=timezone(timedelta(hours=14)))  # the day before, 11:00
    assert days.last_due(now, HOUR) == DAY - days.A_DAY


def test_no_more_days_are_caught_up_with_than_the_bound() -> None:
    due = days.due(date(2020, 1, 1), at(6), HOUR)
    assert len(due) == limits.REPORTS_CATCH_UP_DAYS
    assert due[-1] == DAY


def test_each_report_is_that_of_one_day() -> None:
    """From after one deadline to the next one, both ends."""
    edge = days.deadline(DAY, HOUR)
    moments = [edge, edge + timedelta(microseconds=1), edge - days.A_DAY, at(0)]
    ids = [[day for day in range(8, 13) if days.has_report(date(2026, 3, day), HOUR, [one])] for one in moments]
    assert ids == [[10], [11], [9], [10]]


def test_the_pause_doubles_up_to_its_bound() -> None:
    pauses = [days.pause_s(n) for n in range(40)]
    assert pauses[:4] == [0, limits.REPORTS_RETRY_S, 2 * limits.REPORTS_RETRY_S, 4 * limits.REPORTS_RETRY_S]
    assert pauses[-1] == limits.REPORTS_RETRY_MAX_S
    assert pauses == sorted(pauses)
