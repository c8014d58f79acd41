"""Which processor serves a charge, and the words that say why: rules, weights, success rates, elimination."""

from __future__ import annotations

from typing import Any

from msgspec import structs

from dataflows.payments.domain import routing
from dataflows.payments.domain.policies.in_force import Policies, ProcessorHealth
from dataflows.payments.domain.routing import Card, serves
from schemas.payments import limits
from schemas.payments.policies.routing import AmountRange, Candidate, Conditions, RoutingPolicy, RoutingRule
from tests.each import each
from tests.worlds.payments import payment_cases as cases

NOW = cases.CONTEXT.now
EUR = cases.after(None, cases.create(currency="EUR", method="tok_sim_a")).intent
USD = cases.after(None, cases.create(method="tok_sim_a")).intent


def rule(*names: str, name: str = "all", **said: Any) -> RoutingRule:
    return RoutingRule(name=name, candidates=tuple(Candidate(n) for n in names), **said)


def health(
    breaker: Any = "closed", *, ok: int = 0, declined: int = 0, failed: int = 0, unknown: int = 0, age_s: int = 0
):  # type: ignore[no-untyped-def]  # ProcessorHealth
    return ProcessorHealth(
        as_of=NOW - age_s * 1_000_000, breaker=breaker, succeeded=ok, declined=declined, failed=failed, unknown=unknown
    )


def routed(
    *rules: RoutingRule, intent: Any = USD, card: Card = routing.UNKNOWN_CARD, seen: Any = None, **policy: Any
) -> routing.Route:
    found = Policies(routing=RoutingPolicy(version=3, rules=rules, **policy), health=seen or {})
    return routing.route(structs.replace(cases.CONTEXT, policies=found), intent, card)


def test_the_first_rule_that_fits_decides() -> None:
    european = rule("simulator_b", name="EUR cards", when=Conditions(currency=("EUR",)))
    assert routed(european, rule("simulator"), intent=EUR) == routing.Route("simulator_b", "routing 3: EUR cards")
    assert routed(european, rule("simulator"), intent=USD) == routing.Route("simulator", "routing 3: all")


def test_what_no_rule_fits_goes_to_the_default_processor() -> None:
    elsewhere = structs.replace(USD, processor="simulator_b")  # by an earlier confirm
    assert routed(rule("simulator_b", when=Conditions(currency=("EUR",))), intent=elsewhere) == routing.Route(
        "simulator", "routing 3; no rule fits"
    )


@each(
    ("when", "fits"),
    [
        (Conditions(amount={"USD": AmountRange(10_000, 10_000)}), True),
        (Conditions(amount={"USD": AmountRange(10_001)}), False),
        (Conditions(amount={"USD": AmountRange(0, 9_999)}), False),
        (Conditions(amount={"EUR": AmountRange(0)}), False),
        (Conditions(merchant=("m_1", "m_2")), True),
        (Conditions(merchant=("m_2",)), False),
        (Conditions(network=("visa",)), True),
        (Conditions(network=("amex",)), False),
        (Conditions(country=("DE",)), True),
        (Conditions(country=("FR",), network=("visa",)), False),
        (Conditions(currency=("USD",), network=("visa",), country=("DE",), merchant=("m_1",)), True),
    ],
)
def test_a_rule_fits_when_all_of_its_conditions_do(when: Conditions, *, fits: bool) -> None:
    assert (routed(rule("simulator_b", when=when), card=Card("visa", "DE")).processor == "simulator_b") == fits


def test_what_is_not_known_of_a_card_fits_no_condition() -> None:
    for when in (Conditions(network=("visa",)), Conditions(country=("DE",))):
        assert routed(rule("simulator_b", when=when)).reason == "routing 3; no rule fits"


def test_a_processor_whose_breaker_is_open_is_passed_over() -> None:
    route = routed(rule("simulator_b", "simulator"), seen={"simulator_b": health("open")})
    assert route == routing.Route("simulator", "routing 3: all; simulator_b eliminated: breaker open")


def test_a_breaker_that_is_half_open_gets_the_payment_that_may_close_it() -> None:
    assert (
        routed(rule("simulator_b", "simulator"), seen={"simulator_b": health("half_open")}).processor == "simulator_b"
    )


def test_a_processor_with_too_many_failures_is_passed_over_once_the_sample_is_large_enough() -> None:
    both = rule("simulator_b", "simulator")
    bad = {"simulator_b": health(ok=79, failed=11, unknown=10)}
    assert routed(both, seen=bad).reason == "routing 3: all; simulator_b eliminated: 21 of 100 failed"
    assert routed(both, seen=bad, sample_min=101).processor == "simulator_b"
    assert routed(both, seen={"simulator_b": health(ok=80, failed=10, unknown=10)}).processor == "simulator_b"
    issuers = {"simulator_b": health(declined=100)}  # their refusals are no illness of the processor
    assert routed(both, seen=issuers).processor == "simulator_b"


def test_what_is_too_old_says_nothing() -> None:
    both, old = rule("simulator_b", "simulator"), limits.PROCESSOR_HEALTH_KEPT_S + 1
    assert routed(both, seen={"simulator_b": health("open", age_s=old)}).processor == "simulator_b"
    assert routed(both, seen={"simulator_b": health("open", age_s=old - 2)}).processor == "simulator"


def test_when_all_are_ill_the_first_is_used() -> None:
    seen = {"simulator_b": health("open"), "simulator": health("open")}
    assert routed(rule("simulator_b", "simulator"), seen=seen) == routing.Route(
        "simulator_b", "routing 3: all; all eliminated; simulator_b: breaker open"
    )


def test_the_best_success_rate_goes_first_among_those_with_a_sample() -> None:
    steered = rule("stripe", "simulator", "simulator_b", choose="by_success_rate")
    card = structs.replace(USD, payment_method="tok_" + "a" * 24)
    seen = {"stripe": health(ok=90, declined=10), "simulator_b": health(ok=95, declined=5)}
    assert routed(steered, seen=seen, intent=card).processor == "simulator_b"
    assert routed(steered, seen=seen | {"stripe": health(ok=95, declined=5)}, intent=card).processor == "stripe"
    assert routed(steered, seen={"simulator_b": health(ok=49)}, intent=card).processor == "stripe", "too small a sample"
    assert routed(steered, seen={"stripe": health(ok=60, declined=40)}, intent=card).processor == "stripe", "no rival"


def test_tokens_go_only_where_they_mean_something() -> None:
    assert serves("simulator", "tok_sim_approve")
    assert serves("simulator_b", "tok_sim_approve")
    assert not serves("stripe", "tok_sim_approve")
    assert serves("stripe_eu", "tok_visa")
    assert not serves("simulator", "tok_visa")
    assert all(serves(name, "tok_" + "a" * 24) for name in ("stripe", "simulator"))
    simulated = structs.replace(USD, payment_method="tok_sim_approve")
    assert routed(rule("stripe", "simulator_b"), intent=simulated).processor == "simulator_b"
    assert routed(rule("stripe"), rule("simulator_b", name="rest"), intent=simulated).reason == "routing 3: rest"


def test_a_reason_is_bounded() -> None:
    names = tuple(f"simulator_{n:024}" for n in range(limits.ROUTING_CANDIDATES_MAX))
    route = routed(
        rule(*names, name="n" * limits.ROUTING_NAME_LENGTH_MAX), seen={n: health("open") for n in names[:-1]}
    )
    assert route.processor == names[-1]
    assert len(route.reason) == limits.ROUTE_LENGTH_MAX


def test_without_a_policy_a_confirm_goes_where_the_payment_was_made_for() -> None:
    attempt = cases.after(cases.after(None, cases.create()), cases.confirm()).attempts[1]
    assert (attempt.processor, attempt.route) == (cases.PROCESSOR, None)


def test_a_candidate_that_is_not_configured_any_more_is_passed_over() -> None:
    policy = RoutingPolicy(version=1, rules=(rule("simulator_b", "simulator"),))
    found = Policies(routing=policy, processors=frozenset({"simulator", "stripe"}))
    assert routing.route(structs.replace(cases.CONTEXT, policies=found), USD).processor == "simulator"
