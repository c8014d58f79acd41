"""The Python client against the real system: what its protocols promise on paper."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from ingress.client import (
    AsyncMillraceClient,
    CallRefused,
    CommandLine,
    Conflict,
    IdentityReused,
    InvalidCall,
    MillraceClient,
    ObjectNotFound,
    StillProcessing,
)
from tests.eventually import becomes, eventually
from tests.worlds.public_system import public

if TYPE_CHECKING:
    from tests.worlds.public_system import PublicSystem

__all__ = ["public"]  # the fixture of this module
pytestmark = pytest.mark.servers


def test_a_payment_from_create_to_captured(public: PublicSystem) -> None:
    with public.client() as client:
        made = client.create(
            amount=10_000,
            currency="EUR",
            payment_method="tok_sim_approve",
            capture_method="manual",
            metadata={"order": "7"},
        )
        assert (made.replayed, made.result["version"], made.result["metadata"]) == (False, 1, {"order": "7"})
        intent_id = made.result["id"]
        assert client.confirm(intent_id, expected_version=1).result["state"] == "processing"
        held = client.wait(intent_id, "requires_capture")
        assert held["amount_capturable"] == 10_000
        assert client.capture(intent_id, amount=6_000).result["state"] in {"processing", "succeeded"}
        assert client.wait(intent_id, "succeeded")["amount_received"] == 6_000
        assert client.get(intent_id)["state"] == "succeeded"
        other = client.create(amount=5, currency="JPY").result["id"]
        assert client.cancel(other, reason="abandoned").result["cancellation_reason"] == "abandoned"
        assert [intent["id"] for intent in client.list(page_limit=1)] == [other, intent_id]


def test_identity_is_the_callers(public: PublicSystem) -> None:
    with public.client() as client:
        first = client.create(amount=5, currency="USD", idempotency_key="mine")
        again = client.create(amount=5, currency="USD", idempotency_key="mine")
        assert (again.result, again.event, again.replayed) == (first.result, first.event, True)
        with pytest.raises(IdentityReused):
            client.create(amount=6, currency="USD", idempotency_key="mine")


def test_refusals_are_typed(public: PublicSystem) -> None:
    with public.client() as client:
        intent_id = client.create(amount=5, currency="USD").result["id"]
        with pytest.raises(InvalidCall) as invalid:
            client.create(amount=0, currency="usd")
        assert {error["field"] for error in invalid.value.errors} == {"payload.amount", "payload.currency"}
        with pytest.raises(Conflict) as conflict:
            client.capture(intent_id)
        assert conflict.value.problem["current_state"] == "requires_payment_method"
        with pytest.raises(ObjectNotFound):
            client.get("pi_unknown")
        with pytest.raises(StillProcessing):
            client.wait(intent_id, "succeeded", within_s=0.5)
    with MillraceClient(public.base_url, "forged") as nobody, pytest.raises(CallRefused, match="unauthenticated"):
        next(nobody.list())


def test_refunds_and_what_is_left(public: PublicSystem) -> None:
    """Once for each identity; listed, waited for, and seen in the balance, now and before."""
    with public.client() as client:
        intent_id = client.create(amount=10_000, currency="USD", payment_method="tok_sim_approve").result["id"]
        client.confirm(intent_id)
        client.wait(intent_id, "succeeded")
        before = client.balance()["USD"]
        first = client.refund(intent_id, amount=4_000, reason="duplicate", metadata={"a": "b"}, idempotency_key="mine")
        again = client.refund(intent_id, amount=4_000, reason="duplicate", metadata={"a": "b"}, idempotency_key="mine")
        assert (again.result, again.event, again.replayed) == (first.result, first.event, True)
        with pytest.raises(IdentityReused):
            client.refund(intent_id, amount=4_001, idempotency_key="mine")
        with pytest.raises(CallRefused) as refused:
            client.refund(intent_id, amount=6_001)
        assert (refused.value.code, refused.value.problem["refundable"]) == ("amount_exceeds_refundable", 6_000)
        with pytest.raises(ObjectNotFound):
            client.refund("pi_unknown", amount=1)
        with pytest.raises(Conflict):
            client.cancel_refund(first.result["id"])
        rest = client.refund(intent_id).result
        assert rest["amount"] == 6_000
        for refund_id in (first.result["id"], rest["id"]):
            becomes(lambda r=refund_id: client.get_refund(r, wait_s=20)["state"], "succeeded", 60)
        assert [r["id"] for r in client.refunds(page_limit=1)] == [rest["id"], first.result["id"]]
        assert [r["id"] for r in client.refunds(intent_id)] == [rest["id"], first.result["id"]]
        assert list(client.refunds("pi_other")) == list(client.disputes()) == list(client.disputes(intent_id)) == []
        assert client.balance()["USD"] == before | {"pending": 0, "available": before["pending"] - 10_000}
        assert client.balance(datetime.now(UTC) - timedelta(days=1))["USD"] == dict.fromkeys(before, 0)
        with pytest.raises(InvalidCall):
            client.balance(datetime.now(UTC) + timedelta(days=1))
        with pytest.raises(ValueError, match="zone"):
            client.balance(datetime(2026, 1, 1))  # noqa: DTZ001 - it is what is refused


def test_an_accepted_command_is_followed_to_its_end(public: PublicSystem) -> None:
    """The service answers 202 at once (wait 0); the client finds the decision through operations."""
    with public.client(wait_s=0) as client:
        made = [client.create(amount=n, currency="USD").result["amount"] for n in range(1, 6)]
    assert made == [1, 2, 3, 4, 5]


def test_many_commands_in_batches(public: PublicSystem) -> None:
    with public.client() as client:
        create = "POST /v1/payment_intents"
        lines = [CommandLine(create, {"amount": n + 1, "currency": "USD"}, f"k{n}") for n in range(700)]
        lines.append(CommandLine(create, {"amount": 0, "currency": "USD"}))
        answers = list(client.commands(iter(lines), batch_lines=300))
        assert [a.result["amount"] for a in answers[:-1] if a.result] == list(range(1, 701))
        assert (answers[-1].status, (answers[-1].problem or {})["code"]) == (422, "invalid_command")
        again = list(client.commands(lines[:50]))
        assert all(a.replayed for a in again)
        assert [a.result for a in again] == [a.result for a in answers[:50]]


def test_events_from_a_cursor(public: PublicSystem) -> None:
    with public.client() as client:
        made = [client.create(amount=n + 1, currency="USD").result["id"] for n in range(6)]
        stream = client.events()
        first = [next(stream) for _ in range(4)]
        stream.close()
        rest = client.events(first[-1].cursor)
        heard = [e.event["aggregate_key"] for e in [*first, next(rest), next(rest)]]
        rest.close()
        assert heard == made


def test_the_asynchronous_client_does_the_same(public: PublicSystem) -> None:
    async def play() -> None:
        token = public.token("m_async")
        async with AsyncMillraceClient(public.base_url, lambda: token) as client:
            made = await asyncio.gather(
                *(client.create(amount=n + 100, currency="USD", payment_method="tok_sim_approve") for n in range(10))
            )
            assert len({m.result["id"] for m in made}) == 10
            intent_id = made[0].result["id"]
            await client.confirm(intent_id)
            assert (await client.wait(intent_id, "succeeded"))["amount_received"] == made[0].result["amount"]
            assert len([i async for i in client.list(page_limit=3)]) == 10
            refunds = [(await client.refund(intent_id, amount=1)).result["id"]]
            assert [r["id"] async for r in client.refunds(intent_id, page_limit=1)] == refunds
            assert (await client.get_refund(refunds[0], wait_s=20))["state"] == "succeeded"
            with pytest.raises(Conflict):
                await client.cancel_refund(refunds[0])
            assert [d async for d in client.disputes()] == []
            assert set(await client.balance()) == set(await client.balance(datetime.now(UTC))) == {"USD"}
            answers = [a async for a in client.commands([CommandLine("POST /v1/payment_intents", {})])]
            assert answers[0].status == 422
            events = []
            async for event in client.events():
                events.append(event)
                if len(events) == 10:
                    break
            assert {e.event["aggregate_key"] for e in events} <= {m.result["id"] for m in made}

    asyncio.run(play())


def test_an_operator_reviews_and_publishes(public: PublicSystem) -> None:
    """The rules are about one merchant alone, and nothing is forbidden in the end."""
    operator = public.token("m_ops", ("operator",))
    look = {"name": "look", "when": [{"type": "in_list", "field": "merchant", "list": "mine"}], "outcome": "review"}
    name = "m_reviewed_by_client"
    with public.policies(), MillraceClient(public.base_url, operator) as client, public.client(name) as merchant:
        before = next((v["version"] for v in client.policies("risk", page_limit=1)), 0)
        document = {"rules": [look], "lists": {"mine": [name]}}
        made = client.publish_policy("risk", document, expected_version=before)
        assert client.publish_policy("risk", document, expected_version=before) == made
        assert next(client.policies("risk"))["version"] == made["version"]
        with pytest.raises(Conflict):
            client.publish_policy("risk", {}, expected_version=before)

        def waiting() -> str | None:
            made = merchant.create(amount=10_000, currency="USD", payment_method="tok_sim_approve")
            state = merchant.confirm(made.result["id"], customer_ip="203.0.113.7", card_country="AT").result["state"]
            return made.result["id"] if state == "requires_merchant_action" else None

        intent_id = eventually(waiting, 20)
        client.publish_policy("risk", {}, expected_version=made["version"])
        assert client.review(intent_id, "approve", note="known").result["state"] == "processing"
        assert merchant.wait(intent_id)["state"] == "succeeded"
