"""What Stripe's objects and errors say for certain of a call. Pure; what is not exactly an answer to it is Unknown.

Sources: Stripe's API reference (payment intents, refunds, errors) and its rules of idempotency: a result is kept under
the key once execution began, errors included; 400, 401, 403, 404 and 429 are refused before.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, get_args

import stripe

from dataflows.payments.attempts.adapter import Answer, Definitive, NotExecuted, Pending, RequiresAction, Unknown
from dataflows.payments.attempts.stripe_calls import ADAPTER, dispute_of, increment_name
from schemas import limits
from schemas.fields.validation import clean_text, web_address
from schemas.payments import payer_action
from schemas.payments.processor_currency import from_processor
from schemas.payments.records import RefundPendingReason

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dataflows.payments.attempts.adapter import Call, DefinitiveStatus

Object = dict[str, Any]
#: refusals that speak of the object's state, which an earlier send of ours may have made: never taken for "failed"
_OF_STATE: Final = frozenset(
    {
        "payment_intent_unexpected_state",
        "charge_already_captured",
        "charge_already_refunded",
        "charge_expired_for_capture",
        "lock_timeout",
        "idempotency_key_in_use",
        "resource_already_exists",
    }
)
_PENDING_REASONS: Final[dict[str, RefundPendingReason]] = {r: r for r in get_args(RefundPendingReason)}
#: addresses of next actions: redirect_to_url, use_stripe_sdk (a challenge of 3-D Secure), vouchers and transfers
_ADDRESSES: Final = ("url", "stripe_js", "hosted_instructions_url", "hosted_voucher_url", "hosted_verification_url")
_REFUNDED: Final = {"succeeded": "refunded", "failed": "failed", "canceled": "failed"}


def answer_to_charge(call: Call, intent: Object) -> Answer:
    """What a payment intent says of authorize or purchase."""
    if not _is_of(call, intent):
        return Unknown("answer_to_another_call")
    ref, error = str(intent["id"]), intent.get("last_payment_error")
    answer: Answer = Unknown(f"payment_intent_{intent.get('status')}")
    match (call.kind, intent.get("status")):
        case ("authorize", "requires_capture"):
            answer = _done("authorized", intent, intent.get("amount_capturable"))
        case ("purchase", "succeeded"):
            answer = _done("captured", intent, intent.get("amount_received"))
        case (_, "processing"):
            answer = Pending(ref)
        case (_, "requires_action"):
            answer = RequiresAction(ref, redirect_of(intent), action_of(intent))
        case (_, "requires_payment_method") if isinstance(error, dict):
            answer = _refused("declined", ref, error)
        case ("authorize", "canceled") if intent.get("cancellation_reason") == "automatic":
            # Stripe lets holds end after some days; the webhook tells the same fact.
            answer = _done("voided", intent, intent.get("amount"), error_code="expired")
        case (_, "canceled"):
            answer = _refused("failed", ref, {"code": "canceled"})
    return answer


def answer_to_capture(call: Call, intent: Object) -> Answer:
    """What the parent says of a capture: ours left its operation in the metadata, in the same request."""
    metadata = intent.get("metadata")
    if intent.get("id") != call.parent_ref or not isinstance(metadata, dict):
        return Unknown("answer_to_another_call")
    status = intent.get("status")
    if call.operation_id not in metadata:
        return NotExecuted("not_found") if status == "requires_capture" else Unknown(f"payment_intent_{status}")
    if status == "processing":
        return Pending(str(intent["id"]))
    if status not in {"succeeded", "requires_capture"}:
        return Unknown(f"payment_intent_{status}")
    if one_of_several(call.operation_id, metadata) is not None:
        return _done("captured", intent, None, amount_minor=call.amount)
    return _done("captured", intent, intent.get("amount_received"))


def one_of_several(operation_id: str, metadata: Mapping[str, object]) -> int | None:
    """What a capture took of a payment with several, in minor units; None of the only one.

    Their sum says nothing of one of them, and Stripe took exactly what each left in the metadata.
    """
    taken = str(metadata.get(operation_id))
    is_one = sum(name.startswith("op_") for name in metadata) > 1 and taken.isdecimal()
    return int(taken) if is_one else None


def answer_to_increment(call: Call, intent: Object) -> Answer:
    """What the parent says of an increment: its trace, with the total from before, was left in the same request."""
    metadata, total = intent.get("metadata"), intent.get("amount")
    if intent.get("id") != call.parent_ref or not isinstance(metadata, dict) or type(total) is not int:
        return Unknown("answer_to_another_call")
    status, before = intent.get("status"), str(metadata.get(increment_name(call)))
    if increment_name(call) not in metadata:
        return NotExecuted("not_found") if status == "requires_capture" else Unknown(f"payment_intent_{status}")
    if status != "requires_capture" or not before.isdecimal():
        return Unknown(f"payment_intent_{status}")
    return _done("authorized", intent, total - int(before))


def answer_to_evidence(call: Call, dispute: Object) -> Answer:
    """What a dispute says of a submission: ours left its operation in the metadata, in the same request."""
    if dispute.get("id") != dispute_of(call):
        return Unknown("answer_to_another_call")
    details, status = dispute.get("evidence_details"), str(dispute.get("status"))
    submissions = details.get("submission_count") if isinstance(details, dict) else None
    if not _is_of(call, dispute):
        return NotExecuted("not_found") if status.endswith("needs_response") else Unknown(f"dispute_{status}")
    if type(submissions) is not int or submissions < 1:
        return Unknown("not_submitted")
    return _done("submitted", dispute, dispute.get("amount"))


def answer_to_void(call: Call, intent: Object) -> Answer:
    """What the parent says of a void."""
    if intent.get("id") != call.parent_ref:
        return Unknown("answer_to_another_call")
    status = intent.get("status")
    if status == "canceled":
        amount, received = intent.get("amount"), intent.get("amount_received")
        is_known = type(amount) is int and type(received) is int
        return _done("voided", intent, amount - received if is_known else None)  # type: ignore[operator] # ints
    return NotExecuted("not_found") if status == "requires_capture" else Unknown(f"payment_intent_{status}")


def answer_to_refund(call: Call, refund: Object) -> Answer:
    """What a refund says of itself."""
    if not _is_of(call, refund):
        return Unknown("answer_to_another_call")
    status, ref = str(refund.get("status")), str(refund["id"])
    if status == "pending":
        return Pending(ref, pending_reason(refund.get("pending_reason")))
    if status == "requires_action":
        return RequiresAction(ref, None)
    if status == "succeeded":
        return _done("refunded", refund, refund.get("amount"))
    if status in _REFUNDED:
        # Stripe takes the money when a refund is made: what reverses that is a balance transaction of its own.
        was_taken = refund.get("failure_balance_transaction") is not None
        code = _clean(refund.get("failure_reason")) or status
        return Definitive(status="failed_later" if was_taken else "failed", provider_ref=ref, amount=None,
                          currency=None, error_code=code)  # fmt: skip
    return Unknown(f"refund_{status}")


def pending_reason(said: object) -> RefundPendingReason | None:
    """Why a refund is pending, in Stripe's words; a word that is new to us says nothing."""
    return _PENDING_REASONS.get(said) if isinstance(said, str) else None


def answer_to_search(call: Call, found: Sequence[Object]) -> Answer:
    """What a search for the operation says. It lags: nothing found proves nothing, but a send is safe by its key."""
    ours = [intent for intent in found if _is_of(call, intent)]
    if len(ours) != len(found) or len(ours) > 1:
        return Unknown("search_found_others")
    return answer_to_charge(call, ours[0]) if ours else NotExecuted("not_found")


def answer_to_error(error: stripe.StripeError) -> Answer:
    """What an error says for certain; in doubt the operation may have been executed."""
    status, code = error.http_status, error.code
    if isinstance(error, stripe.CardError):
        found = error.json_body.get("error") if isinstance(error.json_body, dict) else None
        problem = found if isinstance(found, dict) else {}
        return _refused("declined", _ref_of(problem.get("payment_intent")), problem)
    if isinstance(error, stripe.RateLimitError | stripe.AuthenticationError | stripe.PermissionError):
        return NotExecuted(f"http_{status}")
    if isinstance(error, stripe.InvalidRequestError) and code not in _OF_STATE:
        return Definitive(status="failed", provider_ref=None, amount=None, currency=None,
                          error_code=_clean(code) or "invalid_request")  # fmt: skip
    if isinstance(error, stripe.InvalidRequestError | stripe.IdempotencyError):
        return Unknown(_clean(code) or "idempotency_error")
    return Unknown(f"http_{status}", is_outage=(status or 0) >= HTTPStatus.INTERNAL_SERVER_ERROR)


def _is_of(call: Call, found: Object) -> bool:
    metadata = found.get("metadata")
    named = metadata if isinstance(metadata, dict) else {}
    is_named = named.get("operation_id") == call.operation_id and named.get("reference") == call.intent_id
    return is_named and not clean_text(found.get("id"), limits.TEXT_LENGTH_MAX)


def _done(
    status: DefinitiveStatus,
    found: Object,
    amount: object,
    amount_minor: int | None = None,
    error_code: str | None = None,
) -> Answer:
    """Success, with the amount and currency that Stripe names; the owner compares them with what was asked."""
    currency = str(found.get("currency")).upper()
    if amount_minor is None:
        try:
            amount_minor = from_processor(ADAPTER, amount, currency) if type(amount) is int else None
        except (ValueError, KeyError):
            amount_minor = None
    if amount_minor is None or not 0 <= amount_minor <= limits.AMOUNT_MINOR_MAX:
        return Unknown("unparseable")
    return Definitive(
        status=status, provider_ref=str(found["id"]), amount=amount_minor, currency=currency, error_code=error_code
    )


def _refused(status: DefinitiveStatus, ref: str | None, problem: Mapping[str, Any]) -> Definitive:
    code = _clean(problem.get("decline_code")) or _clean(problem.get("code")) or status
    return Definitive(status=status, provider_ref=ref, amount=None, currency=None, error_code=code)


def redirect_of(intent: Object) -> str | None:
    """Where the payer has to go, whatever the kind of the next action: the first address that it tells."""
    action = intent.get("next_action")
    kinds = [told for told in action.values() if isinstance(told, dict)] if isinstance(action, dict) else []
    urls = (told.get(name) for told in kinds for name in _ADDRESSES)
    return next((u for u in urls if isinstance(u, str) and u.startswith("https://") and not web_address(u)), None)


def action_of(intent: Object) -> str | None:
    """What the payer has to do, of a kind that is no plain redirect, with what Stripe says of it.

    Most kinds are carried out by Stripe's script in the payer's browser, which asks for the client secret.
    """
    action = intent.get("next_action")
    kind = action.get("type") if isinstance(action, dict) else None
    if not isinstance(action, dict) or not isinstance(kind, str) or clean_text(kind, limits.TEXT_LENGTH_MAX):
        return None
    url, said = redirect_of(intent), action.get(kind)
    if kind == payer_action.REDIRECT and url is not None:
        return None
    details = said if isinstance(said, dict) else {}
    if isinstance(secret := intent.get("client_secret"), str):
        details = details | {"client_secret": secret}
    return payer_action.kept(kind, url, details)


def _ref_of(intent: object) -> str | None:
    return _clean(intent.get("id")) if isinstance(intent, dict) else None


def _clean(text: object) -> str | None:
    return None if clean_text(text, limits.TEXT_LENGTH_MAX) else str(text)
