"""The soak's judgement of routes: failovers happened where a plan makes a processor fail, each to another processor."""

from __future__ import annotations

import pytest
from msgspec import structs

from compose.proof.soak.payments.plans import KINDS, REFUSED_EVERYWHERE, Kind, Plan
from compose.proof.soak.payments.policies import TRIED_ELSEWHERE, routing_document
from compose.proof.soak.payments.policy_proofs import Charge, judged_routes
from compose.simulator.operations.modes import MODES
from dataflows.payments.domain import commands, routing
from dataflows.payments.domain.decision import Decision
from dataflows.payments.domain.policies.in_force import Policies
from schemas.payments.policies import kinds
from tests.worlds.payments import payment_cases as cases

NAMES = ("simulator", "simulator_b")


def plan(kind: Kind) -> Plan:
    return Plan(number=0, kind=kind, merchant="m", amount=1_000, currency="EUR", seed="s")


FAILS, PAYS = (next(kind for kind in KINDS if kind.fails_over is fails) for fails in (True, False))
MADE = {"pi_fails": plan(FAILS), "pi_pays": plan(PAYS), "pi_pinned": plan(PAYS)}


def charge(number: int, intent_id: str, processor: str, route: str | None, *, is_pinned: bool = False) -> Charge:
    return Charge(f"op_{number}", intent_id, processor, route, is_pinned)


FIRST = charge(1, "pi_fails", "simulator", "routing 1: spread")
SECOND = charge(
    2, "pi_fails", "simulator_b", "routing 1: spread; failover 1 after simulator; simulator_c eliminated: x"
)
OTHERS = [
    charge(3, "pi_pays", "simulator", "routing 2: spread"),
    charge(4, "pi_pinned", "simulator_b", "routing 2: pinned", is_pinned=True),
]
NONE_FAILED_OVER = "none of 1 payments failed over whose plan makes a processor fail"


def test_what_failed_over_as_planned_is_no_problem_and_is_counted() -> None:
    proof = judged_routes([FIRST, SECOND, *OTHERS], MADE, NAMES)
    assert proof.problems == []
    assert proof.says == "simulator 2, simulator_b 2; 1 failovers, of 1 of the 1 payments planned so"


@pytest.mark.parametrize(
    ("charges", "problems"),
    [
        ([FIRST, *OTHERS], [NONE_FAILED_OVER]),
        ([FIRST, SECOND._replace(intent_id="pi_pays"), *OTHERS], [NONE_FAILED_OVER]),
        ([FIRST, SECOND._replace(route="routing 1: spread; simulator_c eliminated: x"), *OTHERS], [NONE_FAILED_OVER]),
        (
            [FIRST, SECOND._replace(processor="simulator"), *OTHERS],
            ["op_2 went to simulator again, where it had failed"],
        ),
        ([FIRST, SECOND, charge(5, "pi_pays", "simulator", None), *OTHERS], ["op_5 went to simulator by None"]),
        (
            [FIRST, SECOND, *OTHERS, OTHERS[0]._replace(is_pinned=True)],
            ["op_3 went to simulator by 'routing 2: spread'"],
        ),
        ([FIRST, SECOND, OTHERS[1]], ["nothing was routed by routing 2: spread"]),
    ],
    ids=[
        "none",
        "another payment's",
        "passed over only",
        "to itself",
        "no route",
        "not pinned",
        "a version without use",
    ],
)
def test_anything_else_is_a_problem(charges: list[Charge], problems: list[str]) -> None:
    assert judged_routes(charges, MADE, NAMES).problems == problems


def test_without_a_plan_that_makes_a_processor_fail_nothing_is_proved() -> None:
    made = {name: plan(PAYS) for name in MADE}
    assert judged_routes([FIRST, SECOND, *OTHERS], made, NAMES).problems == [NONE_FAILED_OVER.replace("1", "0")]


@pytest.mark.parametrize("pins", [False, True])
def test_the_published_rules_try_elsewhere_what_every_processor_refuses(pins: bool) -> None:
    """And the attempt then says what the verdict reads."""
    assert MODES[REFUSED_EVERYWHERE].decline_code == TRIED_ELSEWHERE
    document = kinds.canonical("routing", routing_document(NAMES, pins=pins), NAMES)
    policy = routing.read_policy(1 + pins, document)
    context = structs.replace(cases.CONTEXT, policies=Policies(routing=policy))
    payment = None
    for command in (cases.create(method=REFUSED_EVERYWHERE), cases.confirm()):
        payment = cases.apply(payment, decided(commands.decide(payment, command, context)))
    assert payment is not None
    for number in (1, 2):
        fact = cases.fact(payment, "declined", error_code=TRIED_ELSEWHERE)
        payment = cases.apply(payment, decided(commands.decide(payment, fact, context)))
        assert payment.attempts[number].status == "declined"
    first, second = (payment.attempts[n] for n in (1, 2))
    assert {first.processor, second.processor} == set(NAMES)
    assert charge(2, "", second.processor, second.route).failed_at == first.processor
    assert (payment.intent.state, len(payment.attempts)) == ("requires_payment_method", 2)


def decided(found: object) -> Decision:
    assert isinstance(found, Decision), found
    return found
