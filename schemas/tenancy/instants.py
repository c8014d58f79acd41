"""Instants as usage and invoices write them: RFC 3339 in UTC, with a fraction only where there is one."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)", re.ASCII)


def instant(time_us: int) -> str:
    """Microseconds since the epoch as text, exactly: ``2026-01-02T03:04:05Z``."""
    return (_EPOCH + time_us * _MICROSECOND).isoformat().replace("+00:00", "Z")


def parsed(text: object) -> int | None:
    """Microseconds since the epoch, or None for what is no instant, or lies outside the years 1 to 9999 of UTC.

    So ``instant`` writes whatever this reads. Nine digits of a fraction are taken, as many clocks write them;
    those after the sixth are cut off, of what is metered as of what is asked for.
    """
    if not isinstance(text, str) or not _TIME.fullmatch(text):
        return None
    try:
        return (datetime.fromisoformat(text.upper()).astimezone(UTC) - _EPOCH) // _MICROSECOND
    except (ValueError, OverflowError):  # a 30th of February; the first of years in another zone
        return None
