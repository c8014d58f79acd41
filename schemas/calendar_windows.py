"""Windows of a calendar: hours, days, weeks and months as the clocks of a time zone show them, as instants of UTC.

A window begins at the first instant at which those clocks show its hour or day, or a later one. So they follow each
other without gap or overlap, whatever a zone does: a day that it skipped has no window, and an hour that is shown twice
is one window. Weeks begin on Monday (ISO 8601). Time-zone data is read here and nowhere else: the counter store and
gateways know boundaries. Source: reference limiter 2.8.
"""

from __future__ import annotations

import functools
import zoneinfo
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final, Literal

from msgspec import Struct

from schemas.errors import TimeZoneUnknown

Unit = Literal["hour", "day", "week", "month"]

LONGEST_S: Final[dict[Unit, int]] = {"hour": 3_600, "day": 86_400, "week": 7 * 86_400, "month": 31 * 86_400}
_MONTHS: Final = 12
_OF_THIS_MACHINE: Final = frozenset({"localtime", "Factory"})  # in the data base, and no place


class Calendar(Struct, frozen=True):
    """Whose windows: a unit of time by the clocks of a zone (IANA name)."""

    unit: Unit
    time_zone: str


class CalendarWindows(Struct, frozen=True):
    """Consecutive windows of a calendar: each boundary ends one and begins the next. Seconds since the epoch."""

    calendar: Calendar
    boundaries: tuple[int, ...]


@functools.cache
def time_zones() -> frozenset[str]:
    """The names that a calendar may have."""
    return frozenset(zoneinfo.available_timezones()) - _OF_THIS_MACHINE


def window_at(calendar: Calendar, at_s: int) -> tuple[int, int]:
    """The window that an instant lies in: where it begins, and where the next one does. Raises TimeZoneUnknown."""
    zone = _zone(calendar.time_zone)
    label = _floor(calendar.unit, datetime.fromtimestamp(at_s, zone).replace(tzinfo=None))
    begin = _first_instant(zone, label)
    while True:
        label = _next(calendar.unit, label)
        end = _first_instant(zone, label)
        if end > at_s:
            return begin, end
        begin = end  # clocks went back over the boundary, or the zone skipped what the label names


def windows_from(calendar: Calendar, from_s: int, until_s: int) -> CalendarWindows:
    """The window of ``from_s`` and all that follow: the one of ``until_s`` and the next after it are the last."""
    found = [*window_at(calendar, from_s)]
    while found[-2] <= until_s:
        found.append(window_at(calendar, found[-1])[1])
    return CalendarWindows(calendar, tuple(found))


def windows_of(calendars: Iterable[Calendar | None], from_s: int, until_s: int) -> tuple[CalendarWindows, ...]:
    """The same for every calendar that is named, once each, in a stable order; for none of a zone that is not known."""
    named = {calendar for calendar in calendars if calendar is not None and calendar.time_zone in time_zones()}
    ordered = sorted(named, key=lambda calendar: (calendar.unit, calendar.time_zone))
    return tuple(windows_from(calendar, from_s, until_s) for calendar in ordered)


def _zone(name: str) -> zoneinfo.ZoneInfo:
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError) as error:  # none, no name of one, not readable
        raise TimeZoneUnknown(time_zone=name) from error


def _floor(unit: Unit, local: datetime) -> datetime:
    """What the clocks showed when its unit began, if they showed that."""
    if unit == "hour":
        return local.replace(minute=0, second=0, microsecond=0)
    day = local.replace(hour=0, minute=0, second=0, microsecond=0)
    if unit == "week":
        return day - timedelta(days=day.weekday())
    return day.replace(day=1) if unit == "month" else day


def _next(unit: Unit, label: datetime) -> datetime:
    if unit == "month":
        years, month = divmod(label.month, _MONTHS)
        return label.replace(year=label.year + years, month=month + 1)
    return label + timedelta(seconds=LONGEST_S[unit])


def _first_instant(zone: zoneinfo.ZoneInfo, label: datetime) -> int:
    """The first instant at which the clocks show this or more."""
    found = int(label.replace(tzinfo=zone, fold=0).timestamp())
    before = int(label.replace(tzinfo=zone, fold=1).timestamp())
    while found - before > 1:  # they never show it: between the two they jump over it
        middle = (before + found) // 2
        if datetime.fromtimestamp(middle, zone).replace(tzinfo=None) < label:
            before = middle
        else:
            found = middle
    return found
