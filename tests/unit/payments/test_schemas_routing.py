"""A routing policy is read strictly when it is published: what is stored can be decided by without an error."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dataflows.payments.domain.routing import read_policy
from schemas import errors
from schemas.payments import limits
from schemas.payments.policies import routing
from tests.each import each

PROCESSORS = ("simulator", "simulator_b")
FULL: dict[str, Any] = {
    "rules": [
        {
            "name": "EUR cards",
            "when": {
                "currency": ["EUR", "JPY"],
                "amount": {"EUR": {"least": 1, "most": 50_000}, "JPY": {}},
                "network": ["visa"],
                "merchant": ["m_1"],
                "country": ["DE"],
            },
            "candidates": [{"processor": "simulator_b", "weight": 70}, {"processor": "simulator", "weight": 30}],
            "choose": "by_weight",
            "retryable_declines": ["issuer_unavailable"],
        },
        {"name": "rest", "candidates": [{"processor": "simulator"}]},
    ],
    "failovers_max": 2,
    "sample_min": 20,
    "failure_rate_max_bps": 500,
}


def refusals(document: Any) -> list[dict[str, str]]:
    with pytest.raises(errors.InvalidCommand) as refused:
        routing.read(json.dumps(document).encode(), PROCESSORS)
    return refused.value.errors


def test_what_is_stored_is_what_owners_read() -> None:
    policy = routing.read(json.dumps(FULL).encode(), PROCESSORS)
    stored = routing.canonical(policy)
    read = read_policy(4, stored)
    assert read.version == 4
    assert routing.canonical(read) == stored
    assert (read.rules, read.failovers_max) == (policy.rules, 2)
    assert routing.needs_network(read)


def test_an_empty_policy_sends_everything_to_the_default() -> None:
    assert routing.read(b"{}", PROCESSORS).rules == ()


def one(**changes: Any) -> dict[str, Any]:
    return {"rules": [{"name": "r", "candidates": [{"processor": "simulator"}], **changes}]}


@each(
    ("document", "field"),
    [
        ([], "policy"),
        ({"rule": []}, "policy"),
        ({"version": 3}, "version"),
        ({"failovers_max": limits.ROUTING_FAILOVERS_MAX + 1}, "failovers_max"),
        ({"failovers_max": 1.5}, "failovers_max"),
        ({"failure_rate_max_bps": 10_001}, "failure_rate_max_bps"),
        (one(name="a; b"), "rules[0].name"),
        (one(name="a: b"), "rules[0].name"),
        (one(name="a\n"), "rules[0].name"),
        (one(candidates=[]), "rules[0].candidates"),
        (one(candidates=[{"processor": "paypal"}]), "rules[0].candidates[0].processor"),
        (one(candidates=[{"processor": "simulator"}] * 2), "rules[0].candidates"),
        (one(candidates=[{"processor": "simulator", "weight": 0}], choose="by_weight"), "rules[0].candidates"),
        (one(candidates=[{"processor": "simulator", "weight": -1}]), "rules[0].candidates[0].weight"),
        (one(choose="cheapest"), "rules[0].choose"),
        (one(when={"currency": ["XXX"]}), "rules[0].when"),
        (one(when={"currency": ["eur"]}), "rules[0].when.currency[0]"),
        (one(when={"amount": {"EUR": {"least": 2, "most": 1}}}), "rules[0].when.amount"),
        (one(when={"amount": {"EUR": {"least": 1.0}}}), "rules[0].when.amount[...].least"),
        (one(when={"network": "visa"}), "rules[0].when.network"),
        (one(when={"bin": ["411111"]}), "rules[0].when"),
        (one(when={"country": ["Germany"]}), "rules[0].when.country[0]"),
        ({"rules": one()["rules"] * 2}, "rules[1].name"),
        ({"rules": one()["rules"] * (limits.ROUTING_RULES_MAX + 1)}, "rules"),
    ],
)
def test_what_an_owner_could_not_decide_by_is_refused_with_its_place(document: Any, field: str) -> None:
    found = refusals(document)
    assert field in [error["field"] for error in found], found
    assert all(error["reason"] for error in found)


@pytest.mark.parametrize("body", [b"", b"\xff", b"null", b"[" * 10_000, b'{"rules": [{"name": "\xed\xa0\x80"}]}'])
def test_bytes_that_are_no_policy_are_refused(body: bytes) -> None:
    with pytest.raises(errors.InvalidCommand):
        routing.read(body, PROCESSORS)
