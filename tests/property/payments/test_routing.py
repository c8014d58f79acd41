"""Routing for any policy, any health and any charge: total, deterministic, never needlessly to an ill processor."""

from __future__ import annotations

from collections import Counter

from hypothesis import assume, given, settings
from hypothesis import strategies as st
from msgspec import structs

from dataflows.payments.domain import routing
from dataflows.payments.domain.decision import Context
from dataflows.payments.domain.policies.in_force import Policies, ProcessorHealth
from schemas.payments import limits
from schemas.payments.policies.routing import (
    AmountRange,
    Candidate,
    Conditions,
    RoutingPolicy,
    RoutingRule,
    canonical,
    faults,
)
from schemas.payments.records import PaymentIntent
from tests.gate import examples
from tests.worlds.payments import payment_cases as cases

PROCESSORS = ("simulator", "simulator_b", "simulator_c", "stripe")
NOW = cases.CONTEXT.now
CARD = "tok_" + "a" * 24  # of the vault: any processor can charge it
names = st.lists(st.sampled_from(PROCESSORS), min_size=1, unique=True)
conditions = st.builds(
    Conditions,
    currency=st.sampled_from([(), (), ("USD",), ("EUR", "JPY")]),
    amount=st.sampled_from([{}, {}, {"USD": AmountRange(0, 500)}, {"USD": AmountRange(501), "EUR": AmountRange()}]),
    network=st.sampled_from([(), (), ("visa",)]),
    merchant=st.sampled_from([(), (), ("m_1",), ("m_2",)]),
    country=st.sampled_from([(), (), ("DE",)]),
)
rules = st.builds(
    RoutingRule,
    name=st.sampled_from(
        ["EUR cards", "a", "no rule", "failover 1 after simulator", "x" * limits.ROUTING_NAME_LENGTH_MAX]
    ),
    candidates=st.builds(
        lambda found, weights: tuple(Candidate(name, weights[n]) for n, name in enumerate(found)),
        names,
        st.lists(st.integers(0, 9), min_size=len(PROCESSORS), max_size=len(PROCESSORS)),
    ),
    when=conditions,
    choose=st.sampled_from(["in_order", "by_weight", "by_success_rate"]),
)
policies = st.builds(
    RoutingPolicy,
    version=st.integers(1, 9),
    rules=st.lists(rules, max_size=3, unique_by=lambda rule: rule.name).map(tuple),
    sample_min=st.integers(1, 50),
    failure_rate_max_bps=st.integers(1, 10_000),
)
counts = st.integers(0, 60)
healths = st.dictionaries(
    st.sampled_from(PROCESSORS),
    st.builds(
        ProcessorHealth,
        as_of=st.sampled_from([NOW, NOW - 10_000_000, NOW - limits.PROCESSOR_HEALTH_KEPT_S * 1_000_000 - 1]),
        breaker=st.sampled_from(["closed", "open", "half_open"]),
        succeeded=counts,
        declined=counts,
        failed=counts,
        unknown=counts,
    ),
)
cards = st.builds(routing.Card, st.sampled_from([None, "visa", "amex"]), st.sampled_from([None, "DE", "FR"]))
intents = st.builds(
    lambda n, amount, currency, method: structs.replace(
        cases.after(None, cases.create(amount=amount, currency=currency, method=method)).intent, id=f"pi_{n}"
    ),
    st.integers(0, 10**9),
    st.integers(1, 1_000),
    st.sampled_from(["USD", "EUR", "KWD"]),
    st.sampled_from(["tok_sim_approve", CARD, "tok_visa"]),
)


def context_of(policy: RoutingPolicy, health: dict[str, ProcessorHealth] | None = None) -> Context:
    return structs.replace(cases.CONTEXT, policies=Policies(routing=policy, health=health or {}))


def is_ill(policy: RoutingPolicy, health: ProcessorHealth | None) -> bool:
    """By the words of the rules alone."""
    if health is None or NOW - health.as_of > limits.PROCESSOR_HEALTH_KEPT_S * 1_000_000:
        return False
    total, bad = health.succeeded + health.declined + health.failed + health.unknown, health.failed + health.unknown
    return health.breaker == "open" or (
        total >= policy.sample_min and bad / total > policy.failure_rate_max_bps / 10_000
    )


@settings(max_examples=examples(60, 200), deadline=None)
@given(policies, healths, intents, cards)
def test_any_charge_is_routed_and_never_to_an_ill_processor_while_a_well_one_could_serve_it(
    policy: RoutingPolicy, health: dict[str, ProcessorHealth], intent: PaymentIntent, card: routing.Card
) -> None:
    context = context_of(policy, health)
    found = routing.route(context, intent, card)
    assert found == routing.route(context_of(policy, dict(reversed(health.items()))), intent, card), "deterministic"
    assert 0 < len(found.reason) <= limits.ROUTE_LENGTH_MAX
    assert found.reason.startswith(f"routing {policy.version}")
    name = found.reason.partition(": ")[2].partition("; ")[0]
    chosen_by = next((rule for rule in policy.rules if rule.name == name), None)
    if chosen_by is None:
        assert found == routing.Route(cases.PROCESSOR, f"routing {policy.version}; no rule fits")
        return
    able = [c.processor for c in chosen_by.candidates if routing.serves(c.processor, intent.payment_method or "")]
    assert found.processor in able
    if any(not is_ill(policy, health.get(name)) for name in able):
        assert not is_ill(policy, health.get(found.processor))


@settings(max_examples=examples(30, 100), deadline=None)
@given(rules, intents, cards)
def test_a_split_is_the_same_for_ever_whatever_else_is_published(
    rule: RoutingRule, intent: PaymentIntent, card: routing.Card
) -> None:
    """Another version with the same weights, in any order of the candidates, sends a payment where it went before."""
    assume(any(candidate.weight for candidate in rule.candidates))
    rule = structs.replace(rule, choose="by_weight", when=Conditions())
    again = structs.replace(rule, candidates=tuple(reversed(rule.candidates)))
    other = RoutingRule(name="other", candidates=(Candidate("stripe"),), when=Conditions(merchant=("m_none",)))
    first = routing.route(context_of(RoutingPolicy(version=1, rules=(rule,))), intent, card)
    second = routing.route(context_of(RoutingPolicy(version=2, rules=(other, again))), intent, card)
    assert first.processor == second.processor


@settings(max_examples=10, deadline=None)
@given(st.lists(st.integers(1, 10), min_size=2, max_size=4), st.integers(0, 10**6))
def test_the_volume_is_split_by_the_weights(weights: list[int], seed: int) -> None:
    """Within five standard deviations of what a fair draw would give: 1,000 payments each."""
    candidates = tuple(Candidate(PROCESSORS[n], weight) for n, weight in enumerate(weights))
    rule = RoutingRule(name="split", candidates=candidates, choose="by_weight")
    context, made = (
        context_of(RoutingPolicy(version=1, rules=(rule,))),
        cases.after(None, cases.create(method=CARD)).intent,
    )
    got = Counter(routing.route(context, structs.replace(made, id=f"pi_{seed}_{n}")).processor for n in range(1_000))
    for candidate in candidates:
        share = candidate.weight / sum(weights)
        assert abs(got[candidate.processor] - 1_000 * share) <= 5 * (1_000 * share * (1 - share)) ** 0.5


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 10**6))
def test_only_the_share_of_an_eliminated_processor_moves(seed: int) -> None:
    rule = RoutingRule(
        name="split", candidates=tuple(Candidate(name, 1) for name in PROCESSORS[:3]), choose="by_weight"
    )
    policy, made = RoutingPolicy(version=1, rules=(rule,)), cases.after(None, cases.create(method=CARD)).intent
    ill = ProcessorHealth(as_of=NOW, breaker="open", succeeded=0, declined=0, failed=0, unknown=0)
    for n in range(50):
        intent = structs.replace(made, id=f"pi_{seed}_{n}")
        before = routing.route(context_of(policy), intent).processor
        after = routing.route(context_of(policy, {"simulator": ill}), intent).processor
        assert after != "simulator"
        assert before in ("simulator", after)


@settings(max_examples=examples(30, 100), deadline=None)
@given(policies)
def test_what_is_stored_of_a_policy_is_read_as_it_was(policy: RoutingPolicy) -> None:
    assume(not faults(structs.replace(policy, version=0), PROCESSORS))
    assert routing.read_policy(policy.version, canonical(policy)) == policy
