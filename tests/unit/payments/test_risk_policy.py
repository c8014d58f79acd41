"""What may be published as a risk policy: every field has its refusal, which names it."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from dataflows.payments.domain.policies import risk
from schemas import errors
from schemas.payments import limits
from schemas.payments.policies import kinds, risk_policy
from tests.each import each

GOOD: dict[str, Any] = {
    "rules": [
        {
            "name": "cards_per_hour",
            "when": [
                {"type": "velocity", "by": "card", "window_s": 3600, "more_than": 5},
                {"type": "amount_above", "currency": "USD", "amount": 100},
                {"type": "in_list", "field": "ip", "list": "nets"},
                {"type": "not_in_list", "field": "customer_country", "list": "home"},
                {"type": "currency", "any_of": ["USD"]},
                {"type": "network", "any_of": ["visa"]},
                {"type": "country_mismatch"},
            ],
            "score": 10,
            "when_unknown": "review",
        }
    ],
    "thresholds": {"review": 10, "block": 90},
    "lists": {"nets": ["203.0.113.0/24"], "home": ["AT"]},
}
VELOCITY, AMOUNT, IN_LIST, NOT_IN_LIST, CURRENCY, NETWORK = (("rules", 0, "when", n) for n in range(6))
RULE = ("rules", 0)
#: where, the wrong value, the field that the refusal names
WRONG: list[tuple[tuple[Any, ...], Any, str]] = [
    (("rules",), {}, "rules"),
    (("rules",), GOOD["rules"] * (limits.RISK_RULES_MAX + 1), "rules"),
    (("rules",), GOOD["rules"] * 2, "rules[1].name"),
    (("thresholds", "review"), 0, "thresholds.review"),
    (("thresholds", "block"), 101, "thresholds.block"),
    (("thresholds", "review"), 90, "thresholds.review"),
    (("thresholds", "other"), 1, "thresholds"),
    (("shadow",), "yes", "shadow"),
    (("more",), 1, ""),
    (("lists",), [], "lists"),
    (("lists", "BAD"), [], "lists"),
    (("lists", "nets", 0), "203.0.113.1/24", "lists.nets[0]"),
    (("lists", "nets", 0), "", "lists[...][0]"),
    (("lists", "nets", 0), 7, "lists[...][0]"),
    (("lists", "home", 0), "Austria", "lists.home[0]"),
    (("lists", "home", 0), "ÖS", "lists.home[0]"),
    ((*RULE, "name"), "Has Spaces", "rules[0].name"),
    ((*RULE, "when"), [], "rules[0].when"),
    ((*RULE, "when"), [{"type": "country_mismatch"}] * (limits.RISK_CONDITIONS_MAX + 1), "rules[0].when"),
    ((*RULE, "score"), -1, "rules[0].score"),
    ((*RULE, "score"), True, "rules[0].score"),
    ((*RULE, "score"), 1.5, "rules[0].score"),
    ((*RULE, "score"), 0, "rules[0]"),
    ((*RULE, "outcome"), "deny", "rules[0].outcome"),
    ((*RULE, "shadow"), 1, "rules[0].shadow"),
    ((*RULE, "when_unknown"), None, "rules[0].when_unknown"),
    ((*RULE, "when_unknown"), "guess", "rules[0].when_unknown"),
    ((*RULE, "else"), 1, "rules[0]"),
    ((*VELOCITY, "type"), "speed", "rules[0].when[0].type"),
    ((*VELOCITY, "by"), "email", "rules[0].when[0].by"),
    ((*VELOCITY, "window_s"), limits.VELOCITY_WINDOW_S_MIN - 1, "rules[0].when[0].window_s"),
    ((*VELOCITY, "window_s"), limits.VELOCITY_WINDOW_S_MAX + 1, "rules[0].when[0].window_s"),
    ((*VELOCITY, "more_than"), -1, "rules[0].when[0].more_than"),
    ((*VELOCITY, "measure"), "mean", "rules[0].when[0].measure"),
    ((*VELOCITY, "measure"), "amount", "rules[0].when[0].currency"),
    ((*VELOCITY, "currency"), "USD", "rules[0].when[0].currency"),
    ((*AMOUNT, "amount"), 2**60, "rules[0].when[1].amount"),
    ((*AMOUNT, "currency"), "XXX", "rules[0].when[1]"),
    ((*AMOUNT, "currency"), "usd", "rules[0].when[1].currency"),
    ((*IN_LIST, "field"), "email", "rules[0].when[2].field"),
    ((*IN_LIST, "list"), "none", "rules[0].when[2].list"),
    ((*NOT_IN_LIST, "list"), "none", "rules[0].when[3].list"),
    ((*CURRENCY, "any_of"), [], "rules[0].when[4].any_of"),
    ((*CURRENCY, "any_of"), ["XAU"], "rules[0].when[4]"),
    ((*NETWORK, "any_of"), ["Visa!"], "rules[0].when[5].any_of[0]"),
]


def changed(where: tuple[Any, ...], value: Any) -> dict[str, Any]:
    document: Any = copy.deepcopy(GOOD)
    inner = document
    for step in where[:-1]:
        inner = inner[step]
    inner[where[-1]] = value
    return document  # type: ignore[no-any-return] # a copy of a dict


def test_a_good_document_is_read_again_as_it_is_stored() -> None:
    body = kinds.canonical("risk", GOOD, ())
    assert risk_policy.faults(risk_policy.read(body)) == []
    assert kinds.canonical("risk", kinds.msgspec.json.decode(body), ()) == body
    assert kinds.canonical("risk", {}, ()) == kinds.canonical("risk", {"rules": [], "shadow": False}, ())


@each(("where", "value", "field"), WRONG)
def test_every_wrong_field_is_refused_and_named(where: tuple[Any, ...], value: Any, field: str) -> None:
    with pytest.raises(errors.InvalidCommand) as refused:
        kinds.canonical("risk", changed(where, value), ())
    assert field in [fault["field"] for fault in refused.value.errors], refused.value.errors
    assert all(fault["reason"] for fault in refused.value.errors)


@pytest.mark.parametrize("word", ["hit", "review"])
def test_nothing_is_allowed_for_what_is_not_known_of_it(word: str) -> None:
    document = changed((*RULE, "outcome"), "allow")
    document["rules"][0]["when_unknown"] = word
    with pytest.raises(errors.InvalidCommand):
        kinds.canonical("risk", document, ())


def test_the_counters_of_a_policy_are_bounded() -> None:
    windows = range(60, 60 + limits.VELOCITY_COUNTERS_MAX + 1)
    rules = [
        {"name": f"r{s}", "when": [{"type": "velocity", "by": "ip", "window_s": s, "more_than": 1}]}
        | {"outcome": "block", "when_unknown": "miss"}
        for s in windows
    ]
    with pytest.raises(errors.InvalidCommand):
        kinds.canonical("risk", {"rules": rules}, ())
    assert kinds.canonical("risk", {"rules": rules[1:]}, ())


def test_a_body_that_no_publisher_made_is_not_evaluated() -> None:
    """A list that is not there would stop an owner at the first confirm; so the owner keeps the version before."""
    body = kinds.canonical("risk", GOOD, ()).replace('"nets":', '"other":')
    with pytest.raises(kinds.msgspec.DecodeError):
        risk.read_policy(2, body)
