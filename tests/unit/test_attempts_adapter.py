"""The simulator adapter believes nothing but an exact answer to its own call."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dataflows.payments.attempts.adapter import Call, Definitive, NotExecuted, Unknown
from dataflows.payments.attempts.http_connection import HttpAnswer
from dataflows.payments.attempts.simulator_adapter import answer_to_query, answer_to_send
from schemas import limits

CALL = Call(
    operation_id="op_a_1",
    intent_id="pi_a",
    kind="purchase",
    amount=1_099,
    currency="USD",
    payment_method="tok_sim_approve",
    parent_ref=None,
    final=True,
)


def body(**changes: Any) -> bytes:
    fields: dict[str, Any] = {
        "provider_ref": "sim_1",
        "operation_id": "op_a_1",
        "kind": "purchase",
        "status": "captured",
        "reference": "pi_a",
        "amount": 1_099,
        "currency": "USD",
        "decline_code": None,
    } | changes
    return json.dumps({name: value for name, value in fields.items() if value is not ...}).encode()


def problem(code: str) -> bytes:
    return json.dumps({"type": "about:blank", "status": 400, "code": code}).encode()


@pytest.mark.parametrize("read", [answer_to_send, answer_to_query])
def test_an_exact_answer_is_definitive(read: Any) -> None:
    """Field by field what the processor said."""
    assert read(CALL, HttpAnswer(200, body())) == Definitive(
        status="captured", provider_ref="sim_1", amount=1_099, currency="USD", error_code=None
    )


@pytest.mark.parametrize("read", [answer_to_send, answer_to_query])
def test_the_echo_is_passed_on_and_not_judged(read: Any) -> None:
    """Rule: the owner decides what a wrong amount means; an adapter that hid it would hide money."""
    answer = read(CALL, HttpAnswer(200, body(amount=1_100, currency="EUR")))
    assert (answer.amount, answer.currency, answer.status) == (1_100, "EUR", "captured")


def test_a_decline_carries_its_code() -> None:
    """Definitive, with a code even when the processor gives none."""
    declined = answer_to_send(CALL, HttpAnswer(200, body(status="declined", decline_code="stolen_card")))
    assert isinstance(declined, Definitive)
    assert declined.error_code == "stolen_card"
    silent = answer_to_send(CALL, HttpAnswer(200, body(status="declined")))
    assert isinstance(silent, Definitive)
    assert silent.error_code == "declined"


BAD_BODIES = {
    "empty": b"",
    "not json": b"<html>",
    "half": body()[:40],
    "noise behind": body() + b"\x00<html>",
    "invalid utf-8": body().replace(b"sim_1", b"\xff\xfe"),
    "a list": b"[]",
    "null": b"null",
    "deep": b"[" * 100_000,
    "no provider_ref": body(provider_ref=...),
    "no decline_code": body(decline_code=...),
    "amount a float": body(amount=1_099.0),
    "amount a text": body(amount="1099"),
    "amount a bool": body(amount=True),
    "amount null": body(amount=None),
    "amount negative": body(amount=-1),
    "amount beyond 2^53": body(amount=limits.AMOUNT_MINOR_MAX + 1),
    "amount beyond 2^64": body(amount=2**70),
    "status unknown": body(status="settled"),
    "status empty": body(status=""),
    "status of another kind": body(status="authorized"),
    "status voided": body(status="voided"),
    "another operation": body(operation_id="op_a_2"),
    "another intent": body(reference="pi_b"),
    "another kind": body(kind="capture"),
    "a kind we do not know": body(kind="refund"),
    "provider_ref empty": body(provider_ref=""),
    "provider_ref too long": body(provider_ref="x" * (limits.TEXT_LENGTH_MAX + 1)),
    "provider_ref with a NUL": body(provider_ref="sim\x00"),
    "currency empty": body(currency=""),
    "currency a number": body(currency=840),
    "decline_code a number": body(status="declined", decline_code=5),
}


@pytest.mark.parametrize("read", [answer_to_send, answer_to_query])
@pytest.mark.parametrize("name", BAD_BODIES)
def test_a_bad_answer_is_unknown(read: Any, name: str) -> None:
    """In doubt the answer is Unknown: never a success, and never a licence to try something else."""
    answer = read(CALL, HttpAnswer(200, BAD_BODIES[name]))
    assert isinstance(answer, Unknown)
    assert not answer.is_outage  # it does answer: the breaker must not open on one odd operation


@pytest.mark.parametrize("status", [500, 502, 503, 504, 599])
def test_an_error_of_the_processor_is_unknown_and_an_outage(status: int) -> None:
    """It may have booked before it failed, whatever its body says."""
    for content in (b"", body(), problem("not_found"), problem("invalid_operation")):
        assert answer_to_send(CALL, HttpAnswer(status, content)) == Unknown(f"http_{status}", is_outage=True)
        assert answer_to_query(CALL, HttpAnswer(status, content)) == Unknown(f"http_{status}", is_outage=True)


@pytest.mark.parametrize("status", [201, 202, 204, 301, 302, 404, 408, 409, 418])
def test_a_status_out_of_protocol_is_unknown(status: int) -> None:
    """A proxy's page or a redirect proves nothing about the operation."""
    assert isinstance(answer_to_send(CALL, HttpAnswer(status, body())), Unknown)
    assert isinstance(answer_to_query(CALL, HttpAnswer(status, body())), Unknown)


def test_not_executed_needs_the_processors_own_words() -> None:
    """A 404 with another body is a wrong address, not a missing operation; after a send it proves nothing."""
    assert answer_to_query(CALL, HttpAnswer(404, problem("not_found"))) == NotExecuted("not_found")
    assert isinstance(answer_to_query(CALL, HttpAnswer(404, b"<h1>404</h1>")), Unknown)
    assert isinstance(answer_to_send(CALL, HttpAnswer(404, problem("not_found"))), Unknown)


@pytest.mark.parametrize("status", [401, 403, 429])
def test_a_refusal_of_the_caller_may_be_sent_again(status: int) -> None:
    """Throttled or unauthenticated: not executed, and nothing against the operation."""
    assert answer_to_send(CALL, HttpAnswer(status, b"")) == NotExecuted(f"http_{status}")


def test_a_refusal_of_the_request_is_final_only_in_known_words() -> None:
    """Invalid for good: failed. The same status from somebody else: unknown. A reused key: unknown, query it."""
    refused = answer_to_send(CALL, HttpAnswer(422, problem("invalid_operation")))
    assert isinstance(refused, Definitive)
    assert (refused.status, refused.error_code) == ("failed", "invalid_operation")
    assert isinstance(answer_to_send(CALL, HttpAnswer(400, b"<html>")), Unknown)
    assert isinstance(answer_to_send(CALL, HttpAnswer(409, problem("key_reused"))), Unknown)
