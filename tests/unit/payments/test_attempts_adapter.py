"""The simulator adapter believes nothing but an exact answer to its own call."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from dataflows.payments.attempts.adapter import Call, Definitive, NotExecuted, Pending, RequiresAction, Unknown
from dataflows.payments.attempts.http_connection import HttpAnswer
from dataflows.payments.attempts.simulator_adapter import answer_to_query, answer_to_send
from dataflows.payments.attempts.vault_route import answer_of_vault, needs_vault
from schemas import limits
from tests.each import each

CALL = Call(
    operation_id="op_a_1",
    intent_id="pi_a",
    merchant_id="m_test",
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


@pytest.mark.parametrize("read", [answer_to_send, answer_to_query])
def test_a_payers_action_a_hold_and_its_end(read: Any) -> None:
    waiting = read(CALL, HttpAnswer(200, body(status="requires_action", redirect_url="https://acs.example/1")))
    assert waiting == RequiresAction("sim_1", "https://acs.example/1")
    assert isinstance(read(CALL, HttpAnswer(200, body(status="requires_action", redirect_url="data:x"))), Unknown)
    call, held = replace(CALL, kind="authorize"), {"kind": "authorize", "status": "authorized"}
    until = read(call, HttpAnswer(200, body(**held, authorized_until_ms=1_900_000_000_000)))
    assert (until.status, until.authorized_until) == ("authorized", 1_900_000_000_000_000)
    assert isinstance(read(call, HttpAnswer(200, body(**held, authorized_until_ms=-1))), Unknown)
    ended = read(call, HttpAnswer(200, body(kind="authorize", status="voided", decline_code="expired")))
    assert (ended.status, ended.error_code) == ("voided", "expired")


@pytest.mark.parametrize(("kind", "status"), [("increment", "authorized"), ("evidence", "submitted")])
def test_increments_and_evidence_have_their_own_success(kind: str, status: str) -> None:
    call = replace(CALL, kind=kind)
    assert answer_to_send(call, HttpAnswer(200, body(kind=kind, status=status))).status == status  # type: ignore[union-attr]
    assert isinstance(answer_to_send(call, HttpAnswer(200, body(kind=kind, status="captured"))), Unknown)


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
    "a kind we do not know": body(kind="gift"),
    "refunded": body(status="refunded"),
    "pending, which no charge is": body(status="pending"),
    "provider_ref empty": body(provider_ref=""),
    "provider_ref too long": body(provider_ref="x" * (limits.TEXT_LENGTH_MAX + 1)),
    "provider_ref with a NUL": body(provider_ref="sim\x00"),
    "currency empty": body(currency=""),
    "currency a number": body(currency=840),
    "decline_code a number": body(status="declined", decline_code=5),
}


@each("read", [answer_to_send, answer_to_query])
@each("name", BAD_BODIES)
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


@each("status", [201, 202, 204, 301, 302, 404, 408, 409, 418])
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


REFUND = replace(CALL, kind="refund", parent_ref="sim_0")


@each("read", [answer_to_send, answer_to_query])
@each(
    ("changes", "expected"),
    [
        ({"status": "refunded"}, ("refunded", None)),
        ({"status": "declined", "decline_code": "charge_disputed"}, ("declined", "charge_disputed")),
        ({"status": "failed", "decline_code": "unknown_capture"}, ("failed", "unknown_capture")),
        # Another fact than a refund that never succeeded: the owner posts both halves.
        (
            {"status": "failed", "decline_code": "lost_or_stolen_card", "after_success": True},
            ("failed_later", "lost_or_stolen_card"),
        ),
    ],
)
def test_a_refunds_end_keeps_its_reason(read: Any, changes: dict[str, Any], expected: tuple[str, str | None]) -> None:
    answer = read(REFUND, HttpAnswer(200, body(kind="refund", **changes)))
    assert (answer.status, answer.error_code) == expected


@pytest.mark.parametrize("read", [answer_to_send, answer_to_query])
def test_a_refund_may_be_pending_and_nothing_else(read: Any) -> None:
    """Accepted, not done: asked for again. A charge's words about a refund are not believed."""
    assert read(REFUND, HttpAnswer(200, body(kind="refund", status="pending"))) == Pending("sim_1")
    why = body(kind="refund", status="pending", pending_reason="insufficient_funds")
    assert read(REFUND, HttpAnswer(200, why)) == Pending("sim_1", "insufficient_funds")
    made_up = body(kind="refund", status="pending", pending_reason="because")
    assert read(REFUND, HttpAnswer(200, made_up)) == Unknown("unparseable")
    for status in ("captured", "authorized", "voided"):
        assert isinstance(read(REFUND, HttpAnswer(200, body(kind="refund", status=status))), Unknown)


MARKED = frozenset({(b"x-vault-answer", b"processor"), (b"content-type", b"application/json")})


@pytest.mark.parametrize("status", [200, 404, 422, 500, 503])
def test_a_marked_answer_is_the_processors(status: int) -> None:
    assert answer_of_vault(HttpAnswer(status, b"", MARKED)) is None


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (401, NotExecuted("vault_401")),
        (422, NotExecuted("vault_422")),
        (429, NotExecuted("vault_429")),
        (503, NotExecuted("vault_503")),
        (502, Unknown("vault_502")),
        (500, Unknown("vault_500")),
        (200, Unknown("vault_200")),
    ],
)
def test_the_vaults_own_answers_are_about_the_way(status: int, expected: object) -> None:
    """Nothing was sent after a 4xx or 503; in every other case it may have been. No outage of the processor."""
    assert answer_of_vault(HttpAnswer(status, body())) == expected


def test_a_token_that_the_vault_does_not_know_is_never_sent() -> None:
    """Said of this send and of all later ones, not of one before: the card may have been deleted since."""
    answer = answer_of_vault(HttpAnswer(404, problem("not_found")))
    assert answer == NotExecuted("payment_method_unknown", is_for_good=True)


def test_only_a_charge_by_a_vaults_token_goes_through_the_vault() -> None:
    token = "tok_" + "a2" * 12
    assert needs_vault(replace(CALL, payment_method=token))
    assert not needs_vault(CALL)
    assert not needs_vault(replace(REFUND, payment_method=token))
