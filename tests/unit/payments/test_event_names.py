"""An event has one name, of those that an endpoint may ask for."""

from __future__ import annotations

from typing import Any

import pytest

from schemas.payments.event_names import EVENT_NAMES, event_name
from schemas.payments.operations import OPERATIONS
from tests.each import each

INTENT: dict[str, Any] = {"state": "succeeded", "version": 3}


@pytest.mark.parametrize(
    ("operation", "body", "name"),
    [
        ("create_payment_intent", {"state": "requires_confirmation", "version": 1}, "payment_intent.created"),
        ("confirm_payment_intent", {"state": "processing", "version": 2}, "payment_intent.processing"),
        ("record_attempt_outcome", INTENT, "payment_intent.succeeded"),
        ("update_payment_intent", INTENT, "payment_intent.updated"),
        ("record_settlement_line", INTENT, "payment_intent.updated"),
    ],
)
def test_a_payment(operation: str, body: dict[str, Any], name: str) -> None:
    assert event_name(operation, {"payment_intent": body, "refund": None}) == name


@each(
    ("operation", "part", "name"),
    [
        ("create_refund", {"refund": {"state": "pending", "version": 1}}, "refund.created"),
        ("record_attempt_outcome", {"refund": {"state": "failed", "version": 4}}, "refund.failed"),
        ("record_dispute", {"dispute": {"state": "needs_response", "version": 1}}, "dispute.created"),
        ("record_dispute", {"dispute": {"state": "won", "version": 2}}, "dispute.won"),
        ("submit_dispute_evidence", {"dispute": {"state": "needs_response", "version": 2}}, "dispute.updated"),
        ("create_payout", {"payout": {"state": "pending"}, "account": {"state": "active"}}, "payout.created"),
        ("record_payout_outcome", {"payout": {"state": "paid"}, "account": {"state": "active"}}, "payout.paid"),
        ("create_payout_destination", {"payout_destination": {"state": "enabled"}}, "payout_destination.created"),
        ("disable_payout_destination", {"payout_destination": {"state": "disabled"}}, "payout_destination.disabled"),
        ("allow_payout_destination", {"payout_destination": {"state": "enabled"}}, "payout_destination.updated"),
        ("freeze_account", {"account": {"state": "frozen"}}, "account.frozen"),
        ("hold_reserve", {"account": {"state": "active"}}, "account.updated"),
    ],
)
def test_a_part_is_named_before_the_whole(operation: str, part: dict[str, Any], name: str) -> None:
    whole = None if {"payout", "payout_destination", "account"} & part.keys() else INTENT
    assert event_name(operation, {"payment_intent": whole, **part}) == name
    assert name in EVENT_NAMES


def test_no_name_is_an_operations() -> None:
    assert not set(EVENT_NAMES) & OPERATIONS.keys()
    assert len(set(EVENT_NAMES)) == len(EVENT_NAMES)
