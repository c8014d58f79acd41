"""Risk policies and facts as tests write them."""

from __future__ import annotations

from typing import Any

import msgspec

from dataflows.payments.domain.policies import risk
from dataflows.payments.domain.policies.risk_rules import Facts
from schemas.payments.policies import kinds

FACTS = Facts(
    merchant="m_1",
    amount=10_000,
    currency="USD",
    card="fp_1",
    network="visa",
    ip="203.0.113.9",
    customer_country="AT",
    card_country="AT",
    velocity={"velocity:ip:count:60": 3, "velocity:card:amount:USD:3600": 50_000},
)
NOTHING_KNOWN = Facts(
    merchant="m_1",
    amount=10_000,
    currency="USD",
    card=None,
    network=None,
    ip=None,
    customer_country=None,
    card_country=None,
    velocity={},
)


def above(amount: int, currency: str = "USD") -> dict[str, Any]:
    """A condition on the amount, which is always known."""
    return {"type": "amount_above", "currency": currency, "amount": amount}


def rule(name: str = "r", when: list[dict[str, Any]] | None = None, **changes: Any) -> dict[str, Any]:
    """A rule that blocks what is above 5000, changed."""
    return {"name": name, "when": when or [above(5_000)], "outcome": "block"} | changes


def policy(*rules: dict[str, Any], version: int = 1, **document: Any) -> risk.RiskPolicy:
    """A policy as it is after it was published."""
    body = kinds.canonical("risk", {"rules": list(rules)} | document, ())
    return risk.read_policy(version, body)


def known(**changes: Any) -> Facts:
    """The facts, changed."""
    return msgspec.structs.replace(FACTS, **changes)
