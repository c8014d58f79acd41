"""The Stripe adapter against Stripe's own mock, which checks each request by the published OpenAPI document."""

from __future__ import annotations

import asyncio
import socket
import threading
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING

import pytest
import stripe

from dataflows.payments.attempts import stripe_calls
from dataflows.payments.attempts.adapter import Answer, NotExecuted, NotSent, RequiresAction, Unknown
from dataflows.payments.attempts.stripe_adapter import StripeAdapter
from schemas.payments import limits
from tests.unit.payments.test_attempts_settlement import CALL
from tests.worlds.payments import stripe_mock
from tests.worlds.payments.attempts_world import free_port

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

pytestmark = [pytest.mark.servers]
PURCHASE = replace(CALL, payment_method="pm_card_visa")


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with stripe_mock.running() as address:
        yield address


def asked(
    url: str, ask: Callable[[StripeAdapter], Coroutine[None, None, Answer | bool]], key: str = stripe_mock.API_KEY
):  # type: ignore[no-untyped-def] # of the coroutine
    async def run() -> Answer | bool:
        adapter = StripeAdapter(url, key, "stripe")
        try:
            return await ask(adapter)
        finally:
            await adapter.close()

    return asyncio.run(run())


CALLS = {
    "purchase": PURCHASE,
    "authorize": replace(PURCHASE, kind="authorize"),
    "a card that Stripe has a token of": replace(PURCHASE, payment_method="tok_visa"),
    "capture": replace(PURCHASE, kind="capture", parent_ref="pi_1"),
    "one of several captures": replace(PURCHASE, kind="capture", parent_ref="pi_1", final=False),
    "void": replace(PURCHASE, kind="void", parent_ref="pi_1"),
    "refund": replace(PURCHASE, kind="refund", parent_ref="pi_1"),
    "refund of a charge": replace(PURCHASE, kind="refund", parent_ref="ch_1"),
    "increment": replace(PURCHASE, kind="increment", parent_ref="pi_1"),
    "evidence": replace(
        PURCHASE, kind="evidence", parent_ref="dp_1", evidence=dict.fromkeys((*stripe_calls.EVIDENCE_TEXTS, "x"), "t")
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_stripe_accepts_every_request_and_a_fixture_is_no_answer_to_it(url: str, name: str) -> None:
    """A request that the document refuses would be a 400, that is, "failed"; the mock's fixture is of another call."""
    sent = asked(url, lambda adapter: adapter.send(CALLS[name]))
    assert isinstance(sent, Unknown), sent
    assert sent.reason == "answer_to_another_call" or sent.reason.startswith("payment_intent_")
    queried = asked(url, lambda adapter: adapter.query(CALLS[name]))
    assert isinstance(queried, Unknown) or queried == NotExecuted("not_found"), queried


def test_stripe_accepts_the_end_of_a_wait_for_the_payer(url: str) -> None:
    """The mock's fixture is of another payment; a request that the document refuses would be told as refused."""
    ended = asked(url, lambda adapter: adapter.end_wait(CALLS["purchase"], RequiresAction("pi_1", None)))
    assert ended == Unknown("answer_to_another_call")


def test_stripe_accepts_the_new_total_of_a_hold(url: str) -> None:
    """The adapter asks for it only of a hold, which the mock's fixture is none of."""
    client = stripe.StripeClient(stripe_mock.API_KEY, base_addresses={"api": url})
    parameters = stripe_calls.increment_parameters(replace(PURCHASE, kind="increment"), 1_099)
    client.v1.payment_intents.increment_authorization("pi_1", parameters)  # type: ignore[arg-type] # a plain dict
    with pytest.raises(stripe.InvalidRequestError):
        client.v1.payment_intents.increment_authorization("pi_1", {"metadata": {}})  # type: ignore[typeddict-item]


def test_a_key_that_is_none_of_stripes_executes_nothing(url: str) -> None:
    assert asked(url, lambda adapter: adapter.send(PURCHASE), key="nonsense") == NotExecuted("http_401")
    assert asked(url, lambda adapter: adapter.is_reachable())


def test_what_is_not_representable_never_leaves() -> None:
    """There is nobody at that address, and nobody is asked."""
    call = replace(PURCHASE, currency="UGX")
    nowhere = f"http://127.0.0.1:{free_port()}"
    sent = asked(nowhere, lambda adapter: adapter.send(call))
    assert (sent.status, sent.error_code) == ("failed", "amount_not_representable")
    assert asked(nowhere, lambda adapter: adapter.query(call)) == NotExecuted("never_sent")


@pytest.mark.parametrize("name", ["purchase", "a card that Stripe has a token of", "refund"])
def test_a_refused_connection_is_proved_not_sent(name: str) -> None:
    """The SDK's own clients could not tell this from a lost answer."""
    nowhere = f"http://127.0.0.1:{free_port()}"
    assert asked(nowhere, lambda adapter: adapter.send(CALLS[name])) == NotSent("not_connected")
    assert asked(nowhere, lambda adapter: adapter.is_reachable()) is False


def test_an_answer_that_does_not_come_is_a_doubt_but_not_while_a_card_becomes_a_method(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The payment itself was sent in the first case, and in the second it was not."""
    monkeypatch.setattr(limits, "ATTEMPT_CALL_TIMEOUT_MS", 500)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent_url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        lost = asked(silent_url, lambda adapter: adapter.send(PURCHASE))
        assert lost == Unknown("timeout", is_outage=True)
        before = asked(silent_url, lambda adapter: adapter.send(CALLS["a card that Stripe has a token of"]))
        assert before == NotSent("timeout")


def test_the_sdk_repeats_nothing() -> None:
    """Retries are the worker's, with the same identity, after a query: one request for each send."""
    with _failing() as (address, requests):
        assert asked(address, lambda adapter: adapter.send(PURCHASE)) == Unknown("http_500", is_outage=True)
        assert requests == [("POST", "/v1/payment_intents", "op_a_1")]
        assert asked(address, lambda adapter: adapter.is_reachable()) is False


@contextmanager
def _failing() -> Iterator[tuple[str, list[tuple[str, str, str | None]]]]:
    """A server that fails every request, and what it was asked."""
    requests: list[tuple[str, str, str | None]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            requests.append((self.command, self.path, self.headers["Idempotency-Key"]))
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(500)
            self.end_headers()
            self.wfile.write(b'{"error": {"type": "api_error"}}')

        do_GET = do_POST  # noqa: N815 - the name that http.server looks for

        def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - as the class it overrides
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", requests
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)
