"""Windows of calendars against the clocks of real zones: months, summer time, half hours, a day that never was."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import get_args
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from limiter.policy.calendars import calendars_of
from schemas.calendar_windows import Calendar, Unit, time_zones, window_at, windows_from
from schemas.limiter import limits
from tests.worlds.limiter.counter_server import policy

ZONES = (
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Asia/Kolkata",
    "Asia/Kathmandu",
    "Australia/Lord_Howe",  # half an hour of summer time
    "Pacific/Apia",  # had no 30 December 2011
    "Pacific/Kwajalein",  # had no 21 August 1993
    "America/St_Johns",  # went back to yesterday at 0:01, until 2011
    "America/Sao_Paulo",  # had summer days that began at 1:00
    "Africa/Casablanca",
    "Antarctica/Troll",  # two hours of summer time
)
UNITS: tuple[Unit, ...] = get_args(Unit)
HOUR = 3_600
instants = st.integers(0, 2_500_000_000)


def at(text: str) -> int:
    """Seconds of an instant that is written with its offset."""
    return int(datetime.fromisoformat(text).timestamp())


def shown(calendar: Calendar, at_s: int) -> tuple[int, ...]:
    """What the clocks of a zone show at an instant, as far as the unit goes: larger is later."""
    local = datetime.fromtimestamp(at_s, ZoneInfo(calendar.time_zone))
    return {
        "hour": (local.year, local.month, local.day, local.hour),
        "day": (local.year, local.month, local.day),
        "week": local.isocalendar()[:2],
        "month": (local.year, local.month),
    }[calendar.unit]


@settings(deadline=None)
@given(st.sampled_from(UNITS), st.sampled_from(ZONES), instants, st.data())
@example("day", "Pacific/Apia", at("2011-12-31T00:30+14:00"), None)
@example("day", "America/St_Johns", at("2010-11-06T23:30-03:30"), None)
@example("hour", "Australia/Lord_Howe", at("2026-04-05T01:45+10:30"), None)
def test_a_window_is_from_the_first_instant_that_shows_it_to_the_first_that_shows_a_later_one(
    unit: Unit, zone: str, instant: int, data: st.DataObject | None
) -> None:
    calendar = Calendar(unit, zone)
    begin, end = window_at(calendar, instant)
    inside = instant if data is None else data.draw(st.integers(begin, end - 1))
    before = begin - 1 if data is None else data.draw(st.integers(begin - 3 * 86_400, begin - 1))
    assert begin <= instant < end
    for moment in (begin, instant, inside, end - 1):  # a clock that went back shows less, and never more
        assert shown(calendar, moment) <= shown(calendar, begin)
        assert window_at(calendar, moment) == (begin, end)
    for moment in (before, begin - 1):
        assert shown(calendar, moment) < shown(calendar, begin)
    assert shown(calendar, end) > shown(calendar, begin)


@pytest.mark.parametrize(
    ("zone", "day", "hours"),
    [
        ("Europe/Berlin", "2026-03-29T12:00+02:00", 23),
        ("Europe/Berlin", "2026-10-25T12:00+01:00", 25),
        ("America/New_York", "2026-03-08T12:00-04:00", 23),
        ("America/New_York", "2026-11-01T12:00-05:00", 25),
        ("Australia/Lord_Howe", "2026-04-05T12:00+10:30", 24.5),
        ("Australia/Lord_Howe", "2026-10-04T12:00+11:00", 23.5),
        ("Asia/Kolkata", "2026-03-29T12:00+05:30", 24),
        ("Antarctica/Troll", "2026-03-29T12:00+02:00", 22),
    ],
)
def test_days_are_as_long_as_clocks_make_them(zone: str, day: str, hours: float) -> None:
    begin, end = window_at(Calendar("day", zone), at(day))
    assert end - begin == hours * HOUR
    assert datetime.fromtimestamp(begin, ZoneInfo(zone)).strftime("%H:%M:%S") == "00:00:00"


def test_a_day_that_a_zone_skipped_has_no_window() -> None:
    before = window_at(Calendar("day", "Pacific/Apia"), at("2011-12-29T23:00-10:00"))
    after = window_at(Calendar("day", "Pacific/Apia"), at("2011-12-31T00:00+14:00"))
    assert before[1] == after[0] == at("2011-12-31T00:00+14:00")
    assert [end - begin for begin, end in (before, after)] == [24 * HOUR, 24 * HOUR]


def test_a_day_that_begins_twice_begins_once() -> None:
    """At 0:01 on Sunday the clocks of Newfoundland went back to Saturday: that hour belongs to Sunday."""
    begin, end = window_at(Calendar("day", "America/St_Johns"), at("2010-11-06T23:30-03:30"))
    assert (begin, end - begin) == (at("2010-11-07T00:00-02:30"), 25 * HOUR)


def test_a_day_without_midnight_begins_when_its_clocks_do() -> None:
    begin, end = window_at(Calendar("day", "America/Sao_Paulo"), at("2018-11-04T12:00-02:00"))
    assert (begin, end - begin) == (at("2018-11-04T01:00-02:00"), 23 * HOUR)


@pytest.mark.parametrize("zone", ZONES)
def test_months_have_their_days(zone: str) -> None:
    found = windows_from(Calendar("month", zone), at("2027-01-15T00:00Z"), at("2028-12-15T00:00Z")).boundaries
    days = [round((end - begin) / 86_400) for begin, end in pairwise(found)]
    year = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
    assert days == [*year, 31, 29, *year[2:], 31]


def test_weeks_begin_on_monday() -> None:
    begin, end = window_at(Calendar("week", "Europe/Berlin"), at("2026-01-01T12:00+01:00"))
    assert (begin, end) == (at("2025-12-29T00:00+01:00"), at("2026-01-05T00:00+01:00"))


def test_an_hour_that_is_shown_twice_is_one_window() -> None:
    begin, end = window_at(Calendar("hour", "Europe/Berlin"), at("2026-10-25T02:30+01:00"))
    assert (begin, end) == (at("2026-10-25T02:00+02:00"), at("2026-10-25T03:00+01:00"))


@settings(deadline=None)  # the data of a zone is read when it is first named
@given(st.sampled_from(UNITS), st.sampled_from(sorted(time_zones())), st.integers(1_700_000_000, 2_000_000_000))
def test_a_snapshot_knows_windows_for_as_long_as_a_gateway_may_use_it(unit: Unit, zone: str, now: int) -> None:
    """Whatever the configured ``max_stale``, and two of them then: the store may be in the next one already."""
    calendar = {"unit": unit, "time_zone": zone}
    (found,) = calendars_of([policy(calendar=calendar), policy("pl_b", calendar=calendar)], now)
    ends = now + limits.LIMIT_SNAPSHOT_LIFE_S + limits.LIMIT_SNAPSHOT_MAX_STALE_MAX_S
    begin, end = window_at(found.calendar, ends)
    assert {begin, end, window_at(found.calendar, end)[1]} <= set(found.boundaries)
    assert found.boundaries[0] <= now - timedelta(days=1).total_seconds()
    assert sorted(set(found.boundaries)) == list(found.boundaries)
    assert datetime.fromtimestamp(found.boundaries[-1], UTC) - datetime.fromtimestamp(now, UTC) < timedelta(days=95)
