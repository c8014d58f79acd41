"""Payment intents of the account: create, the payer's action, capture in parts, more held, cancel.

Source: Stripe's guides on payment intents, manual and multiple captures, incremental authorization and 3-D Secure.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from compose.stripe_simulator import balance, disputes
from compose.stripe_simulator.cards import Card, card_of
from compose.stripe_simulator.forms import amount_of, text_of
from compose.stripe_simulator.problems import Object, Refused, card_error

if TYPE_CHECKING:
    from compose.stripe_simulator.book import Answer, Transaction

#: where the payer proves who he is; nobody listens there: a test pulls the lever in his place
CHALLENGES: Final = "https://hooks.stripe.example/3d_secure_2"
_OK: Final = HTTPStatus.OK
_UNEXPECTED: Final = "payment_intent_unexpected_state"
_FOR_PAYER: Final = ("description", "receipt_email", "statement_descriptor_suffix")
_CARD_OPTIONS: Final = ("request_multicapture", "request_incremental_authorization")


def make_method(made: Transaction, form: Object) -> Answer:
    """POST /v1/payment_methods with a token of a card."""
    token = text_of(form.get("card") or {}, "token")
    if card_of(token) is None:
        raise Refused("resource_missing", f"No such token: '{token}'")
    return _OK, made.keep({"id": made.new_id("pm"), "object": "payment_method", "type": "card", "token": token})


def create(made: Transaction, form: Object, key: str) -> Answer:
    """POST /v1/payment_intents with ``confirm``: held, taken, declined, or the payer is asked."""
    amount, name = amount_of(form, "amount"), made.new_id("pi")
    method = text_of(form, "payment_method")
    card = _card(made, method)
    options = (form.get("payment_method_options") or {}).get("card") or {}
    intent: Object = {
        "id": name, "object": "payment_intent", "amount": amount, "amount_capturable": 0, "amount_received": 0,
        "currency": text_of(form, "currency"), "capture_method": form.get("capture_method", "automatic"),
        "payment_method": method, "metadata": form.get("metadata") or {}, "status": "requires_confirmation",
        "client_secret": f"{name}_secret_{name[3:]}", "cancellation_reason": None, "last_payment_error": None,
        "next_action": None, "latest_charge": None, "created": made.now, "livemode": False,
        **{asked: form.get(asked) for asked in _FOR_PAYER}, "card_options": {o: options.get(o) for o in _CARD_OPTIONS},
        "confirmed_under": key,
    }  # fmt: skip
    if form.get("confirm") != "true":
        return _OK, _kept(made, intent)
    if card.decline_code is not None:
        problem = {"type": "card_error", "code": "card_declined", "decline_code": card.decline_code}
        intent |= {"status": "requires_payment_method", "last_payment_error": problem}
        made.tell("payment_intent.payment_failed", _kept(made, intent))
        return HTTPStatus.PAYMENT_REQUIRED, card_error(card.decline_code, shown(intent))
    if card.asks_payer:
        intent |= {"status": "requires_action", "next_action": _action(intent, form.get("return_url"))}
        made.tell("payment_intent.requires_action", _kept(made, intent))
        return _OK, shown(intent)
    return _OK, _paid(made, intent, card)


def _action(intent: Object, return_url: str | None) -> Object:
    """With somewhere to send the payer back to, a redirect; else what their script in the browser does."""
    url = f"{CHALLENGES}/{intent['id']}"
    if return_url:
        return {"type": "redirect_to_url", "redirect_to_url": {"url": url, "return_url": return_url}}
    return {"type": "use_stripe_sdk", "use_stripe_sdk": {"type": "stripe_3ds2_fingerprint", "source": intent["id"]}}


def end_action(made: Transaction, name: str, outcome: str) -> Answer:
    """The payer comes back: ``done`` or ``failed``; where the browser is sent then, as ``location``."""
    intent = made.fetch("payment_intent", name)
    if intent["status"] != "requires_action":
        raise Refused(_UNEXPECTED, "Nobody waits for this payer.")
    back = (intent["next_action"].get("redirect_to_url") or {}).get("return_url")
    intent["next_action"] = None
    if outcome == "done":
        _paid(made, intent, Card())
    else:
        problem = {"type": "invalid_request_error", "code": "payment_intent_authentication_failure"}
        intent |= {"status": "requires_payment_method", "last_payment_error": problem}
        made.tell("payment_intent.payment_failed", _kept(made, intent))
    status = "succeeded" if outcome == "done" else "failed"
    joint = "&" if back and "?" in back else "?"
    return _OK, {"location": back and f"{back}{joint}payment_intent={name}&redirect_status={status}"}


def _paid(made: Transaction, intent: Object, card: Card) -> Object:
    """The card agrees: money is held, or taken at once."""
    key, amount = intent["confirmed_under"], intent["amount"]
    charge = made.keep({"id": made.new_id("ch"), "object": "charge", "payment_intent": intent["id"], "amount": amount,
                        "currency": intent["currency"], "metadata": intent["metadata"]})  # fmt: skip
    intent["latest_charge"] = charge["id"]
    if intent["capture_method"] == "manual":
        intent |= {"status": "requires_capture", "amount_capturable": amount}
        made.book_effect("authorized", key, intent, amount)
        made.tell("payment_intent.amount_capturable_updated", _kept(made, intent))
        return shown(intent)
    intent |= {"status": "succeeded", "amount_received": amount}
    made.book_effect("captured", key, intent, amount)
    balance.book_line(made, "charge", charge["id"], intent, amount, balance.fee_of(amount))
    made.tell("payment_intent.succeeded", _kept(made, intent))
    if card.is_disputed:
        disputes.open_dispute(made, intent, amount, "fraudulent")
    return shown(intent)


def capture(made: Transaction, name: str, form: Object, key: str) -> Answer:
    """POST /v1/payment_intents/{id}/capture: all of it or a part; ``final_capture=false`` leaves the rest held."""
    intent = _held(made, name)
    amount = amount_of(form, "amount_to_capture", intent["amount_capturable"])
    is_last = form.get("final_capture", "true") != "false"
    if amount > intent["amount_capturable"]:
        raise Refused("amount_too_large", f"The capture may be at most {intent['amount_capturable']}.")
    if not is_last and intent["card_options"]["request_multicapture"] != "if_available":
        raise Refused("parameter_invalid_empty", "This payment does not support multicapture.")
    intent["metadata"] |= form.get("metadata") or {}
    before, rest = intent["amount_received"], intent["amount_capturable"] - amount
    intent["amount_received"] += amount
    intent["amount_capturable"] = 0 if is_last else rest
    intent["status"] = "requires_capture" if not is_last and rest else "succeeded"
    made.book_effect("captured", key, intent, amount)
    charge, fee = intent["latest_charge"], balance.fee_of(amount)
    if is_last and rest and not before:  # of one capture the whole hold is told, and what was not taken of it
        balance.book_line(made, "charge", charge, intent, amount + rest, fee)
        balance.book_line(made, "partial_capture_reversal", charge, intent, -rest)
    else:
        balance.book_line(made, "charge", charge, intent, amount, fee)
    is_done = intent["status"] == "succeeded"
    told = "payment_intent.succeeded" if is_done else "payment_intent.amount_capturable_updated"
    made.tell(told, _kept(made, intent))
    return _OK, shown(intent)


def increment(made: Transaction, name: str, form: Object, key: str) -> Answer:
    """POST /v1/payment_intents/{id}/increment_authorization: the new total."""
    intent, total = _held(made, name), amount_of(form, "amount")
    if intent["card_options"]["request_incremental_authorization"] != "if_available" or total <= intent["amount"]:
        raise Refused("parameter_invalid_integer", "This hold cannot grow so.")
    more = total - intent["amount"]
    intent["metadata"] |= form.get("metadata") or {}
    intent |= {"amount": total, "amount_capturable": intent["amount_capturable"] + more}
    made.book_effect("authorized", key, intent, more)
    made.tell("payment_intent.amount_capturable_updated", _kept(made, intent))
    return _OK, shown(intent)


def cancel(made: Transaction, name: str, key: str) -> Answer:
    """POST /v1/payment_intents/{id}/cancel: what is held is free again."""
    intent = made.fetch("payment_intent", name)
    if intent["status"] in {"succeeded", "canceled"}:
        raise Refused(_UNEXPECTED, f"This payment is {intent['status']}.")
    held = intent["amount_capturable"]
    intent |= {"status": "canceled", "amount_capturable": 0, "next_action": None}
    if held:
        made.book_effect("voided", key, intent, held)
    made.tell("payment_intent.canceled", _kept(made, intent))
    return _OK, shown(intent)


def shown(intent: Object) -> Object:
    """As the API shows it: what only we know stays inside."""
    return {name: value for name, value in intent.items() if name not in ("card_options", "confirmed_under")}


def _held(made: Transaction, name: str) -> Object:
    intent = made.fetch("payment_intent", name)
    if intent["status"] != "requires_capture":
        raise Refused(_UNEXPECTED, f"This payment is {intent['status']}.")
    return intent


def _kept(made: Transaction, intent: Object) -> Object:
    return shown(made.keep(intent))


def _card(made: Transaction, method: str) -> Card:
    found: Any = card_of(method)
    if found is None:
        found = card_of(str(made.fetch("payment_method", method)["token"]))
    if not isinstance(found, Card):
        raise Refused("resource_missing", f"No such payment_method: '{method}'")
    return found


def card_behind(made: Transaction, intent: Object) -> Card:
    """The card that a payment was made with."""
    return _card(made, intent["payment_method"])
