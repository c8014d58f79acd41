"""Instants as usage and invoices write them: RFC 3339 in UTC, with a fraction only where there is one."""

from __future__ import annotations

import re
from calendar import monthrange
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_SECONDS: Final = slice(17, 19)
_US_DIGITS: Final = 6  # of a fraction
#: what is said of 23:59:60: Postgres and the clocks of machines know no such second, so it would be another one's
LEAP_SECOND: Final = "is a leap second, which is not taken: say the second before it, or the one after it"
_TIME: Final = re.compile(r"(\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?([Zz]|[+-]\d\d:\d\d)", re.ASCII)


def instant(time_us: int) -> str:
    """Microseconds since the epoch as text, exactly: ``2026-01-02T03:04:05Z``."""
    return (_EPOCH + time_us * _MICROSECOND).isoformat().replace("+00:00", "Z")


def fault(text: object, otherwise: str) -> str:
    """Why ``parsed`` reads none of a text, for who wrote it: a leap second is RFC 3339, and has no instant here."""
    if not (isinstance(text, str) and _TIME.fullmatch(text) and text[_SECONDS] == "60"):
        return otherwise
    before = parsed(f"{text[: _SECONDS.start]}59{text[_SECONDS.stop :]}")
    if before is None:
        return otherwise
    year, month, day, *clock = (_EPOCH + before * _MICROSECOND).timetuple()[:6]
    ends_a_month = clock == [23, 59, 59] and day == monthrange(year, month)[1]
    return LEAP_SECOND if ends_a_month else otherwise


def parsed(text: object) -> int | None:
    """Microseconds since the epoch, or None for what is no instant, or lies outside the years 1 to 9999 of UTC.

    So ``instant`` writes whatever this reads. Nine digits of a fraction are taken, as many clocks write them;
    those after the sixth are cut off, of what is metered as of what is asked for.
    """
    if not isinstance(text, str) or not (found := _TIME.fullmatch(text)):
        return None
    second, fraction, zone = found.groups("")
    try:
        return _second_us(second + zone) + int(f"{fraction}000000"[:_US_DIGITS])
    except (ValueError, OverflowError):  # a 30th of February; the first of years in another zone
        return None


@lru_cache(maxsize=4_096)  # many events are of one second
def _second_us(text: str) -> int:
    return (datetime.fromisoformat(text.upper()).astimezone(UTC) - _EPOCH) // _MICROSECOND
