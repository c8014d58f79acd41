"""Compares an owner's clock with the database's: it decides when a deadline is over and when money moved.

An owner whose clock is far off decides nothing. It is compared at the start, so that it takes no partition from an
owner whose clock is right, and later, because somebody may set the clock while it runs.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from dataflows import limits
from schemas.errors import ClockOff
from sinks.postgres.sql_files import queries

if TYPE_CHECKING:
    from sinks.postgres.owner_connection import OwnerConnection

_SQL: Final = queries("sinks.postgres.queries", "owner.sql")
_SECOND_US: Final = 1_000_000


def now_us() -> int:
    """The time of this machine in microseconds since the epoch."""
    return time.time_ns() // 1_000


def compare(ours_us: int, database_us: int) -> None:
    """Raises ClockOff when the two differ by more than an owner may be off."""
    off_s = (ours_us - database_us) / _SECOND_US
    if abs(off_s) > limits.OWNER_CLOCK_OFF_MAX_S:
        raise ClockOff(f"The clock is {off_s:+.0f} s off that of the database; set it. Nothing is decided meanwhile.")


def compare_with(connection: OwnerConnection) -> None:
    """Asks the database. Raises ClockOff, psycopg.Error."""
    before_us = now_us()
    row = connection.execute(_SQL["clock_read"]).fetchone()
    if row is not None and not before_us <= row[0] <= now_us():  # how long the answer took is no difference
        compare(now_us(), row[0])
