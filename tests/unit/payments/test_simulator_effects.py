"""The rules of holds: what captures and voids may do to an authorization."""

from __future__ import annotations

from typing import Any

import pytest

from compose.simulator.operations.effects import Effect, decide_effect
from compose.simulator.operations.modes import APPROVE, MODES
from compose.simulator.operations.nouns import Capture, Hold, OperationBody
from tests.each import each

WRONG_AMOUNT = MODES["tok_sim_wrong_amount"]


def body(kind: str, amount: int, **changes: Any) -> OperationBody:
    fields = {"reference": "pi_1", "currency": "USD", "parent": "sim_1"} | changes
    return OperationBody(kind=kind, amount=amount, **fields)  # type: ignore[arg-type] # kinds are given as text


def hold(amount: int = 1_000, captured: int = 0, released: int = 0) -> Hold:
    return Hold(
        provider_ref="sim_1",
        token="tok_sim_approve",
        reference="pi_1",
        currency="USD",
        amount=amount,
        captured=captured,
        released=released,
    )


@pytest.mark.parametrize(
    ("request_body", "before", "expected"),
    [
        (body("capture", 1_000), hold(), Effect(status="captured", amount=1_000, captured=1_000)),
        (body("capture", 400), hold(), Effect(status="captured", amount=400, captured=400, released=600)),
        (body("capture", 400, final=False), hold(), Effect(status="captured", amount=400, captured=400)),
        (
            body("capture", 100),
            hold(captured=400),
            Effect(status="captured", amount=100, captured=100, released=500),
        ),
        (body("capture", 600), hold(captured=400), Effect(status="captured", amount=600, captured=600)),
        (body("void", 600), hold(captured=400), Effect(status="voided", amount=600, released=600)),
        # What is released is what was left, not what the caller believed.
        (body("void", 0), hold(captured=1), Effect(status="voided", amount=999, released=999)),
    ],
)
def test_a_hold_is_used_up_exactly(request_body: OperationBody, before: Hold, expected: Effect) -> None:
    assert decide_effect(request_body, APPROVE, before, None) == expected


@each(
    ("request_body", "before", "code"),
    [
        (body("capture", 1), None, "unknown_authorization"),
        (body("void", 1), None, "unknown_authorization"),
        (body("capture", 1_001), hold(), "amount_exceeds_remainder"),
        (body("capture", 601), hold(captured=400), "amount_exceeds_remainder"),
        (body("capture", 1), hold(captured=1_000), "authorization_closed"),
        (body("capture", 1), hold(released=1_000), "authorization_closed"),
        (body("void", 1), hold(captured=400, released=600), "authorization_closed"),
        (body("capture", 1, currency="EUR"), hold(), "currency_mismatch"),
        (body("void", 1, reference="pi_2"), hold(), "reference_mismatch"),
    ],
)
def test_what_cannot_be_executed_fails_and_moves_nothing(
    request_body: OperationBody, before: Hold | None, code: str
) -> None:
    effect = decide_effect(request_body, APPROVE, before, None)
    assert effect == Effect(status="failed", amount=request_body.amount, decline_code=code)


def test_wrong_amount_books_what_it_says_and_still_keeps_to_the_hold() -> None:
    """The surplus is a real effect: a capture with it may not pass the hold either."""
    assert decide_effect(body("purchase", 10, parent=None), WRONG_AMOUNT, None, None).amount == 11
    assert decide_effect(body("capture", 999), WRONG_AMOUNT, hold(), None).captured == 1_000
    assert decide_effect(body("capture", 1_000), WRONG_AMOUNT, hold(), None).status == "failed"


def capture(amount: int = 1_000, refunded: int = 0, disputed: int = 0) -> Capture:
    return Capture(
        provider_ref="sim_1",
        operation_id="op_1",
        token="tok_sim_approve",
        reference="pi_1",
        currency="USD",
        amount=amount,
        refunded=refunded,
        disputed=disputed,
    )


@each(
    ("request_body", "before", "status", "code"),
    [
        (body("refund", 1_000), capture(), "refunded", None),
        (body("refund", 1), capture(refunded=999), "refunded", None),
        (body("refund", 400), capture(refunded=100, disputed=500), "refunded", None),
        (body("refund", 1_001), capture(), "declined", "amount_exceeds_refundable"),
        (body("refund", 2), capture(refunded=999), "declined", "amount_exceeds_refundable"),
        (body("refund", 1), capture(refunded=1_000), "declined", "amount_exceeds_refundable"),
        (body("refund", 401), capture(refunded=100, disputed=500), "declined", "charge_disputed"),
        (body("refund", 1), None, "failed", "unknown_capture"),
        (body("refund", 1, currency="EUR"), capture(), "failed", "currency_mismatch"),
        (body("refund", 1, reference="pi_2"), capture(), "failed", "reference_mismatch"),
    ],
)
def test_a_refund_gives_back_no_more_than_was_taken(
    request_body: OperationBody, before: Capture | None, status: str, code: str | None
) -> None:
    """Rule: refunds and disputes together never pass the capture, so nobody is paid twice."""
    effect = decide_effect(request_body, APPROVE, None, before)
    assert (effect.status, effect.decline_code) == (status, code)
    assert (effect.amount, effect.refunded) == (request_body.amount, request_body.amount if code is None else 0)
