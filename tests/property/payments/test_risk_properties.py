"""What holds for every risk policy and every confirm, whatever the rules are."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from dataflows.payments.domain.policies import risk
from dataflows.payments.domain.policies.risk_rules import Facts
from schemas.payments.policies import kinds

RANK = {"allow": 0, "review": 1, "block": 2}
WINDOWS = (60, 3_600)
LISTS = {"cards": ["fp_1"], "nets": ["203.0.113.0/24"], "countries": ["AT", "US"]}
small = st.integers(0, 12)
conditions = st.one_of(
    st.builds(lambda a: {"type": "amount_above", "currency": "USD", "amount": a}, small),
    st.builds(
        lambda by, w, n: {"type": "velocity", "by": by, "window_s": w, "more_than": n},
        st.sampled_from(["card", "ip", "merchant"]),
        st.sampled_from(WINDOWS),
        small,
    ),
    st.just({"type": "country_mismatch"}),
    st.builds(
        lambda kind, field: {"type": kind, "field": field[0], "list": field[1]},
        st.sampled_from(["in_list", "not_in_list"]),
        st.sampled_from([("card", "cards"), ("ip", "nets"), ("customer_country", "countries")]),
    ),
    st.builds(lambda c: {"type": "currency", "any_of": [c]}, st.sampled_from(["USD", "EUR"])),
    st.just({"type": "network", "any_of": ["visa"]}),
)
rules = st.fixed_dictionaries(
    {
        "when": st.lists(conditions, min_size=1, max_size=3),
        "score": st.integers(1, 60),
        "outcome": st.sampled_from([None, "review", "block"]),
        "shadow": st.booleans(),
        "when_unknown": st.sampled_from(["hit", "miss", "review"]),
    }
)
documents = st.builds(
    lambda found, review, block: {
        "rules": [{"name": f"r{n}", **rule} for n, rule in enumerate(found)],
        "thresholds": {"review": review, "block": block},
        "lists": LISTS,
    },
    st.lists(rules, max_size=6),
    st.none() | st.integers(1, 40),
    st.none() | st.integers(41, 100),
)
facts = st.builds(
    Facts,
    merchant=st.just("m_1"),
    amount=small,
    currency=st.sampled_from(["USD", "EUR"]),
    card=st.sampled_from([None, "fp_1", "fp_2"]),
    network=st.sampled_from([None, "visa", "jcb"]),
    ip=st.sampled_from([None, "203.0.113.1", "198.51.100.1"]),
    customer_country=st.sampled_from([None, "AT", "FR"]),
    card_country=st.sampled_from([None, "AT", "FR"]),
    velocity=st.dictionaries(
        st.sampled_from([f"velocity:{by}:count:{w}" for by in ("card", "ip", "merchant") for w in WINDOWS]), small
    ),
)


def read(document: dict[str, Any]) -> risk.RiskPolicy:
    return risk.read_policy(1, kinds.canonical("risk", document, ()))


@given(documents, facts)
def test_a_verdict_is_of_its_arguments_alone_and_every_reason_is_a_rule_that_hit(
    document: dict[str, Any], seen: Facts
) -> None:
    verdict = risk.judge(read(document), seen)
    assert verdict == risk.judge(read(document), seen)
    by_name = {rule["name"]: rule for rule in document["rules"]}
    names = [reason.rule for reason in verdict.reasons]
    assert len(set(names)) == len(names)
    for reason in verdict.reasons:
        alone = document | {"rules": [by_name[reason.rule] | {"shadow": False, "outcome": "block"}]}
        assert risk.judge(read(alone), seen).outcome != "allow", "the rule alone would have hit"
        assert reason.detail
        assert reason.shadow == by_name[reason.rule]["shadow"]
    counting = [reason.score for reason in verdict.reasons if not reason.shadow]
    assert verdict.score == min(100, sum(counting))
    assert verdict.outcome == "allow" or counting, "nobody is stopped without a reason that counts"


@given(documents, facts)
def test_shadow_never_changes_the_outcome(document: dict[str, Any], seen: Facts) -> None:
    without = document | {"rules": [rule for rule in document["rules"] if not rule["shadow"]]}
    verdict, alone = risk.judge(read(document), seen), risk.judge(read(without), seen)
    assert (verdict.outcome, verdict.score) == (alone.outcome, alone.score)
    hidden = risk.judge(read(document | {"shadow": True}), seen)
    assert hidden.outcome == "allow"
    assert [reason.rule for reason in hidden.reasons] == [reason.rule for reason in verdict.reasons]
    assert all(reason.shadow for reason in hidden.reasons)


@given(documents, rules, facts)
def test_a_further_rule_never_makes_it_milder(document: dict[str, Any], further: dict[str, Any], seen: Facts) -> None:
    more = document | {"rules": [*document["rules"], {"name": "further", **further}]}
    before, after = risk.judge(read(document), seen), risk.judge(read(more), seen)
    assert RANK[before.outcome] <= RANK[after.outcome]
    assert before.score <= after.score


@given(documents, facts, st.integers(0, 20))
def test_more_money_and_higher_counts_never_make_it_milder(document: dict[str, Any], seen: Facts, by: int) -> None:
    worse = msgspec.structs.replace(
        seen, amount=seen.amount + by, velocity={name: count + by for name, count in seen.velocity.items()}
    )
    before, after = risk.judge(read(document), seen), risk.judge(read(document), worse)
    assert RANK[before.outcome] <= RANK[after.outcome]


@given(documents, facts, st.sampled_from(["card", "network", "ip", "customer_country", "card_country", "velocity"]))
def test_what_is_not_known_hits_when_every_rule_says_so(document: dict[str, Any], seen: Facts, lost: str) -> None:
    """To keep a fact back is no way around a rule whose author said ``hit``."""
    strict = document | {"rules": [rule | {"when_unknown": "hit"} for rule in document["rules"]]}
    unknown = msgspec.structs.replace(seen, **{lost: {} if lost == "velocity" else None})
    before, after = risk.judge(read(strict), seen), risk.judge(read(strict), unknown)
    assert RANK[before.outcome] <= RANK[after.outcome]
