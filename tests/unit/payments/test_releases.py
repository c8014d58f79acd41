"""Which overdue holds a worker asks for next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import structs

from dataflows.payments.webhooks.releases import FIRST, OverdueHold, ReleaseTurn
from schemas.payments import limits

if TYPE_CHECKING:
    import pytest

FULL = limits.AUTHORIZATION_RELEASE_BATCH_MAX


def holds(count: int, period: int = 0) -> list[OverdueHold]:
    return [
        OverdueHold(intent_id=f"pi_{n:04}", processor="p", operation_id=f"op_{n}", authorized_until=n, period=period)
        for n in range(count)
    ]


def test_what_no_owner_decides_hides_no_other_hold() -> None:
    """Two hundred holds of a halted partition: the next look begins behind them, and the one after it anew."""
    turn = ReleaseTurn()
    stuck = holds(FULL)
    assert turn.after == FIRST
    turn.commands(stuck, 1)
    assert turn.after == (stuck[-1].authorized_until, stuck[-1].intent_id)
    turn.commands(holds(3), 1)
    assert turn.after == FIRST


def test_a_release_is_asked_for_once_in_its_period_when_it_is_durable() -> None:
    turn = ReleaseTurn()
    asked = turn.commands(holds(3), 1)
    turn.told({command.request_id for command in asked[:2]})
    assert [c.request_id for c in turn.commands(holds(3), 2)] == [asked[2].request_id]
    assert len(turn.commands([structs.replace(hold, period=1) for hold in holds(3)], 3)) == 3


def test_what_was_asked_for_is_not_remembered_without_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "AUTHORIZATION_RELEASES_REMEMBERED_MAX", 2)
    turn = ReleaseTurn()
    for command in turn.commands(holds(3), 1):
        turn.told({command.request_id})
    assert [c.aggregate_key for c in turn.commands(holds(3), 2)] == ["pi_0000"]
