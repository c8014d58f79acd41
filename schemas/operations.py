"""The table of operations: what a client calls, what travels as a command, who may ask.

A client's ``operation`` is ``METHOD path`` with the real id in place of ``{id}``; inside, it is its short name.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from schemas import limit_policy, topics, validation


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One mutating call. ``creates`` is the id prefix of what it makes, None when it works on an existing aggregate.

    The aggregate is what it creates, or the ``{id}`` of its path. A part of a payment is named otherwise: by the
    payment that ``payment_field`` of the payload names, or by its own id, which travels in ``part_field``.
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
        scope="payments:write",
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
        _fact(
            "record_attempt_outcome",
            "/processor_attempts/{id}/outcome",
            "RecordAttemptOutcome",
            validation.ATTEMPT_OUTCOME,
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
            payload=validation.PUBLISH_POLICY,
            own_field="policy_id",
            together=limit_policy.wrong_terms,
        ),
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
