"""Rules that know bank entries: all conditions of one hold, the first that holds counts, and a bad document is told."""

from __future__ import annotations

from typing import Any

import pytest

from schemas import errors
from schemas.payments.policies import bank_rules, kinds
from tests.each import each

RULES: list[dict[str, Any]] = [
    {
        "name": "rent",
        "text": "Miete",
        "direction": "out",
        "currency": "EUR",
        "amount_min": 90_000,
        "amount_max": 91_000,
    },
    {"name": "rent_otherwise", "text": "miete"},
    {"name": "tax", "iban": "DE89370400440532013000"},
    {"name": "owner", "party": "müller gmbh", "direction": "in"},
]


def rule_of(amount: int, text: str = "", party: str = "", iban: str = "") -> str | None:
    document = bank_rules.read(kinds.canonical("bank_rules", {"rules": RULES}, ()))
    found = bank_rules.rule_of(
        document.rules, amount=amount, currency="EUR", text=text, parties=(party,), ibans=(iban,)
    )
    return found.name if found else None


def test_the_first_rule_of_which_all_conditions_hold_counts() -> None:
    assert rule_of(-90_500, "MIETE Januar") == "rent"
    assert [rule_of(amount, "Miete") for amount in (-89_999, -91_001, 90_500)] == ["rent_otherwise"] * 3
    assert (rule_of(5, iban="DE89370400440532013000"), rule_of(5, iban="DE8937040044053201300")) == ("tax", None)
    assert (rule_of(5, party="Firma MÜLLER GmbH"), rule_of(-5, party="Müller GmbH")) == ("owner", None)


@each(
    ("rules", "field"),
    [
        ([{"name": "all"}], "rules[0]"),
        ([{"name": "in", "direction": "in", "currency": "EUR"}], "rules[0]"),
        ([{"name": "a", "text": "x"}, {"name": "a", "text": "y"}], "rules[1].name"),
        ([{"name": "a", "amount_min": 5}], "rules[0].currency"),
        ([{"name": "a", "currency": "EUR", "amount_min": 5, "amount_max": 4}], "rules[0].amount_max"),
        ([{"name": "a", "iban": "DE89 3704"}], "rules[0].iban"),
        ([{"name": "a", "text": ""}], "rules[0].text"),
        ([{"name": "a", "texts": "x"}], "rules[0]"),
    ],
)
def test_a_document_that_says_nothing_certain_is_refused(rules: list[dict[str, Any]], field: str) -> None:
    with pytest.raises(errors.InvalidCommand) as refused:
        kinds.canonical("bank_rules", {"rules": rules}, ())
    assert [fault["field"] for fault in refused.value.errors] == [field]
