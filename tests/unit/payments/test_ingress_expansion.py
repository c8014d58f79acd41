"""``expand[]``: what may be asked for, and that nothing else is taken for it."""

from __future__ import annotations

from urllib.parse import urlencode

import pytest
from starlette.requests import Request

from ingress.payments import expansion
from schemas import errors
from schemas.payments import limits


def request(*values: str) -> Request:
    query = urlencode([("expand[]", value) for value in values]).encode()
    return Request({"type": "http", "method": "GET", "path": "/", "query_string": query, "headers": []})


@pytest.mark.parametrize(("kind", "allowed"), expansion.ALLOWED.items())
def test_what_a_kind_can_take_along(kind: str, allowed: tuple[str, ...]) -> None:
    assert expansion.asked(request(), kind) == frozenset()
    assert expansion.asked(request(*allowed, allowed[0]), kind) == set(allowed)


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("payment_intents", ["customer"]),
        ("payment_intents", ["refunds", "payment_intent"]),
        ("payment_intents", [""]),
        ("payment_intents", ["refunds.payment_intent"]),
        ("refunds", ["latest_attempt"]),
        ("payouts", ["payment_intent"]),
        ("payment_intents", ["refunds"] * (limits.EXPANSIONS_MAX + 1)),
    ],
)
def test_what_is_refused(kind: str, values: list[str]) -> None:
    with pytest.raises(errors.InvalidCommand) as refused:
        expansion.asked(request(*values), kind)
    assert refused.value.errors[0]["field"] == "expand[]"
