"""Every condition of a risk rule: when it holds, when not, and when that is not known; and what follows from it."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from dataflows.payments.domain.decision import Context, Decision
from dataflows.payments.domain.policies import risk
from dataflows.payments.domain.policies.in_force import Policies
from dataflows.payments.review_cases import ReviewCases
from schemas.payments.policies.routing import Candidate, Conditions, RoutingPolicy, RoutingRule
from schemas.payments.records import RiskAssessment
from tests.each import each
from tests.worlds.payments import payment_cases as cases
from tests.worlds.payments.risk_cases import FACTS, NOTHING_KNOWN, above, known, policy, rule

LISTS = {"cards": ["fp_1"], "nets": ["203.0.113.0/24", "2001:db8::7"], "merchants": ["m_1"], "home": ["AT", "DE"]}
IP = {"type": "in_list", "field": "ip", "list": "nets"}
CARD = {"type": "in_list", "field": "card", "list": "cards"}
BY_IP = {"type": "velocity", "by": "ip", "window_s": 60, "more_than": 2}
BY_CARD = {"type": "velocity", "by": "card", "window_s": 3600, "more_than": 49_999, "measure": "amount"} | {
    "currency": "USD"
}
MISMATCH = {"type": "country_mismatch"}
#: condition, what changes the facts -> whether it holds
HOLDS = [
    (above(9_999), {}, True),
    (above(10_000), {}, False),
    (above(1, "EUR"), {}, False),
    (BY_IP, {}, True),
    (BY_IP | {"more_than": 3}, {}, False),
    (BY_IP, {"velocity": {}}, None),
    (BY_IP | {"window_s": 61}, {}, None),
    (BY_CARD, {}, True),
    (BY_CARD | {"more_than": 50_000}, {}, False),
    (BY_CARD, {"currency": "EUR"}, False),
    (MISMATCH, {}, False),
    (MISMATCH, {"card_country": "US"}, True),
    (MISMATCH, {"card_country": None}, None),
    (MISMATCH, {"customer_country": None}, None),
    (IP, {}, True),
    (IP, {"ip": "203.0.114.9"}, False),
    (IP, {"ip": "2001:db8::7"}, True),
    (IP, {"ip": "2001:db8::8"}, False),
    (IP, {"ip": None}, None),
    (IP, {"ip": "nonsense"}, None),
    (CARD, {}, True),
    (CARD, {"card": "fp_2"}, False),
    (CARD, {"card": None}, None),
    (CARD | {"type": "not_in_list"}, {}, False),
    (CARD | {"type": "not_in_list"}, {"card": "fp_2"}, True),
    (CARD | {"type": "not_in_list"}, {"card": None}, None),
    ({"type": "in_list", "field": "merchant", "list": "merchants"}, {}, True),
    ({"type": "not_in_list", "field": "customer_country", "list": "home"}, {"customer_country": "FR"}, True),
    ({"type": "currency", "any_of": ["EUR", "USD"]}, {}, True),
    ({"type": "currency", "any_of": ["EUR"]}, {}, False),
    ({"type": "network", "any_of": ["visa"]}, {}, True),
    ({"type": "network", "any_of": ["mastercard"]}, {}, False),
    ({"type": "network", "any_of": ["visa"]}, {"network": None}, None),
]


def judged(condition: dict[str, Any], facts: Any, when_unknown: str) -> risk.Verdict:
    return risk.judge(policy(rule(when=[condition], when_unknown=when_unknown), lists=LISTS), facts)


@each(("condition", "changes", "holds"), HOLDS)
def test_a_condition_holds_or_not_or_is_not_known(condition: Any, changes: Any, holds: bool | None) -> None:
    facts = known(**changes)
    outcomes = {word: judged(condition, facts, word).outcome for word in ("hit", "miss", "review")}
    expected = {None: ("block", "allow", "review"), True: ("block",) * 3, False: ("allow",) * 3}[holds]
    assert tuple(outcomes.values()) == expected
    (reason,) = judged(condition, facts, "hit").reasons or [None]
    assert (reason is None) == (holds is False)
    assert reason is None or (
        reason.rule == "r" and reason.detail and ("not known" in reason.detail) == (holds is None)
    )


def test_all_conditions_of_a_rule_must_hold_and_one_that_does_not_decides_over_one_that_is_not_known() -> None:
    both = [above(5_000), BY_IP]
    assert risk.judge(policy(rule(when=both, when_unknown="hit")), FACTS).outcome == "block"
    assert risk.judge(policy(rule(when=[above(50_000), BY_IP], when_unknown="hit")), NOTHING_KNOWN).outcome == "allow"
    assert risk.judge(policy(rule(when=both, when_unknown="hit")), NOTHING_KNOWN).outcome == "block"


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [
        (("review",), "review"),
        (("review", "block"), "block"),
        (("block", "review", "allow"), "allow"),
        ((None,), "allow"),
    ],
)
def test_precedence_of_outcomes(outcomes: tuple[str | None, ...], expected: str) -> None:
    rules = [rule(f"r{n}", outcome=outcome, score=1) for n, outcome in enumerate(outcomes)]
    assert risk.judge(policy(*rules), FACTS).outcome == expected


@pytest.mark.parametrize(("scores", "expected"), [((10, 19), "allow"), ((10, 20), "review"), ((40, 40), "block")])
def test_scores_add_up_to_thresholds(scores: tuple[int, ...], expected: str) -> None:
    rules = [rule(f"r{n}", outcome=None, score=score) for n, score in enumerate(scores)]
    verdict = risk.judge(policy(*rules, thresholds={"review": 30, "block": 80}), FACTS)
    assert (verdict.outcome, verdict.score) == (expected, sum(scores))
    assert [reason.score for reason in verdict.reasons] == list(scores)


def test_a_score_ends_at_a_hundred() -> None:
    rules = [rule(f"r{n}", outcome=None, score=60) for n in range(3)]
    assert risk.judge(policy(*rules), FACTS).score == 100


def test_a_rule_in_shadow_is_recorded_and_a_policy_in_shadow_allows() -> None:
    verdict = risk.judge(policy(rule(shadow=True, score=90), thresholds={"block": 50}), FACTS)
    assert (verdict.outcome, verdict.score, [r.shadow for r in verdict.reasons]) == ("allow", 0, [True])
    verdict = risk.judge(policy(rule(score=90), shadow=True), FACTS)
    assert (verdict.outcome, verdict.score, [r.shadow for r in verdict.reasons]) == ("allow", 90, [True])


def context(found: risk.RiskPolicy) -> Context:
    return Context(
        **{**{n: getattr(cases.CONTEXT, n) for n in cases.CONTEXT.__struct_fields__}, "policies": Policies(risk=found)}
    )


def fresh() -> Any:
    return cases.apply(None, cases.decided(None, cases.create()))


def confirmed(found: risk.RiskPolicy, payment: Any = None) -> Decision:
    decision = cases.commands.decide(payment or fresh(), cases.confirm(), context(found))
    assert isinstance(decision, Decision)
    return decision


def test_without_a_policy_nothing_is_assessed() -> None:
    assert confirmed(risk.RiskPolicy()).risk is None


def test_what_is_allowed_is_processed_and_explained() -> None:
    decision = confirmed(policy(rule(when=[above(10_000)]), version=4))
    assert decision.intent.state == "processing"
    assert decision.risk == RiskAssessment(
        intent_id=cases.INTENT_ID, attempt=1, outcome="allow", score=0, policy_version=4, reasons=[], decided_by=None,
        created_at=cases.CONTEXT.now,
    )  # fmt: skip


def test_what_is_blocked_is_an_attempt_that_nobody_sends_and_may_be_confirmed_again() -> None:
    decision = confirmed(policy(rule()))
    assert (decision.intent.state, decision.intent.last_payment_error) == ("requires_payment_method", "blocked_by_risk")
    assert decision.attempt is not None
    assert (decision.attempt.status, decision.attempt.attempt, decision.postings) == ("blocked", 1, ())
    assert decision.risk is not None
    assert (decision.risk.outcome, decision.risk.attempt) == ("block", 1)
    payment = cases.apply(fresh(), decision)
    again = confirmed(policy(), payment)
    assert (again.intent.state, again.intent.latest_attempt, again.intent.last_payment_error) == ("processing", 2, None)
    facts = [cases.fact(payment, status, number=1) for status in ("captured", "declined", "unknown")]
    # Money of an attempt that was never sent is nothing that we could book: people have to look.
    assert [cases.refused(payment, f).code for f in facts] == ["contradicts_attempt", "stale_fact", "stale_fact"]


def review(decision: str, scope: str = "operator:by_x", **payload: Any) -> Any:
    said = {"decision": decision, "note": None, "reviewer": "merchant:ann"} | payload
    return cases.command("review_payment_intent", said, scope=scope)


def test_a_review_starts_the_attempt_or_cancels() -> None:
    waiting = confirmed(policy(rule(outcome="review")))
    assert (waiting.intent.state, waiting.attempt, waiting.intent.latest_attempt) == (
        "requires_merchant_action",
        None,
        0,
    )
    payment = cases.apply(fresh(), waiting)
    approved = cases.decided(payment, review("approve", note="known customer"))
    assert (approved.intent.state, approved.attempt and approved.attempt.status) == ("processing", "created")
    assert approved.risk is not None
    assert (approved.risk.outcome, approved.risk.attempt, approved.risk.decided_by) == ("allow", 1, "merchant:ann")
    assert approved.risk.reasons[0].detail == "known customer"
    rejected = cases.decided(payment, review("reject"))
    assert (rejected.intent.state, rejected.intent.cancellation_reason) == ("canceled", "fraudulent")
    assert rejected.risk is not None
    assert rejected.risk.outcome == "block"
    for done in (approved, rejected):
        assert cases.refused(cases.apply(payment, done), review("approve")).code == "state_conflict"
    assert cases.decided(payment, cases.cancel()).intent.state == "canceled"


def test_an_approval_is_routed_by_the_card_of_its_confirm() -> None:
    """What the case keeps of the confirm comes back as signals of the approval."""
    told = cases.confirm("tok_sim_a")
    told = structs.replace(told, payload=told.payload | {"card_country": "DE"}, signals={"network": "visa"})
    waiting = cases.commands.decide(fresh(), told, context(policy(rule(outcome="review"))))
    assert isinstance(waiting, Decision)
    opened = ReviewCases()
    opened.follow("requires_confirmation", waiting)
    ((_, (_, _, _, evidence, _)),) = opened.writes()
    assert '"card":{"network":"visa","country":"DE"}' in str(evidence.values).replace("\\", "")
    german_visa = RoutingRule(
        name="german visa",
        candidates=(Candidate("simulator_b"),),
        when=Conditions(network=("visa",), country=("DE",)),
    )
    payment = cases.apply(fresh(), waiting)
    routes = structs.replace(cases.CONTEXT, policies=Policies(routing=RoutingPolicy(version=2, rules=(german_visa,))))
    approval = structs.replace(review("approve"), signals={"network": "visa", "card_country": "DE"})
    approved = cases.commands.decide(payment, approval, routes)
    assert isinstance(approved, Decision)
    assert approved.attempt is not None
    assert (approved.attempt.processor, approved.attempt.route) == ("simulator_b", "routing 2: german visa")


@pytest.mark.parametrize("scope", ["m_1", "m_other", "processor:simulator"])
def test_only_an_operator_reviews(scope: str) -> None:
    payment = cases.apply(fresh(), confirmed(policy(rule(outcome="review"))))
    assert cases.refused(payment, review("approve", scope)).code == "not_found"
