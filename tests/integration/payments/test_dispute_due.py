"""A dispute that wants an answer soon and has none: a case for each deadline until persons answer, and an invariant."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from reconciliation.payments.repair.lists import case_show
from tests.integration.payments.test_dispute_money_away import ONE, answered, by, history, stage, swept

if TYPE_CHECKING:
    from tests.worlds.sink_stage import Stage

__all__ = ["history", "stage"]  # the fixtures of this module
pytestmark = pytest.mark.servers
AWAITED = "state = 'needs_response', funds = 'withdrawn', evidence_state = null"


def changed(stage: Stage, sets: str) -> None:
    stage.sql(f"update dispute set {sets} where {ONE.replace('lost', 'needs_response')}")


def awaited(stage: Stage, due_in: str, *, sets: str = AWAITED) -> None:
    """One dispute has this deadline, counted from now on."""
    stage.sql(f"update dispute set {sets}, evidence_due_by = now() + interval '{due_in}' where {ONE}")


def gaps(stage: Stage, invariant: str = "disputes_due") -> int:
    return stage.finding(invariant).gaps


def test_the_case_comes_days_before_the_deadline_and_a_day_before_anybody_misses_it(stage: Stage) -> None:
    awaited(stage, "71 hours")
    assert gaps(stage) == 0
    changed(stage, "evidence_due_by = now() + interval '47 hours'")
    assert gaps(stage) == 1
    (opened,) = swept(stage)
    assert (gaps(stage), swept(stage)) == (0, [])
    with by(stage, "millrace_operator") as connection:
        shown = case_show(connection, opened["id"])
    assert (shown["kind"], shown["reference"], shown["processor"]) == ("dispute_due", opened["reference"], "sim")
    assert shown["evidence"]["evidence_due_by"] is not None
    assert (shown["evidence"]["state"], shown["evidence"]["state_now"]) == ("needs_response", "needs_response")


def test_three_days_before_it_is_swept(stage: Stage) -> None:
    awaited(stage, "71 hours")
    assert len(swept(stage)) == 1


def test_it_is_asked_again_only_when_another_deadline_nears(stage: Stage) -> None:
    awaited(stage, "-1 hour")  # a person may still ask the processor for more time
    (opened,) = swept(stage)
    assert answered(stage, opened["id"]) == ["proposed", "closed"]
    assert (gaps(stage), swept(stage)) == (0, []), "persons answered for this one"
    changed(stage, "evidence_due_by = evidence_due_by + interval '1 day'")
    assert gaps(stage) == 1
    assert [case["reference"] for case in swept(stage)] == [opened["reference"]]


@pytest.mark.parametrize("state", ["warning_needs_response", "needs_response", "appeal_needs_response"])
def test_every_state_that_asks_is_looked_at(stage: Stage, state: str) -> None:
    awaited(stage, "1 hour", sets=f"state = '{state}', evidence_state = 'draft'")
    assert gaps(stage) == 1
    assert len(swept(stage)) == 1


@pytest.mark.parametrize(
    ("due_in", "sets"),
    [
        ("73 hours", AWAITED),
        ("1 hour", "state = 'needs_response', evidence_state = 'submitted'"),
        ("1 hour", "state = 'under_review'"),
    ],
    ids=["far", "answered", "not asked"],
)
def test_what_has_time_or_its_answer_or_wants_none_is_no_case(stage: Stage, due_in: str, sets: str) -> None:
    awaited(stage, due_in, sets=sets)
    assert (gaps(stage), swept(stage)) == (0, [])


def test_a_dispute_of_before_has_no_deadline_and_no_case(stage: Stage) -> None:
    stage.sql(f"update dispute set {AWAITED}, evidence_due_by = null where {ONE}")
    assert (gaps(stage), swept(stage)) == (0, [])


def test_the_case_says_that_the_answer_came_and_hides_no_other_case(stage: Stage) -> None:
    """Its money that does not come back later is another question about the same dispute."""
    awaited(stage, "1 hour")
    (opened,) = swept(stage)
    changed(stage, "evidence_state = 'submitted'")
    with by(stage, "millrace_operator") as connection:
        assert case_show(connection, opened["id"])["evidence"]["evidence_state_now"] == "submitted"
    changed(stage, "state = 'won'")
    assert gaps(stage, "aged_disputes") == 1
    assert [case["reference"] for case in swept(stage)] == [opened["reference"]]
    assert gaps(stage, "aged_disputes") == 0
