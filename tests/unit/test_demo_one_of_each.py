"""The acts of the demo: exactly the planted breaks count as found, and whatever goes wrong is in the verdict."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec import structs

from compose.proof.demo.acts import CURRENCY, Act, Stage, acts
from compose.proof.demo.breaks import Break, Settlement, breaks, compare
from compose.proof.demo.one_of_each import OneOfEach
from compose.proof.demo.stories import stories_of
from compose.proof.demo.tally import Tally
from compose.proof.demo.verdict import Verdict
from ingress.client import Undecided
from reconciliation.payments.settlement.file_result import Discrepancy
from tests.unit.test_demo_stories import invoices_of


def planted() -> list[Break]:
    there = breaks()
    for number, one in enumerate(there):
        one.payment.intent_id = f"pi_{number}"
    return there


def found(there: list[Break]) -> list[Discrepancy]:
    return [
        Discrepancy(
            found_class=one.kind, reference=one.payment.intent_id, amount=one.amount, currency=CURRENCY,
            processor="simulator", subject="line", detail=None, case_id=None, first_seen="",
        )
        for one in there
    ]  # fmt: skip


def test_exactly_the_planted_breaks_are_no_problem():
    there = planted()
    assert compare(there, found(there)) == []
    assert len({one.kind for one in there}) == len(there) == 4


@pytest.mark.parametrize(
    "change",
    [{"amount": 8}, {"currency": "JPY"}, {"found_class": "over"}, {"reference": "pi_other"}],
)
def test_a_break_that_is_found_as_something_else_is_two_problems(change: dict[str, object]):
    """What was planted is missing, and what was found was not planted."""
    there = planted()
    first, *others = found(there)
    assert len(compare(there, [structs.replace(first, **change), *others])) == 2


def test_one_more_or_one_less_is_a_problem():
    there = planted()
    assert len(compare(there, found(there)[1:])) == 1
    assert len(compare(there[1:], found(there))) == 1


def test_a_problem_of_any_act_or_break_fails_the_demo():
    tally = Tally()
    quotas: Any = SimpleNamespace(is_ok=True)
    social: Any = SimpleNamespace(is_ok=True)
    played = OneOfEach(list(acts().values()), Settlement(planted()))
    assert played.problems == []
    for payment in played.payments:
        payment.problem = "wrong"
        assert played.problems == ["wrong"]
        found: Any = SimpleNamespace(differences=played.problems, gaps=0)
        assert not Verdict(tally, None, played, quotas, social, social, evidence=found, checked=found).is_ok
        payment.problem = ""
    played.settlement.problems.append("second run differs")
    assert played.problems == ["second run differs"]


def test_an_act_that_goes_wrong_stops_no_other_and_is_named():
    class Nobody:
        async def create(self, **_: object) -> None:
            raise Undecided("key", "req_1", "no answer")

    cast = {name: act for name, act in acts().items() if name != "vault"}
    stage = Stage(Nobody(), "token", "http://processor", "http://vault")  # type: ignore[arg-type]  # the one call made
    asyncio.run(stage.play(cast))
    assert all("no answer" in act.problem and act.name in act.problem for act in cast.values())


def test_every_act_moves_money_once_and_is_settled():
    """One capture each, named before anything is played, and amounts that no two acts share."""
    cast: list[Act] = list(acts().values())
    assert all(act.posts[0] == "capture" and act.posts[-1] == "settled" for act in cast)
    assert all(act.posts.count("capture") == 1 for act in cast)
    payments = cast + [one.payment for one in breaks()]
    assert len({act.amount for act in payments}) == len(payments)
    assert not {story.merchant for story in stories_of(invoices_of([500] * 40))} & {"m_demo_shop"}
