"""What Stripe's objects and errors mean; whatever is not exactly an answer to the call is a doubt."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
import stripe

from dataflows.payments.attempts import stripe_calls
from dataflows.payments.attempts.adapter import Answer, Definitive, NotExecuted, Pending, RequiresAction, Unknown
from dataflows.payments.attempts.stripe_answers import (
    answer_to_capture,
    answer_to_charge,
    answer_to_error,
    answer_to_evidence,
    answer_to_increment,
    answer_to_refund,
    answer_to_search,
    answer_to_void,
)
from dataflows.payments.webhooks import stripe_events, vocabulary
from dataflows.payments.webhooks.findings import AttemptOutcome, Nothing
from schemas.payments import payer_action, payloads
from tests.each import each
from tests.unit.payments.test_attempts_settlement import CALL

PURCHASE = replace(CALL, payment_method="pm_1")
AUTHORIZE = replace(PURCHASE, kind="authorize")
CAPTURE = replace(PURCHASE, kind="capture", parent_ref="pi_s")
VOID = replace(CAPTURE, kind="void")
REFUND = replace(CAPTURE, kind="refund")
INCREMENT = replace(CAPTURE, kind="increment", amount=400)
EVIDENCE = replace(CAPTURE, kind="evidence", parent_ref="dp_s", evidence={"shipping_carrier": "a", "our_note": "b"})
OURS = {"operation_id": "op_a_1", "reference": "pi_a"}


def intent(**changes: Any) -> dict[str, Any]:
    return {
        "id": "pi_s", "object": "payment_intent", "status": "succeeded", "amount": 1_099, "amount_received": 1_099,
        "amount_capturable": 0, "currency": "usd", "metadata": OURS, "last_payment_error": None, "next_action": None,
    } | changes  # fmt: skip


def done(status: str, ref: str = "pi_s", amount: int | None = 1_099, code: str | None = None) -> Definitive:
    currency = None if amount is None else "USD"
    return Definitive(status=status, provider_ref=ref, amount=amount, currency=currency, error_code=code)  # type: ignore[arg-type] # of the literals


SDK = {"type": "use_stripe_sdk",
       "use_stripe_sdk": {"type": "three_d_secure_redirect", "stripe_js": "https://hooks.example/sdk"}}  # fmt: skip
OF_SDK = payer_action.kept("use_stripe_sdk", "https://hooks.example/sdk", SDK["use_stripe_sdk"])
REDIRECT = {"type": "redirect_to_url", "redirect_to_url": {"url": "https://hooks.example/3ds"}}


@each(
    ("call", "found", "answer"),
    [
        (PURCHASE, intent(), done("captured")),
        (AUTHORIZE, intent(status="requires_capture", amount_capturable=1_099), done("authorized")),
        (PURCHASE, intent(amount_received=5), done("captured", amount=5)),  # the owner compares
        (PURCHASE, intent(status="processing"), Pending("pi_s")),
        (PURCHASE, intent(status="requires_action", next_action=SDK), RequiresAction("pi_s", "https://hooks.example/sdk", OF_SDK)),
        (PURCHASE, intent(status="requires_action", next_action=REDIRECT), RequiresAction("pi_s", "https://hooks.example/3ds")),
        (PURCHASE, intent(status="requires_action"), RequiresAction("pi_s", None)),
        (PURCHASE, intent(status="requires_payment_method", last_payment_error={"code": "card_declined", "decline_code": "lost"}), done("declined", amount=None, code="lost")),
        (PURCHASE, intent(status="canceled"), done("failed", amount=None, code="canceled")),
        (
            AUTHORIZE,
            intent(status="canceled", cancellation_reason="automatic", amount_received=0),
            done("voided", code="expired"),
        ),
        # in doubt
        (PURCHASE, intent(status="requires_payment_method"), Unknown("payment_intent_requires_payment_method")),
        (PURCHASE, intent(status="requires_capture"), Unknown("payment_intent_requires_capture")),
        (AUTHORIZE, intent(), Unknown("payment_intent_succeeded")),
        (PURCHASE, intent(status="of_tomorrow"), Unknown("payment_intent_of_tomorrow")),
        (PURCHASE, intent(metadata={"operation_id": "op_b_1", "reference": "pi_a"}), Unknown("answer_to_another_call")),
        (PURCHASE, intent(metadata={"operation_id": "op_a_1"}), Unknown("answer_to_another_call")),
        (PURCHASE, intent(metadata=None), Unknown("answer_to_another_call")),
        (PURCHASE, intent(amount_received="1099"), Unknown("unparseable")),
        (PURCHASE, intent(amount_received=True), Unknown("unparseable")),
        (PURCHASE, intent(currency="zzz"), Unknown("unparseable")),
        (PURCHASE, intent(currency="isk", amount_received=1_050), Unknown("unparseable")),
    ],
)  # fmt: skip
def test_a_payment_intent_says_what_it_says(call: Any, found: dict[str, Any], answer: Answer) -> None:
    assert answer_to_charge(call, found) == answer


BY_SCRIPT = {"type": "use_stripe_sdk", "use_stripe_sdk": {"source": "src_1"}}
QR_CODE = {"type": "wechat_pay_display_qr_code", "wechat_pay_display_qr_code": {"data": "weixin://pay/1"}}


@each(
    ("action", "told"),
    [
        (REDIRECT, {"type": "redirect_to_url", "url": "https://hooks.example/3ds"}),
        (SDK, {"type": "use_stripe_sdk", "url": "https://hooks.example/sdk",
               "details": SDK["use_stripe_sdk"] | {"client_secret": "pi_s_secret"}}),
        (BY_SCRIPT, {"type": "use_stripe_sdk", "url": None, "details": {"source": "src_1", "client_secret": "pi_s_secret"}}),
        (QR_CODE, {"type": "wechat_pay_display_qr_code", "url": None,
                   "details": {"data": "weixin://pay/1", "client_secret": "pi_s_secret"}}),
        ({"type": "of_tomorrow", "of_tomorrow": {"a": "x" * 5_000}}, {"type": "of_tomorrow", "url": None, "details": {}}),
        ({"type": "redirect_to_url", "redirect_to_url": {"url": "javascript:1"}},
         {"type": "redirect_to_url", "url": None, "details": {"url": "javascript:1", "client_secret": "pi_s_secret"}}),
        ({"type": 7}, None),
        (None, None),
    ],
)  # fmt: skip
def test_what_the_payer_has_to_do_is_handed_on_whatever_its_kind(action: object, told: object) -> None:
    waiting = intent(status="requires_action", next_action=action, client_secret="pi_s_secret")
    answer = answer_to_charge(PURCHASE, waiting)
    assert isinstance(answer, RequiresAction)
    kept = answer.action or answer.redirect_url
    assert (kept and payer_action.shown(kept)) == told
    if answer.action is not None:
        field = payloads.ATTEMPT_OUTCOME["next_action"]
        assert field.type.check(answer.action) is None


CAPTURED = OURS | {"op_a_1": "1099"}


@each(
    ("found", "answer"),
    [
        (intent(metadata=CAPTURED), done("captured")),
        (intent(metadata=CAPTURED, amount_received=7), done("captured", amount=7)),
        # the second of two captures: the intent's sum is of both
        (intent(metadata=CAPTURED | {"op_a_0": "1"}, amount_received=1_100), done("captured")),
        (intent(metadata=CAPTURED, status="requires_capture"), done("captured")),
        (intent(metadata=CAPTURED, status="processing"), Pending("pi_s")),
        (intent(metadata={}, status="requires_capture"), NotExecuted("not_found")),
        (intent(metadata={}), Unknown("payment_intent_succeeded")),  # captured, but by whom?
        (intent(metadata={}, status="canceled"), Unknown("payment_intent_canceled")),
        (intent(metadata=CAPTURED, status="canceled"), Unknown("payment_intent_canceled")),
        (intent(metadata=CAPTURED, id="pi_other"), Unknown("answer_to_another_call")),
    ],
)
def test_a_capture_is_known_by_the_operation_it_left(found: dict[str, Any], answer: Answer) -> None:
    assert answer_to_capture(CAPTURE, found) == answer


@pytest.mark.parametrize(
    ("found", "answer"),
    [
        (intent(status="canceled", amount_received=0), done("voided")),
        (intent(status="canceled", amount_received=99), done("voided", amount=1_000)),
        (intent(status="requires_capture"), NotExecuted("not_found")),
        (intent(status="succeeded"), Unknown("payment_intent_succeeded")),
        (intent(status="canceled", id="pi_other"), Unknown("answer_to_another_call")),
        (intent(status="canceled", amount=None), Unknown("unparseable")),
    ],
)
def test_a_void_is_a_canceled_intent(found: dict[str, Any], answer: Answer) -> None:
    assert answer_to_void(VOID, found) == answer


GREW = {"operation_id": "op_a_0", "more_op_a_1": "1099"}


@each(
    ("found", "answer"),
    [
        (intent(metadata=GREW, status="requires_capture", amount=1_499), done("authorized", amount=400)),
        (intent(metadata=GREW, status="requires_capture", amount=1_500), done("authorized", amount=401)),  # compared
        (intent(metadata={}, status="requires_capture"), NotExecuted("not_found")),
        (intent(metadata={"more_op_a_0": "9"}, status="requires_capture"), NotExecuted("not_found")),
        (intent(metadata={}, status="canceled"), Unknown("payment_intent_canceled")),
        (intent(metadata=GREW, status="canceled"), Unknown("payment_intent_canceled")),
        (intent(metadata=GREW, status="requires_capture", amount=1_000), Unknown("unparseable")),
        (intent(metadata={"more_op_a_1": "x"}, status="requires_capture"), Unknown("payment_intent_requires_capture")),
        (intent(metadata=GREW, status="requires_capture", id="pi_other"), Unknown("answer_to_another_call")),
        (intent(metadata=GREW, status="requires_capture", amount=None), Unknown("answer_to_another_call")),
    ],
)
def test_an_increment_is_known_by_the_total_it_left(found: dict[str, Any], answer: Answer) -> None:
    assert answer_to_increment(INCREMENT, found) == answer


def test_a_hold_that_grew_is_no_news_of_the_authorization() -> None:
    grew = intent(metadata=GREW, status="requires_capture", amount_capturable=1_499)
    (told, other) = (
        stripe_events.read("payment_intent.amount_capturable_updated", {"data": {"object": found}})
        for found in (grew, grew | {"metadata": OURS})
    )
    assert isinstance(told, Nothing)
    assert isinstance(other, AttemptOutcome)


def disputed(**changes: Any) -> dict[str, Any]:
    details = {"submission_count": 1, "has_evidence": True}
    found = {"id": "dp_s", "status": "under_review", "amount": 1_099, "currency": "usd", "evidence_details": details}
    return found | {"metadata": OURS} | changes


@pytest.mark.parametrize(
    ("found", "answer"),
    [
        (disputed(), done("submitted", "dp_s")),
        (disputed(evidence_details={"submission_count": 0}), Unknown("not_submitted")),
        (disputed(evidence_details=None), Unknown("not_submitted")),
        (disputed(metadata={}, status="needs_response"), NotExecuted("not_found")),
        (disputed(metadata={}, status="warning_needs_response"), NotExecuted("not_found")),
        (disputed(metadata={}), Unknown("dispute_under_review")),  # somebody else's evidence
        (disputed(id="dp_other"), Unknown("answer_to_another_call")),
    ],
)
def test_evidence_is_known_by_the_operation_and_its_submission(found: dict[str, Any], answer: Answer) -> None:
    assert answer_to_evidence(EVIDENCE, found) == answer
    taken_again = replace(EVIDENCE, parent_ref=f"{EVIDENCE.parent_ref}{stripe_calls.AGAIN}2")
    assert answer_to_evidence(taken_again, found) == answer


def test_what_stripe_has_no_text_for_is_told_in_the_free_one() -> None:
    told = stripe_calls.evidence_parameters(EVIDENCE)
    assert told["evidence"] == {"shipping_carrier": "a", "uncategorized_text": "our_note: b"}
    assert (told["submit"], told["metadata"]) == (True, OURS)
    free = replace(EVIDENCE, evidence={"uncategorized_text": "x", "receipt": "y"})  # a receipt is a file there
    assert stripe_calls.evidence_parameters(free)["evidence"] == {"uncategorized_text": "x\nreceipt: y"}


def refund(**changes: Any) -> dict[str, Any]:
    return {"id": "re_s", "status": "succeeded", "amount": 1_099, "currency": "usd", "metadata": OURS} | changes


@each(
    ("found", "answer"),
    [
        (refund(), done("refunded", "re_s")),
        (refund(status="pending"), Pending("re_s")),
        (refund(status="pending", pending_reason="charge_pending"), Pending("re_s", "charge_pending")),
        (refund(status="pending", pending_reason="of_tomorrow"), Pending("re_s")),
        (refund(status="requires_action"), RequiresAction("re_s", None)),
        (refund(status="canceled"), done("failed", "re_s", None, "canceled")),
        (
            refund(status="failed", failure_reason="lost_or_stolen_card"),
            done("failed", "re_s", None, "lost_or_stolen_card"),
        ),
        (refund(status="failed", failure_balance_transaction="txn_1"), done("failed_later", "re_s", None, "failed")),
        (refund(status="of_tomorrow"), Unknown("refund_of_tomorrow")),
        (refund(metadata={}), Unknown("answer_to_another_call")),
    ],
)
def test_a_refund_says_what_it_says(found: dict[str, Any], answer: Answer) -> None:
    assert answer_to_refund(REFUND, found) == answer


def test_a_search_that_finds_others_or_two_is_a_doubt() -> None:
    """It lags, so nothing found frees a repetition under the same key and nothing else."""
    assert answer_to_search(PURCHASE, []) == NotExecuted("not_found")
    assert answer_to_search(PURCHASE, [intent()]) == done("captured")
    assert answer_to_search(PURCHASE, [intent(), intent(id="pi_t")]) == Unknown("search_found_others")
    assert answer_to_search(PURCHASE, [intent(metadata={})]) == Unknown("search_found_others")


def error(kind: type[Any], status: int, **fields: Any) -> stripe.StripeError:
    body = {"error": fields}
    if issubclass(kind, stripe.CardError | stripe.InvalidRequestError):
        return kind("m", None, fields.get("code"), http_status=status, json_body=body)  # type: ignore[no-any-return] # of the SDK
    return kind("m", http_status=status, json_body=body)  # type: ignore[no-any-return] # of the SDK


@each(
    ("problem", "answer"),
    [
        (error(stripe.CardError, 402, code="card_declined", decline_code="insufficient_funds", payment_intent={"id": "pi_s"}), done("declined", amount=None, code="insufficient_funds")),
        (error(stripe.CardError, 402, code="expired_card"), Definitive(status="declined", provider_ref=None, amount=None, currency=None, error_code="expired_card")),
        (error(stripe.InvalidRequestError, 400, code="amount_too_small"), Definitive(status="failed", provider_ref=None, amount=None, currency=None, error_code="amount_too_small")),
        (error(stripe.InvalidRequestError, 404), Definitive(status="failed", provider_ref=None, amount=None, currency=None, error_code="invalid_request")),
        (error(stripe.RateLimitError, 429), NotExecuted("http_429")),
        (error(stripe.AuthenticationError, 401), NotExecuted("http_401")),
        (error(stripe.PermissionError, 403), NotExecuted("http_403")),
        # what an earlier send of ours may have brought about, or nobody knows
        (error(stripe.InvalidRequestError, 400, code="payment_intent_unexpected_state"), Unknown("payment_intent_unexpected_state")),
        (error(stripe.InvalidRequestError, 400, code="charge_already_captured"), Unknown("charge_already_captured")),
        (error(stripe.IdempotencyError, 400), Unknown("idempotency_error")),
        (error(stripe.APIError, 409, code="idempotency_key_in_use"), Unknown("http_409")),
        (error(stripe.APIError, 500), Unknown("http_500", is_outage=True)),
        (error(stripe.APIError, 200), Unknown("http_200")),
        (stripe.APIConnectionError("m"), Unknown("http_None")),
    ],
)  # fmt: skip
def test_only_what_was_never_begun_or_was_refused_is_certain(problem: stripe.StripeError, answer: Answer) -> None:
    """Rule: in doubt Unknown. A 5xx may be frozen under the key after it moved money."""
    assert answer_to_error(problem) == answer


def test_parameters_are_the_same_for_every_send_and_name_the_operation() -> None:
    """Stripe compares them under one key; a capture leaves its operation for later queries, also of several captures."""
    charge = stripe_calls.charge_parameters(replace(PURCHASE, currency="ISK", amount=5), "pm_1")
    assert (charge["amount"], charge["currency"], charge["metadata"]) == (500, "isk", OURS)
    assert (charge["confirm"], charge["capture_method"], charge["payment_method"]) == (True, "automatic", "pm_1")
    held = stripe_calls.charge_parameters(AUTHORIZE, "pm_1")
    assert held["capture_method"] == "manual"
    said = {"description": "Glasses", "statement_descriptor": "ORDER 7", "return_url": "https://shop.example/"}
    told = stripe_calls.charge_parameters(replace(AUTHORIZE, for_payer=said), "pm_1")
    assert {name: text for name, text in told.items() if name not in held} == {
        "description": "Glasses",
        "statement_descriptor_suffix": "ORDER 7",  # Stripe refuses a whole descriptor of a card's charge
        "return_url": "https://shop.example/",
    }
    assert held["payment_method_options"]["card"]["request_multicapture"] == "if_available", (
        "or no part can be captured"
    )
    assert stripe_calls.capture_parameters(CAPTURE)["metadata"] == OURS | {"op_a_1": "1099"}
    assert "final_capture" not in stripe_calls.capture_parameters(CAPTURE)
    assert stripe_calls.capture_parameters(replace(CAPTURE, final=False))["final_capture"] is False
    grown = stripe_calls.increment_parameters(replace(INCREMENT, currency="ISK"), 500)
    assert grown == {"amount": 40_500, "metadata": {"more_op_a_1": "500"}}
    assert stripe_calls.refund_parameters(REFUND)["payment_intent"] == "pi_s"
    assert stripe_calls.refund_parameters(replace(REFUND, parent_ref="ch_1"))["charge"] == "ch_1"


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (PURCHASE, None),
        (replace(PURCHASE, kind="increment"), "unsupported_operation"),
        (replace(REFUND, parent_ref=None), "unsupported_operation"),
        (replace(PURCHASE, currency="KWD", amount=5_124), "amount_not_representable"),
    ],
)
def test_what_can_never_be_sent_is_known_before(call: Any, reason: str | None) -> None:
    assert stripe_calls.why_not(call) == reason


def test_the_webhook_and_the_answer_tell_one_fact() -> None:
    """Two doors: the metadata that the adapter sets is what the webhook's reader finds the attempt by."""
    ids = {"operation_id": "op_" + "a" * 26 + "_1", "intent_id": "pi_" + "a" * 26}
    call = replace(PURCHASE, **ids, currency="ISK", amount=50)
    found = intent(metadata=stripe_calls.metadata(call), currency="isk", amount_received=5_000)
    told = vocabulary.read("stripe", "payment_intent.succeeded", json.dumps({"data": {"object": found}}).encode())
    answer = answer_to_charge(call, found)
    assert isinstance(told, AttemptOutcome)
    assert isinstance(answer, Definitive)
    assert (answer.amount, answer.currency) == (50, "ISK")
    assert (told.operation_id, told.provider_ref, told.amount, told.currency) == (
        call.operation_id, answer.provider_ref, answer.amount, answer.currency,
    )  # fmt: skip
