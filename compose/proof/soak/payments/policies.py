"""The policies that are in force during the soak: what risk rules stop or ask about, and where charges go.

Payments that a rule is about say so by their countries; no other payment of the soak says any. A rule in shadow would
stop everything: it decides nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from compose.proof.soak.payments.plans import Risk

REVIEWER: Final = "m_soak_ann"
_BLOCKED: Final = "AQ"
_BLOCKS: Final = "blocked-country"
_ASKS: Final = "other-country"
_BY_HAND: Final = "operator"
_ASKED: Final = ("review", "", _ASKS)
#: what is written down of a payment beside the rules' own yes: outcome, who, rules that decided
ASSESSED: Final[dict[Risk, list[tuple[str, ...]]]] = {
    "": [],
    "blocked": [("block", "", _BLOCKS)],
    "approved": [_ASKED, ("allow", REVIEWER, _BY_HAND)],
    "rejected": [_ASKED, ("block", REVIEWER, _BY_HAND)],
}

#: goes to one processor while the others are split: the second version of the routing policy, published under load
PINNED_CURRENCY: Final = "JPY"
_PINS: Final = "pinned"
_SPREADS: Final = "spread"
#: an issuer's refusal after which the rules try the next processor: what a plan makes each of them say
TRIED_ELSEWHERE: Final = "insufficient_funds"
#: what an attempt says of its route, and whether its charge may then be of the pinned currency
ROUTED_BY: Final[dict[str, tuple[bool, ...]]] = {
    f"routing 1: {_SPREADS}": (True, False),
    f"routing 2: {_SPREADS}": (False,),
    f"routing 2: {_PINS}": (True,),
}


def risk_document() -> dict[str, Any]:
    """Blocks one country, asks a person where the card is from elsewhere."""
    blocked = {"type": "in_list", "field": "customer_country", "list": "blocked"}
    return {
        "rules": [
            {"name": _BLOCKS, "when": [blocked], "outcome": "block", "when_unknown": "miss"},
            {
                "name": _ASKS,
                "when": [{"type": "country_mismatch"}],
                "outcome": "review",
                "when_unknown": "miss",
            },
            {
                "name": "shadow",
                "when": [{"type": "not_in_list", "field": "merchant", "list": "nobody"}],
                "outcome": "block",
                "shadow": True,
                "when_unknown": "hit",
            },
        ],
        "lists": {"blocked": [_BLOCKED], "nobody": ["m_nobody"]},
    }


def countries(risk: Risk) -> tuple[str | None, str | None]:
    """What a confirm says of its customer's and its card's country, so that the rules say this of it."""
    if not risk:
        return None, None
    return (_BLOCKED, _BLOCKED) if risk == "blocked" else ("AT", "DE")


def routing_document(processors: Iterable[str], *, pins: bool) -> dict[str, Any]:
    """Every processor serves as many charges as any other, and stands in for those that fail or refuse for no funds.

    ``pins``: one currency prefers the last processor.
    """
    names = list(processors)
    spread = {
        "name": _SPREADS,
        "choose": "by_weight",
        "candidates": [{"processor": name, "weight": 1} for name in names],
        "retryable_declines": [TRIED_ELSEWHERE],
    }
    pinned = {
        "name": _PINS,
        "when": {"currency": [PINNED_CURRENCY]},
        "choose": "in_order",
        "candidates": [{"processor": name} for name in reversed(names)],
        "retryable_declines": [TRIED_ELSEWHERE],
    }
    return {"rules": [pinned, spread] if pins else [spread]}
