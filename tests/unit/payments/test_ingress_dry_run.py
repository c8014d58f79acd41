"""A dry run decides as the owner does, over whole payments as they are stored, and does nothing."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import msgspec
import pytest

from dataflows.payments.domain.decision import Payment
from dataflows.payments.domain.stored import payments_of
from ingress.commands import envelope, envelope_fields
from ingress.commands.stored import Stored
from ingress.http.answers import Answer
from ingress.identity.caller import Caller
from ingress.payments.dry_run import OPERATIONS as FORECAST
from ingress.payments.dry_run import DryRuns
from schemas import errors
from schemas.payments.operations import OPERATIONS
from tests.each import each
from tests.worlds.payments import payment_cases as cases

ME = Caller(principal=cases.MERCHANT, subject="s", scopes=frozenset(), expires_at=0)


def rows_of(payment: Payment | None) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    """A payment as ``intents_read`` and ``attempts_read`` give it."""
    if payment is None:
        return [], []
    values = list(msgspec.structs.astuple(payment.intent))
    values[payment.intent.__struct_fields__.index("metadata")] = json.dumps(payment.intent.metadata)
    parts = [msgspec.json.encode(list(p.values())).decode() if p else None for p in (payment.refunds, payment.disputes)]
    return [(*values, *parts, 0)], [msgspec.structs.astuple(a) for a in payment.attempts.values()]


class Database:
    """What is committed, as the three that a dry run asks; none of them can write."""

    def __init__(
        self,
        payment: Payment | None = None,
        prior: Stored | None = None,
        *,
        active: dict[str, dict[str, Any]] | None = None,
        is_frozen: bool = False,
    ) -> None:
        self.payment, self.prior, self.is_frozen = payment, prior, is_frozen
        self.active = [(kind, 3, json.dumps(body)) for kind, body in (active or {}).items()]

    async def snapshot(self, *_: object) -> list[list[tuple[Any, ...]]]:
        return [*rows_of(self.payment), self.active, [], [(1,)] if self.is_frozen else []]

    async def find(self, _: tuple[str, str]) -> Stored | None:
        return self.prior

    async def require_own(self, *_: object) -> None:
        return None


def forecast(operation: str, database: Database, path_id: str | None = cases.INTENT_ID, **payload: Any) -> Answer:
    call = OPERATIONS[operation]
    raw = json.dumps({"idempotency_key": "k", "payload": payload}).encode()
    request = envelope.read_call(call, None if call.creates else path_id, raw, envelope_fields.Fields(), cases.MERCHANT)
    any_one: Any = database
    return asyncio.run(DryRuns(any_one, any_one, any_one, ("simulator", "simulator_b")).forecast(ME, request))


def document(answer: Answer) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(answer.body)
    assert found["dry_run"] is True
    return found


@each("state", sorted(cases.in_every_state()))
def test_stored_payments_are_read_whole(state: str) -> None:
    payment = cases.in_every_state()[state]
    assert payments_of(*rows_of(payment)) == {payment.intent.id: payment}


def test_what_would_be_done_is_shown_and_flagged() -> None:
    made = forecast("create_payment_intent", Database(), amount=5, currency="USD")
    assert (made.status, document(made)["result"]["state"]) == (200, "requires_payment_method")
    authorized = cases.authorized()
    captured = document(forecast("capture_payment_intent", Database(authorized)))
    assert (captured["result"]["state"], captured["not_considered"]) == ("processing", [])
    refund = document(forecast("create_refund", Database(cases.paid()), payment_intent=cases.INTENT_ID, amount=7))
    assert (refund["result"]["object"], refund["result"]["amount"]) == ("refund", 7)


OPEN: Payment = cases.after(None, cases.create())
BLOCKS = {"name": "b", "when": [{"type": "currency", "any_of": ["USD", "EUR"]}], "outcome": "block"}
BY_IP = {"type": "velocity", "by": "ip", "window_s": 60, "more_than": 0}


def confirm(**policies: dict[str, Any]) -> dict[str, Any]:
    database = Database(OPEN, active=policies)
    return document(forecast("confirm_payment_intent", database, payment_method="tok_sim_approve"))


def test_a_confirm_is_forecast_by_the_published_rules() -> None:
    plain = confirm()
    assert (plain["result"]["state"], plain["result"]["processor"], plain["not_considered"]) == (
        "processing",
        "simulator",
        [],
    )
    blocked = confirm(risk={"rules": [BLOCKS]})["result"]
    assert (blocked["state"], blocked["last_payment_error"]) == (
        "requires_payment_method",
        {"code": "blocked_by_risk"},
    )
    reviewed = confirm(risk={"rules": [BLOCKS | {"outcome": "review"}]})["result"]
    assert reviewed["state"] == "requires_merchant_action"
    routed = confirm(routing={"rules": [{"name": "r", "candidates": [{"processor": "simulator_b"}]}]})
    assert (routed["result"]["processor"], routed["not_considered"]) == ("simulator_b", [])


def test_a_frozen_merchant_would_begin_nothing() -> None:
    for operation, payment in (("confirm_payment_intent", OPEN), ("create_refund", cases.paid())):
        answer = forecast(
            operation,
            Database(payment, is_frozen=True),
            **({"payment_intent": cases.INTENT_ID} if operation == "create_refund" else {}),
        )
        assert (answer.status, document(answer)["code"]) == (409, "account_frozen")
    authorized = cases.authorized()
    assert forecast("capture_payment_intent", Database(authorized, is_frozen=True)).status == 200


def test_a_confirm_says_what_it_did_not_look_at() -> None:
    """Velocity would have to be counted, the card looked up: neither is done, and the rules say what that means."""
    unknown = {"name": "v", "when": [BY_IP], "outcome": "block", "when_unknown": "review"}
    found = confirm(
        risk={"rules": [unknown]},
        routing={"rules": [{"name": "r", "when": {"network": ["visa"]}, "candidates": [{"processor": "simulator_b"}]}]},
    )
    assert found["result"]["state"] == "requires_merchant_action"
    assert found["not_considered"] == ["velocity", "card"]
    newer = confirm(risk={"rules": [{"name": "x", "when": [{"type": "of a newer build"}]}]})
    assert newer["not_considered"] == ["risk"]


@pytest.mark.parametrize(
    ("operation", "payment", "payload", "status", "code"),
    [
        ("capture_payment_intent", cases.paid(), {}, 409, "state_conflict"),
        ("confirm_payment_intent", None, {}, 404, "not_found"),
        ("create_refund", cases.paid(), {"payment_intent": cases.INTENT_ID, "amount": 10_001}, 422, "amount_exceeds_refundable"),
    ],
)  # fmt: skip
def test_a_refusal_is_the_same_and_flagged(
    operation: str, payment: Payment | None, payload: dict[str, Any], status: int, code: str
) -> None:
    answer = forecast(operation, Database(payment), **payload)
    assert (answer.status, document(answer)["code"]) == (status, code)


def test_a_key_that_was_used_answers_as_it_would() -> None:
    call = envelope.read_call(
        OPERATIONS["create_payment_intent"],
        None,
        json.dumps({"idempotency_key": "k", "payload": {"amount": 5, "currency": "USD"}}).encode(),
        envelope_fields.Fields(),
        cases.MERCHANT,
    )
    done = Stored(call.request_hash, b'{"result":{"id":"pi_known"},"event":{}}', "committed", 0, 0)
    assert document(forecast("create_payment_intent", Database(prior=done), amount=5, currency="USD"))["result"] == {
        "id": "pi_known"
    }
    with pytest.raises(errors.KeyReused):
        forecast("create_payment_intent", Database(prior=done), amount=6, currency="USD")


def test_other_operations_have_none() -> None:
    """Refused, never carried out: who asks for a dry run must not find that it was done."""
    others = [
        o for o in OPERATIONS.values() if o.scope and not o.creates and not o.path_field and o.name not in FORECAST
    ]
    for operation in others:
        any_one: Any = Database()
        request = envelope.Request(operation, "x", "k", None, None, {}, b"")
        with pytest.raises(errors.InvalidCommand):
            asyncio.run(DryRuns(any_one, any_one, any_one, ()).forecast(ME, request))
