"""The operations of payments: what merchants call, what operators decide, what our own processes found out."""

from __future__ import annotations

from typing import Final

from schemas import identity, senders
from schemas.fields import validation
from schemas.operation import Named, Operation
from schemas.payments import payloads, vouched
from schemas.payments.account_operations import ACCOUNT_OPERATIONS, DESTINATIONS, PAYOUTS
from schemas.payments.value_types import MERCHANT_NAME

#: the scope of what merchants do with their payments and money: what maintenance switches off
WRITE: Final = "payments:write"
#: what merchants begin with these stops in maintenance
OF_MERCHANTS: Final = (WRITE, PAYOUTS, DESTINATIONS)
_SERVICE: Final = "payments"


def _of_payment(named: Named) -> str:
    """The payment that the payload names; what is no id is refused with all other wrong values."""
    payment = named.payload.get("payment_intent")
    return payment if isinstance(payment, str) else ""


def _of_part(named: Named) -> str:
    """The payment that the part's own id names: a refund, a dispute."""
    return identity.intent_of(named.path_id or "")


def _intent(
    name: str,
    path: str,
    record: str,
    payload: validation.Fields,
    summary: str,
    refusals: tuple[str, ...] = (),
    creates: str | None = None,
    signals: validation.Field | None = None,
) -> Operation:
    return Operation(
        name=name,
        service=_SERVICE,
        method="POST",
        path=path,
        record=record,
        payload=payload,
        summary=summary,
        result="Committed",
        scope=WRITE,
        outside=senders.MERCHANT,
        refusals=("state_conflict", "maintenance", *refusals),
        creates=creates,
        parts_longer=identity.PART_LONGER if creates else 0,
        id_name="intent_id",
        signals=signals,
    )


def _part(
    name: str, path: str, record: str, payload: validation.Fields, summary: str, result: str, part: str, *refusals: str
) -> Operation:
    """A call on a part of a payment, which its own id names."""
    return Operation(
        name=name,
        service=_SERVICE,
        method="POST",
        path=path,
        record=record,
        payload=payload,
        summary=summary,
        result=result,
        scope=WRITE,
        outside=senders.MERCHANT,
        refusals=("state_conflict", *refusals, "maintenance"),
        id_name=f"{part}_id",
        path_field=part,
        aggregate=_of_part,
    )


def _fact(name: str, path: str, record: str, payload: validation.Fields, summary: str, *tellers: str) -> Operation:
    """What our own processes (``tellers``) found out; no client may call it."""
    return Operation(
        name=name,
        service=_SERVICE,
        method="FACT",
        path=path,
        record=record,
        payload=payload,
        summary=summary,
        senders=tellers,
    )


_INTENTS: Final = "/v1/payment_intents"
_ALL: Final = (
    _intent(
        "create_payment_intent",
        _INTENTS,
        "CreatePaymentIntent",
        payloads.CREATE_INTENT,
        "Create a payment intent",
        ("account_frozen",),
        creates="pi",
    ),
    _intent(
        "update_payment_intent",
        f"{_INTENTS}/{{id}}",
        "UpdatePaymentIntent",
        payloads.UPDATE_INTENT,
        "Change what was agreed on, before anybody is asked for money",
    ),
    _intent(
        "confirm_payment_intent",
        f"{_INTENTS}/{{id}}/confirm",
        "ConfirmPaymentIntent",
        payloads.CONFIRM,
        "Confirm: authorize or capture",
        ("account_frozen", "too_many_attempts"),
        signals=payloads.SIGNALS_OF_CONFIRM,
    ),
    _intent(
        "capture_payment_intent",
        f"{_INTENTS}/{{id}}/capture",
        "CapturePaymentIntent",
        payloads.CAPTURE,
        "Capture what was authorized",
        ("amount_exceeds_capturable", "too_many_attempts"),
    ),
    _intent(
        "cancel_payment_intent",
        f"{_INTENTS}/{{id}}/cancel",
        "CancelPaymentIntent",
        payloads.CANCEL,
        "Cancel and release",
    ),
    _intent(
        "increment_authorization",
        f"{_INTENTS}/{{id}}/increment_authorization",
        "IncrementAuthorization",
        payloads.INCREMENT_AUTHORIZATION,
        "Hold more: the amount is the new total",
        ("account_frozen", "amount_not_higher", "too_many_attempts"),
    ),
    Operation(
        name="create_refund",
        service=_SERVICE,
        method="POST",
        path="/v1/refunds",
        record="CreateRefund",
        payload=payloads.CREATE_REFUND,
        summary="Refund a payment, in whole or in part",
        result="CommittedRefund",
        scope=WRITE,
        outside=senders.MERCHANT,
        refusals=(
            *("not_found", "account_frozen", "state_conflict", "amount_exceeds_refundable"),
            *("too_many_attempts", "maintenance"),
        ),
        creates="re",
        aggregate=_of_payment,
    ),
    _part(
        "cancel_refund",
        "/v1/refunds/{id}/cancel",
        "CancelRefund",
        payloads.CANCEL_REFUND,
        "Cancel a refund that has not begun",
        "CommittedRefund",
        "refund",
    ),
    _part(
        "submit_dispute_evidence",
        "/v1/disputes/{id}/evidence",
        "SubmitDisputeEvidence",
        payloads.DISPUTE_EVIDENCE,
        "Draft evidence against a dispute, or submit it",
        "CommittedDispute",
        "dispute",
        "too_many_attempts",
    ),
    Operation(
        name="record_attempt_outcome",
        service=_SERVICE,
        method="FACT",
        path="/processor_attempts/{id}/outcome",
        record="RecordAttemptOutcome",
        payload=payloads.ATTEMPT_OUTCOME,
        summary="a fact about a processor attempt, whatever door it came through",
        senders=(senders.PROCESSOR_WORKER, senders.WEBHOOK_WORKER, senders.RECONCILE, senders.REPAIRS),
        of_two_persons=vouched.is_vouched_for,
    ),
    _fact(
        "expire_authorization",
        "/payment_intents/{id}/expire_authorization",
        "ExpireAuthorization",
        payloads.EXPIRE_AUTHORIZATION,
        "a fact of our own clock: the time of a hold is over",
        senders.WEBHOOK_WORKER,
    ),
    _fact(
        "record_dispute",
        "/payment_intents/{id}/dispute",
        "RecordDispute",
        payloads.DISPUTE,
        "a fact about a dispute, whatever door it came through",
        senders.WEBHOOK_WORKER,
    ),
    _fact(
        "record_settlement_line",
        "/payment_intents/{id}/settlement_line",
        "RecordSettlementLine",
        payloads.SETTLEMENT_LINE,
        "a line of a processor's settlement report that was matched to an attempt",
        senders.RECONCILE,
    ),
    _fact(
        "post_journal",
        "/journal/{id}",
        "PostJournal",
        payloads.JOURNAL,
        "a ledger transaction that belongs to no payment: payouts, bank entries, approved repairs",
        senders.REPAIRS,
        senders.RECONCILE,
    ),
    Operation(
        name="review_payment_intent",
        service=_SERVICE,
        method="POST",
        path=f"{_INTENTS}/{{id}}/review",
        record="ReviewPaymentIntent",
        payload=payloads.REVIEW,
        summary="Approve or reject a payment that waits for it",
        result="Committed",
        refusals=("state_conflict",),
        id_name="intent_id",
        signals=payloads.SIGNALS_OF_REVIEW,
        senders=(senders.OPERATORS,),
    ),
    *ACCOUNT_OPERATIONS,
)
#: those of operators on the account of a merchant
ON_ACCOUNTS: Final = frozenset(operation.name for operation in _ALL if operation.id_form is MERCHANT_NAME)
OPERATIONS: Final[dict[str, Operation]] = {operation.name: operation for operation in _ALL}
