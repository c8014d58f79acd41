"""The vault in front of several processors: each has its own form and secret, and none takes another's places."""

from __future__ import annotations

import asyncio
import json
import socket
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

import pytest

from dataflows.payments.attempts.stripe_adapter import StripeAdapter
from dataflows.payments.attempts.vault_route import VaultRoute
from schemas import errors
from tests.unit.payments.test_attempts_settlement import CALL
from tests.worlds.payments.attempts_world import free_port
from tests.worlds.payments.vault_world import Processor, VaultWorld, processor, vault_on
from vault import limits
from vault.card import Card
from vault.forwarding import Destination, Forward, Forwarder

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["processor"]
pytestmark = [pytest.mark.servers]
NUMBER = "4242424242424242"
API_KEY = "sk_test_of_the_vault"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VaultWorld]:
    """A vault that knows a simulator and Stripe, both at the address of the test's processor."""
    with vault_on(tmp_path_factory.mktemp("vault")) as made:
        port = made.settings.addresses().processor_port
        made.start(
            MILLRACE_PROCESSORS="simulator,stripe",
            MILLRACE_PROCESSOR_URLS=json.dumps({"stripe": f"http://127.0.0.1:{port}"}),
            MILLRACE_PROCESSOR_SECRETS=json.dumps({"stripe": API_KEY}),
        )
        yield made


def test_stripe_gets_the_card_as_a_form_and_the_worker_never_has_it(world: VaultWorld, processor: Processor) -> None:
    """The worker's adapter asks the vault for a payment method, and pays with its id over its own connection."""
    holder = world.holder()
    processor.answer = lambda _: b'{"id": "pm_made", "object": "payment_method"}'
    url = f"http://127.0.0.1:{world.settings.addresses().processor_port}"
    call = replace(CALL, merchant_id=holder.name, payment_method=holder.token())
    route = VaultRoute(world.url, world.settings.vault_forward_secret())

    async def send() -> None:
        adapter = StripeAdapter(url, "sk_of_the_worker", "stripe", route)
        try:
            for _ in range(2):
                await adapter.send(call)
        finally:
            await adapter.close()

    asyncio.run(send())
    (first, paid, again, paid_again) = processor.received
    path, headers, raw = first
    assert (path, headers["idempotency-key"]) == ("/v1/payment_methods", "op_a_1:method")
    assert headers["content-type"] == "application/x-www-form-urlencoded"
    assert headers["authorization"] == f"Bearer {API_KEY}"
    assert headers["stripe-version"]
    assert parse_qs(raw.decode()) == {
        "type": ["card"], "card[number]": [NUMBER], "card[exp_month]": ["12"], "card[exp_year]": ["2035"],
    }  # fmt: skip
    assert again[2] == raw, "the same bytes for every send"
    for path, headers, raw in (paid, paid_again):
        assert (path, headers["authorization"]) == ("/v1/payment_intents", "Bearer sk_of_the_worker")
        form = parse_qs(raw.decode())
        assert (form["payment_method"], form["metadata[operation_id]"]) == (["pm_made"], ["op_a_1"])
        assert NUMBER not in raw.decode()


@pytest.mark.parametrize("name", ["stripe_eu", "adyen", "simulator_b", "", "http://127.0.0.1"])
def test_only_configured_processors_are_reached(world: VaultWorld, processor: Processor, name: str) -> None:
    holder = world.holder()
    answer = world.forward(holder.token(), holder.name, processor=name)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_command")
    assert processor.received == []


@pytest.mark.parametrize("body", [{"amount": 5}, {"card[number]": "1"}, {"x[card[number]]": "1"}, {"card": "x"}])
def test_a_form_holds_texts_and_no_card_but_the_vaults(
    world: VaultWorld, processor: Processor, body: dict[str, Any]
) -> None:
    holder = world.holder()
    token = holder.token()
    answer = world.forward(token, holder.name, processor="stripe", body=body | {"payment_method": token})
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_command")
    assert processor.received == []


class OneCard:
    """Reveals the same card for every token."""

    async def reveal(self, merchant_id: str, token: str, said: object) -> Card:
        return Card(number=NUMBER, network="visa", exp_month=12, exp_year=2035)


def test_a_processor_that_hangs_takes_no_place_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """All places of the first are taken by calls without an answer; the second is served, the first refuses more."""
    monkeypatch.setattr(limits, "VAULT_FORWARDS_MAX", 3)
    forward = Forward(token="t", merchant_id="m", processor="simulator", path="/v1/operations", body={})
    elsewhere = replace(forward, processor="simulator_b")

    async def run(silent_port: int) -> None:
        forwarder = Forwarder(
            OneCard(),  # type: ignore[arg-type] # all that it is asked for
            {
                "simulator": Destination(f"http://127.0.0.1:{silent_port}"),
                "simulator_b": Destination(f"http://127.0.0.1:{free_port()}"),
            },
        )
        hanging = [asyncio.ensure_future(forwarder.carry_out(forward, {})) for _ in range(3)]
        await asyncio.sleep(0)
        with pytest.raises(errors.Overloaded):
            await forwarder.carry_out(forward, {})
        with pytest.raises(errors.Unavailable):  # tried at once: nobody is there
            await forwarder.carry_out(elsewhere, {})
        assert not any(call.done() for call in hanging)
        for call in hanging:
            call.cancel()
        await asyncio.gather(*hanging, return_exceptions=True)
        await forwarder.close()

    with socket.create_server(("127.0.0.1", 0)) as silent:
        asyncio.run(run(silent.getsockname()[1]))
