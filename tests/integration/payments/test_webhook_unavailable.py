"""What a processor hears when the inbox cannot be reached: a 503 that makes it try again, never a 2xx."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from ingress.app import create_app
from ingress.http.parts import Parts
from ingress.payments.webhooks.gateway import WebhookGateway
from schemas import errors
from tests.unit.payments import test_webhook_signatures as vectors
from tests.worlds.payments.attempts_world import free_port

SECRETS = {"stripe": (vectors.STRIPE_SECRET,), "adyen": (vectors.ADYEN_KEY,)}


async def nobody(authorization: str | None) -> None:
    """Processors have no token."""
    raise errors.Unauthenticated


def post(processor: str, raw: bytes, headers: dict[str, str], times: int = 1) -> list[httpx.Response]:
    """Deliveries to a gateway whose database does not exist."""

    async def deliver() -> list[httpx.Response]:
        dsn = f"postgresql://nobody@127.0.0.1:{free_port()}/none"
        gateway = WebhookGateway(dsn, SECRETS, lambda: None, clock=lambda: vectors.NOW)
        await gateway.open()
        parts = Parts()
        parts.add(gateway)
        ingress: Any = SimpleNamespace(  # all that the route asks for, and who watches it
            parts=parts,
            config=SimpleNamespace(limiter=None, trusted_proxies=()),
            authenticator=SimpleNamespace(caller_in=nobody, principal_in=nobody),
            audit=SimpleNamespace(suspicious=None),
            denials=None,  # nobody here shows a token
            caller_at_console=None,  # or comes to a page
            services=(),
        )
        app: Any = create_app(ingress)
        fields = {"Content-Type": "application/json"} | headers
        try:
            transport = httpx.ASGITransport(app)
            async with httpx.AsyncClient(transport=transport, base_url="http://millrace") as client:
                return [
                    await client.post(f"/v1/webhooks/{processor}", content=raw, headers=fields) for _ in range(times)
                ]
        finally:
            await gateway.close()

    return asyncio.run(deliver())


def test_without_a_database_nothing_is_acknowledged() -> None:
    for answer in post("stripe", vectors.STRIPE_BODY, {"Stripe-Signature": vectors.stripe_header()}, times=2):
        assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
        assert int(answer.headers["retry-after"]) > 0


@pytest.mark.parametrize("header", ["", vectors.stripe_header(at=vectors.NOW - 3_600)])
def test_a_forger_learns_nothing_about_the_database(header: str) -> None:
    (answer,) = post("stripe", vectors.STRIPE_BODY, {"Stripe-Signature": header})
    assert (answer.status_code, answer.json()["code"]) == (401, "invalid_signature")
