"""An owner decides with a clock that is near the database's, and with no other."""

from __future__ import annotations

import re
import time
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from dataflows import limits
from dataflows.owner import clock
from dataflows.tenancy.changes import Changes, Image
from dataflows.tenancy.domain import tenant
from dataflows.tenancy.domain.resource import Head
from ingress import limits as ingress_limits
from ingress.commands.accepted import AcceptedRequests, Note
from schemas.errors import ClockOff, OwnershipLost
from schemas.tenancy import limits as tenancy_limits
from sinks import limits as sinks_limits
from sinks.tenancy.contexts import Contexts
from sinks.tenancy.root_keys import RootKeys

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


@pytest.mark.parametrize("off_s", [-tenancy_limits.TENANT_CLOCK_BEHIND_MAX_S, 0])
def test_a_context_lasts_a_transaction_by_the_clock_that_judges_them(
    monkeypatch: pytest.MonkeyPatch, off_s: int
) -> None:
    """One that is over is no outage: what it was signed for would be parked."""
    assert max(limits.OWNER_CLOCK_OFF_MAX_S, ingress_limits.CLOCK_OFF_MAX_S) <= tenancy_limits.TENANT_CLOCK_BEHIND_MAX_S
    judge = time.time()
    monkeypatch.setattr(time, "time", lambda: judge + off_s)
    changes = Changes(0, Contexts(None), RootKeys(None))
    head = Head(tenant_id="tn_a", resource_id="rs_1", version=1, deleted=False, size=1, created_at=1, updated_at=1)
    here = tenant.placement_of({"mode": "pooled"}, "tn_a", "1")
    of_tenant: Any = SimpleNamespace(tenant_id="tn_a", generation=1, policy_version=1)
    changes.images["tn_a", "rs_1"] = Image(of_tenant, here, None, head, b"sealed")
    ((_, (signed, *_)),) = changes.statements()
    (context,) = signed.values
    assert int(context.split("|")[3]) >= int(judge) + tenancy_limits.TENANT_CONTEXT_TTL_S


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
