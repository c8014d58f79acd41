"""An owner decides with a clock that is near the database's, and with no other."""

from __future__ import annotations

import re

import pytest

from dataflows import limits
from dataflows.owner import clock
from schemas.errors import ClockOff, OwnershipLost

_SECOND_US = 1_000_000
_BOUND_US = limits.OWNER_CLOCK_OFF_MAX_S * _SECOND_US


@pytest.mark.parametrize("off_us", [0, 5 * _SECOND_US, -5 * _SECOND_US, _BOUND_US, -_BOUND_US])
def test_a_clock_that_is_near_decides(off_us: int) -> None:
    now_us = clock.now_us()
    clock.compare(now_us + off_us, now_us)


@pytest.mark.parametrize("off_us", [_BOUND_US + _SECOND_US, -_BOUND_US - _SECOND_US, 3_600 * _SECOND_US])
def test_a_clock_that_is_far_off_decides_nothing_and_says_by_how_much(off_us: int) -> None:
    now_us = clock.now_us()
    with pytest.raises(ClockOff, match=re.escape(f"{off_us // _SECOND_US:+d} s off")):
        clock.compare(now_us + off_us, now_us)
    assert issubclass(ClockOff, OwnershipLost), "the owner starts over, and nothing is parked"
