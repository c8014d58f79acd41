"""The table of operations: what a client calls, what travels as a command, who may ask.

A client's ``operation`` is ``METHOD path`` with the real id in place of ``{id}``; inside, it is its short name.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal

from schemas import topics, validation
from schemas.limiter import limit_policy, limit_policy_fields, quota_fields

#: the scope of what merchants do with their payments and money: what maintenance switches off
WRITE: Final = "payments:write"
#: whose account: of the caller, of the merchant in the path, of the payout in the path
AccountBy = Literal["caller", "merchant", "payout"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One mutating call. ``creates`` is the id prefix of what it makes, None when it works on an existing aggregate.

    The aggregate is what it creates, or the ``{id}`` of its path. A part of a payment is named otherwise: by the
    payment that ``payment_field`` of the payload names, or by its own id, which travels in ``part_field``. What works
    on a merchant's account says in ``account`` by what that is found.
    """

    name: str
    method: str
    path: str
    record: str  # the Avro record of the command
    topic: str
    scope: str | None  # the token scope it needs; None = not callable from outside (facts of our own workers)
    creates: str | None
    payload: validation.Fields
    payment_field: str | None = None
    part_field: str | None = None
    own_field: str | None = None  # names the aggregate when it exists already; absent, one is made
    together: Callable[[dict[str, Any]], list[dict[str, str]]] | None = None  # what fields must fulfil with each other
    account: AccountBy | None = None
    audited: bool = False  # its route writes the audit log: it has no other door

    @property
    def template(self) -> str:
        """``METHOD path`` as documented, the first part of the request hash."""
        return f"{self.method} {self.path}"

    def normalize(self, payload: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, str]]]:
        """``validation.normalize`` by this operation's fields, and by what they must fulfil together."""
        result, wrong = validation.normalize(self.payload, payload)
        return result, wrong or (self.together(result) if self.together else [])


def _payment(
    name: str,
    path: str,
    record: str,
    payload: validation.Fields,
    creates: str | None = None,
    *,
    payment_field: str | None = None,
    part_field: str | None = None,
) -> Operation:
    return Operation(
        payment_field=payment_field,
        part_field=part_field,
        name=name,
        method="POST",
        path=path,
        record=record,
        topic=topics.COMMANDS_PAYMENTS,
        scope=WRITE,
        creates=creates,
        payload=payload,
    )


def _fact(name: str, path: str, record: str, payload: validation.Fields) -> Operation:
    """What our own processes found out; no client may call it."""
    return Operation(
        name=name,
        method="FACT",
        path=path,
        record=record,
        topic=topics.COMMANDS_PAYMENTS,
        scope=None,
        creates=None,
        payload=payload,
    )


def _quota(name: str, record: str, payload: validation.Fields) -> Operation:
    """On the durable quotas of a tenant: what a gateway of the rate limiter decides with; no client may call it."""
    return Operation(
        name=name,
        method="CHECK",
        path=f"/quotas/{{id}}/{name}",
        record=record,
        topic=topics.COMMANDS_LIMITER,
        scope=None,
        creates=None,
        payload=payload,
    )


def _account(
    name: str,
    path: str,
    record: str,
    payload: validation.Fields,
    account: AccountBy,
    *,
    method: str = "POST",
    scope: str | None = None,
) -> Operation:
    """On a merchant's account. Without a scope, it is an operator's, whose routes audit it, or a fact."""
    return Operation(
        name=name,
        method=method,
        path=path,
        record=record,
        topic=topics.COMMANDS_PAYMENTS,
        scope=scope,
        creates="pt" if account == "caller" else None,
        payload=payload,
        part_field={"caller": None, "merchant": "merchant_id", "payout": "payout"}[account],
        account=account,
    )


OPERATIONS: Final[dict[str, Operation]] = {
    o.name: o
    for o in (
        _payment(
            "create_payment_intent",
            "/v1/payment_intents",
            "CreatePaymentIntent",
            validation.CREATE_INTENT,
            "pi",
        ),
        _payment("update_payment_intent", "/v1/payment_intents/{id}", "UpdatePaymentIntent", validation.UPDATE_INTENT),
        _payment(
            "confirm_payment_intent",
            "/v1/payment_intents/{id}/confirm",
            "ConfirmPaymentIntent",
            validation.CONFIRM,
        ),
        _payment(
            "capture_payment_intent",
            "/v1/payment_intents/{id}/capture",
            "CapturePaymentIntent",
            validation.CAPTURE,
        ),
        _payment(
            "cancel_payment_intent",
            "/v1/payment_intents/{id}/cancel",
            "CancelPaymentIntent",
            validation.CANCEL,
        ),
        _payment(
            "increment_authorization",
            "/v1/payment_intents/{id}/increment_authorization",
            "IncrementAuthorization",
            validation.INCREMENT_AUTHORIZATION,
        ),
        _payment(
            "create_refund",
            "/v1/refunds",
            "CreateRefund",
            validation.CREATE_REFUND,
            "re",
            payment_field="payment_intent",
        ),
        _payment(
            "cancel_refund", "/v1/refunds/{id}/cancel", "CancelRefund", validation.CANCEL_REFUND, part_field="refund"
        ),
        _payment(
            "submit_dispute_evidence",
            "/v1/disputes/{id}/evidence",
            "SubmitDisputeEvidence",
            validation.DISPUTE_EVIDENCE,
            part_field="dispute",
        ),
        _fact(
            "record_attempt_outcome",
            "/processor_attempts/{id}/outcome",
            "RecordAttemptOutcome",
            validation.ATTEMPT_OUTCOME,
        ),
        _fact(
            "expire_authorization",
            "/payment_intents/{id}/expire_authorization",
            "ExpireAuthorization",
            validation.EXPIRE_AUTHORIZATION,
        ),
        _fact("record_dispute", "/payment_intents/{id}/dispute", "RecordDispute", validation.DISPUTE),
        _fact(
            "record_settlement_line",
            "/payment_intents/{id}/settlement_line",
            "RecordSettlementLine",
            validation.SETTLEMENT_LINE,
        ),
        _fact("post_journal", "/journal/{id}", "PostJournal", validation.JOURNAL),
        Operation(
            name="publish_policy",
            method="POST",
            path="/v1/policies",
            record="PublishPolicy",
            topic=topics.COMMANDS_LIMITER,
            scope="limits:write",
            creates="pl",
            payload=limit_policy_fields.PUBLISH_POLICY,
            own_field="policy_id",
            together=limit_policy.wrong_terms,
            audited=True,
        ),
        _quota("consume_quota", "ConsumeQuota", quota_fields.CONSUME_QUOTA),
        _quota("refund_quota", "RefundQuota", quota_fields.REFUND_QUOTA),
        Operation(
            name="review_payment_intent",
            method="POST",
            path="/v1/payment_intents/{id}/review",
            record="ReviewPaymentIntent",
            topic=topics.COMMANDS_PAYMENTS,
            scope=None,  # an operator's: its route audits it
            creates=None,
            payload=validation.REVIEW,
        ),
        _account(
            "create_payout",
            "/v1/payouts",
            "CreatePayout",
            validation.CREATE_PAYOUT,
            "caller",
            scope=WRITE,
        ),
        _account(
            "cancel_payout",
            "/v1/payouts/{id}/cancel",
            "CancelPayout",
            validation.CANCEL_PAYOUT,
            "payout",
            scope=WRITE,
        ),
        _account(
            "record_payout_outcome",
            "/payouts/{id}/outcome",
            "RecordPayoutOutcome",
            validation.PAYOUT_OUTCOME,
            "payout",
            method="FACT",
        ),
        _account("hold_reserve", "/v1/accounts/{id}/hold_reserve", "HoldReserve", validation.RESERVE, "merchant"),
        _account(
            "release_reserve", "/v1/accounts/{id}/release_reserve", "ReleaseReserve", validation.RESERVE, "merchant"
        ),
        _account(
            "convert_currency",
            "/v1/accounts/{id}/convert_currency",
            "ConvertCurrency",
            validation.CONVERSION,
            "merchant",
        ),
        _account("freeze_account", "/v1/accounts/{id}/freeze", "FreezeAccount", validation.FREEZE, "merchant"),
        _account("unfreeze_account", "/v1/accounts/{id}/unfreeze", "UnfreezeAccount", validation.FREEZE, "merchant"),
    )
}
BY_RECORD: Final = {o.record: o for o in OPERATIONS.values()}

_PATTERNS: Final = tuple(
    (re.compile(re.escape(o.template).replace(r"\{id\}", "(?P<id>[A-Za-z0-9_]{1,64})") + r"\Z"), o)
    for o in OPERATIONS.values()
    if o.scope
)


def find(text: str) -> tuple[Operation, str | None] | None:
    """The operation that ``METHOD path`` names and the id in it; None when no client operation is so named."""
    for pattern, operation in _PATTERNS:
        if match := pattern.match(text):
            return operation, match.groupdict().get("id")
    return None
