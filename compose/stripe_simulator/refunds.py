"""Refunds of the account: several of one payment, never more than it took; some wait, and some come back."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from compose.stripe_simulator import balance, payments
from compose.stripe_simulator.forms import amount_of
from compose.stripe_simulator.problems import Object, Refused

if TYPE_CHECKING:
    from compose.stripe_simulator.book import Answer, Transaction

_MANY: Final = 10**6
_COUNTED: Final = frozenset({"pending", "requires_action", "succeeded"})


def create(made: Transaction, form: Object, key: str) -> Answer:
    """POST /v1/refunds of a payment or of its charge."""
    intent = _payment_of(made, form)
    taken = intent["amount_received"]
    given = sum(r["amount"] for r in made.listed("refund", intent["id"], _MANY)[0] if r["status"] in _COUNTED)
    amount = amount_of(form, "amount", taken - given)
    if amount > taken - given:
        raise Refused("charge_already_refunded" if given >= taken else "amount_too_large", "More than is left.")
    waits = payments.card_behind(made, intent).refunds_wait
    refund: Object = {
        "id": made.new_id("re"), "object": "refund", "amount": amount, "currency": intent["currency"],
        "payment_intent": intent["id"], "charge": intent["latest_charge"], "metadata": form.get("metadata") or {},
        "status": "pending" if waits else "succeeded", "failure_reason": None, "created": made.now, "made_under": key,
        "pending_reason": "charge_pending" if waits else None,
    }  # fmt: skip
    made.tell("refund.created", _kept(made, refund))
    if not waits:
        _give_back(made, refund, intent)
    return HTTPStatus.OK, _shown(refund)


def end(made: Transaction, name: str, outcome: str) -> Answer:
    """What waited succeeds or fails; what had succeeded may fail, and its money is back."""
    refund = made.fetch("refund", name)
    intent = made.fetch("payment_intent", refund["payment_intent"])
    if outcome == "succeeded" and refund["status"] == "pending":
        refund |= {"status": "succeeded", "pending_reason": None}
        _give_back(made, refund, intent)
    elif outcome == "failed" and refund["status"] in _COUNTED:
        was_taken = refund["status"] == "succeeded"
        refund |= {"status": "failed", "failure_reason": "expired_or_canceled_card", "pending_reason": None}
        if was_taken:
            line = balance.book_line(made, "refund_failure", name, _of(intent, refund), refund["amount"])
            refund["failure_balance_transaction"] = line["id"]
            made.put("effect_delete", refund["made_under"])
    else:
        raise Refused("parameter_invalid_string", f"This refund is {refund['status']}.")
    made.tell("refund.failed" if outcome == "failed" else "refund.updated", _kept(made, refund))
    return HTTPStatus.OK, _shown(refund)


def listed(made: Transaction, form: Object, count: int) -> Answer:
    """GET /v1/refunds of one payment or charge, newest first."""
    found, has_more = made.listed("refund", _payment_of(made, form)["id"], count)
    return HTTPStatus.OK, {"object": "list", "data": [_shown(r) for r in found], "has_more": has_more}


def _give_back(made: Transaction, refund: Object, intent: Object) -> None:
    made.book_effect("refunded", refund["made_under"], _of(intent, refund), refund["amount"])
    balance.book_line(made, "refund", refund["id"], _of(intent, refund), -refund["amount"])


def _of(intent: Object, refund: Object) -> Object:
    return intent | {"metadata": refund["metadata"]}


def _payment_of(made: Transaction, form: Object) -> Object:
    if charge := form.get("charge"):
        return made.fetch("payment_intent", made.fetch("charge", charge)["payment_intent"])
    return made.fetch("payment_intent", str(form.get("payment_intent")))


def _kept(made: Transaction, refund: Object) -> Object:
    return _shown(made.keep(refund, refund["payment_intent"]))


def _shown(refund: Object) -> Object:
    return {name: value for name, value in refund.items() if name != "made_under"}
