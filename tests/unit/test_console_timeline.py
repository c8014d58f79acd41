"""The order of a timeline: by time, and of one moment by cause, whatever order the rows came in."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import get_args

from hypothesis import given
from hypothesis import strategies as st

from ingress.payments.console import story, timeline
from schemas.payments.records import AttemptStatus, DisputeState, IntentState

NOW = datetime(2026, 1, 1, tzinfo=UTC)
entries = st.builds(
    lambda second, kind, name: timeline.Entry(at=NOW + timedelta(seconds=second), kind=kind, title="", id=name),
    st.integers(0, 3),
    st.sampled_from(sorted(story._MAKERS)),
    st.text(max_size=3),
)


@given(st.lists(entries, max_size=12), st.randoms())
def test_the_order_does_not_depend_on_how_rows_came(found: list[timeline.Entry], random: object) -> None:
    mixed = list(found)
    random.shuffle(mixed)  # type: ignore[attr-defined]
    shown = [(e.at, e.kind, e.id) for e in timeline.ordered(found)]
    assert shown == [(e.at, e.kind, e.id) for e in timeline.ordered(mixed)]
    assert [at for at, _, _ in shown] == sorted(at for at, _, _ in shown)


def test_a_command_stands_before_what_it_caused() -> None:
    same = [timeline.Entry(at=NOW, kind=kind, title="", id="x") for kind in ("posting", "attempt", "command")]
    assert [entry.kind for entry in timeline.ordered(same)] == ["command", "attempt", "posting"]


def test_every_kind_has_its_place() -> None:
    assert set(story._MAKERS) == set(timeline._RANK)


def test_every_state_of_a_payment_has_a_colour_or_is_plain_on_purpose() -> None:
    """A new state of the machines is not overlooked."""
    from ingress.console.pages import tone  # noqa: PLC0415

    plain = {"canceled", "voided", "warning_closed", "prevented"}
    states = {*get_args(IntentState), *get_args(AttemptStatus), *get_args(DisputeState)}
    assert {state for state in states if tone(state) == "plain"} <= plain


def test_a_command_says_who_signed_it() -> None:
    row = dict.fromkeys(("operation", "request_id", "status", "code", "key", "event_id", "partition", "offset"), "x")
    row |= {"merchant_id": "m_1", "created_at": NOW, "signed_by": "msk_1", "signed_request": "sr_1"}
    assert {("signed by", "msk_1"), ("signed request", "sr_1")} <= set(timeline.command(row).facts)
