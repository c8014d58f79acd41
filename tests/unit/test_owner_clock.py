"""An owner decides with a clock that is near the database's, and with no other."""

from __future__ import annotations

import re
from functools import partial

import pytest

from dataflows import limits
from dataflows.owner import clock
from ingress import limits as ingress_limits
from ingress.commands.accepted import AcceptedRequests, Note
from schemas.errors import ClockOff, OwnershipLost
from sinks import limits as sinks_limits

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


def test_a_deadline_is_told_as_missed_only_when_no_owner_can_start_the_command_any_more() -> None:
    """Our clock as far ahead as it may be, the owner's as far behind, and its last transaction as long as one lasts."""
    once_ms = sinks_limits.OWNER_STATEMENT_TIMEOUT_MS + sinks_limits.OWNER_TRANSACTION_TIMEOUT_MS
    transactions_s = (1 + limits.OWNER_RETRY_MAX) * once_ms / 1_000
    deadline_s = 1_800_000_000
    note = Note("m_1", "r_1", deadline_s * _SECOND_US)
    done_s = deadline_s + limits.OWNER_CLOCK_OFF_MAX_S + transactions_s  # the true time
    for true_s, is_missed in ((done_s, False), (deadline_s + 3_600, True)):
        clock_of_ours = partial(float, true_s + ingress_limits.CLOCK_OFF_MAX_S)
        accepted = AcceptedRequests(None, clock=clock_of_ours)  # type: ignore[arg-type] # nothing is asked
        assert accepted.missed_its_deadline(note) is is_missed
    assert not accepted.missed_its_deadline(Note("m_1", "r_1", 0))
