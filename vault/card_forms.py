"""How a call is written with the card in place of its token: each adapter's processors have a form of their own.

The same call and card give the same bytes, because processors compare a repeated call with the first one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

import msgspec

from schemas import errors

if TYPE_CHECKING:
    from vault.card import Card

_JSON: Final = "application/json"
_FORM: Final = "application/x-www-form-urlencoded"
_encode: Final = msgspec.json.Encoder().encode


def check_body(adapter: str, token: str, body: Mapping[str, Any]) -> None:
    """Raises InvalidCommand unless the body has the token as its payment_method, no card, and can be written."""
    reason = None
    if "card" in body or body.get("payment_method", token) != token:
        reason = "must have the token as its payment_method, and no card: the vault puts it in"
    elif adapter == "stripe" and not all(isinstance(value, str) for value in body.values()):
        reason = "must have texts only: it is written as a form"
    elif adapter == "stripe" and any("card[" in name for name in body):
        reason = "must have no card: the vault puts it in"
    if reason is not None:
        raise errors.InvalidCommand([{"field": "body", "reason": reason}])


def with_card(adapter: str, token: str, body: Mapping[str, Any], card: Card) -> tuple[str, bytes]:
    """Content type and bytes of what leaves: members whose value is the token give way to the card."""
    rest = {name: value for name, value in body.items() if value != token}
    return _WRITERS.get(adapter, _as_json)(rest, card)


def _as_json(body: dict[str, Any], card: Card) -> tuple[str, bytes]:
    fields = {"number": card.number, "exp_month": card.exp_month, "exp_year": card.exp_year}
    return _JSON, _encode(body | {"card": fields})


def _as_stripe_form(body: dict[str, Any], card: Card) -> tuple[str, bytes]:
    """Stripe's API takes a form; members of members are written in brackets. Of POST /v1/payment_methods."""
    fields = {
        "card[number]": card.number,
        "card[exp_month]": str(card.exp_month),
        "card[exp_year]": str(card.exp_year),
    }
    return _FORM, urlencode(body | fields).encode()


_WRITERS: Final[dict[str, Callable[[dict[str, Any], Card], tuple[str, bytes]]]] = {"stripe": _as_stripe_form}
