"""The console's pages of a tenant and its invoices say all that there is, in words, on a phone too."""

from __future__ import annotations

import re
from typing import Any, Final

import jinja2
import pytest

from ingress.console.pages import Templates

FRAME: Final = '{% import "parts.html" as parts %}{% block main %}{% endblock %}'
DIGEST: Final = "ad7d2e761f54a7661ca258cafaf17205"
SPAN: Final = {"from": "2026-11-19T00:00:00Z", "to": "2026-11-29T00:00:00Z"}
COUNTED: Final = {"dimension": "tokens", "quantity": 55_000, "events": 10, "digest": DIGEST, "meter_version": 1}
USAGE: Final = SPAN | COUNTED | {"kind": "usage", "unit_price": "12.5", "amount": 687_500}
CREDIT: Final = {"kind": "credit", "amount": -625, "reason": "a <meter> that ran twice"}


def invoice(*lines: dict[str, Any]) -> str:
    """The page of an invoice of these lines, without its frame."""
    environment = Templates(["ingress.tenancy.console"])._environment
    assert environment.loader is not None
    environment.loader = jinja2.ChoiceLoader([jinja2.DictLoader({"layout.html": FRAME}), environment.loader])
    known = {"invoice_id": "in_1", "tenant_id": "tn_1", "currency": "EUR", "total": 686_875, "lines": lines}
    paid = {"state": "paid", "payment_intent": None}
    return environment.get_template("invoice.html").render(invoice=known | SPAN, payment=paid, made_at=None)


def test_a_line_of_an_invoice_shows_its_whole_digest_and_folds_with_the_name_of_each_cell() -> None:
    text = invoice(USAGE, USAGE | {"kind": "adjustment", "quantity": -50, "reason": "r"}, CREDIT)
    assert re.findall(rf">{DIGEST} <", text) == [f">{DIGEST} <"] * 2
    assert '<table class="rows folds">' in text
    names = ["Dimension", "Period", "Quantity", "Events", "Digest", "Unit price, minor units", "Amount"]
    rows = re.findall(r"<tr data-row>.*?</tr>", text)
    assert [re.findall(r'data-name="([^"]*)"', row) for row in rows] == [names, names, ["Amount"]]
    assert "<time>2026-11-19T00:00:00Z</time> – <time>2026-11-29T00:00:00Z</time>" in rows[0]
    assert ">−50<" in rows[1]
    assert "a &lt;meter&gt; that ran twice" in rows[2]
    assert len(re.findall(r'class="[^"]*\bunsaid"', rows[2])) == len(names) - 1  # nothing is named that is not there


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"tokens": "12.5", "gb_hours": "volume:9@1,*@2"}, "tokens 12.5, gb_hours volume:9@1,*@2"),
        ({}, "none"),
        (None, "nothing"),
        (0, "0"),
        ("<b>", "&lt;b&gt;"),
    ],
)
def test_what_was_changed_is_said_in_words(value: object, said: str) -> None:
    environment = Templates(["ingress.tenancy.console"])._environment
    module: Any = environment.get_template("tenant_parts.html").module
    assert module.said(value, "nothing") == said
