"""The table of operations: what a client calls finds its operation, and nothing else does."""

from __future__ import annotations

import pytest

from schemas import services
from schemas.services import OPERATIONS
from tests.each import each


@pytest.mark.parametrize(
    ("text", "name", "key"),
    [
        ("POST /v1/payment_intents", "create_payment_intent", None),
        ("POST /v1/payment_intents/pi_abc123/confirm", "confirm_payment_intent", "pi_abc123"),
        ("POST /v1/payment_intents/pi_1/capture", "capture_payment_intent", "pi_1"),
        ("POST /v1/payment_intents/pi_1/cancel", "cancel_payment_intent", "pi_1"),
    ],
)
def test_what_a_client_calls(text: str, name: str, key: str | None) -> None:
    assert services.find(text) == (OPERATIONS[name], key)


@each(
    "text",
    [
        "",
        "GET /v1/payment_intents",
        "post /v1/payment_intents",
        "POST /v1/payment_intents/",
        "POST /v1/payment_intents\n",
        " POST /v1/payment_intents",
        "POST  /v1/payment_intents",
        "POST /v1/payment_intents?x=1",
        "POST /v1/payment_intents/{id}/confirm",
        "POST /v1/payment_intents//confirm",
        "POST /v1/payment_intents/a/b/confirm",
        "POST /v1/payment_intents/pi_é/confirm",
        "POST /v1/payment_intents/" + "x" * 65 + "/confirm",
        "POST /v1/payment_intents/pi_1/confirm/",
        "POST /v1/payment_intents/pi_1/refund",
    ],
)
def test_what_is_no_operation(text: str) -> None:
    assert services.find(text) is None


def test_a_fact_cannot_be_told_by_a_client() -> None:
    """Only our own workers write facts: the operation exists, and no call reaches it."""
    template = OPERATIONS["record_attempt_outcome"].template
    assert services.find(template.replace("{id}", "pi_1")) is None
    assert services.find("POST /processor_attempts/pi_1/outcome") is None


def test_names_and_records_are_unique() -> None:
    assert len(services.BY_RECORD) == len(OPERATIONS)
    assert len({o.template for o in OPERATIONS.values()}) == len(OPERATIONS)
