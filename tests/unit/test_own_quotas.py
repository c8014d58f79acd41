"""Quotas that hold without any publication: of our own API, at the vault, and at the door of processors' webhooks."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from starlette.datastructures import Headers

from ingress import limits
from ingress.http.quotas import of_process, refusal
from ingress.identity.caller import Caller
from ingress.limiter import api_bursts
from ingress.payments.webhooks.quotas import BURST, Tellers
from limiter.edge.asgi import QuotaMiddleware
from schemas import errors
from schemas.payments import limits as payments_limits
from vault import limits as vault_limits
from vault.audit import OUR_WORKERS, WORKER
from vault.quotas import BURSTS, askers

if TYPE_CHECKING:
    from starlette.types import Message, Scope

    from limiter.decide.in_process import InAsyncio
    from limiter.edge.asgi import WhoAsks

NAMES = {"Bearer one": "m_1", "Bearer two": "m_2", "Bearer secret": OUR_WORKERS, "Bearer named": WORKER}
WEBHOOK = "/v1/webhooks/stripe"


class Door:
    """An application behind quotas, by a clock that stands until it is set."""

    def __init__(self, limiter: InAsyncio, who_asks: WhoAsks, *, tells_what_is_left: bool = True) -> None:
        self.reached = 0
        self.told: dict[bytes, bytes] = {}
        self._guarded = QuotaMiddleware(self._app, limiter, who_asks, refusal, tells_what_is_left=tells_what_is_left)

    async def _app(self, scope: Any, receive: Any, send: Any) -> None:
        del scope, receive
        self.reached += 1
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def ask(self, path: str, address: str = "203.0.113.1", token: str = "", cookie: str = "") -> int:
        """The status."""
        statuses: list[int] = []

        async def send(message: Message) -> None:
            if message["type"] == "http.response.start":
                statuses.append(message["status"])
                self.told = dict(message["headers"])

        headers = [(b"authorization", f"Bearer {token}".encode())] if token else []
        headers += [(b"cookie", cookie.encode())] if cookie else []
        scope = {"type": "http", "method": "POST", "path": path, "headers": headers, "client": (address, 1)}
        await self._guarded(scope, None, send)  # type: ignore[arg-type] # nothing is read
        return statuses[0]

    async def passed(self, count: int, *asked: Any) -> int:
        """How many of so many."""
        return sum([await self.ask(*asked) == 200 for _ in range(count)])


async def _name_of(scope: Scope) -> str:
    authorization = Headers(scope=scope).get("authorization")
    if authorization in NAMES:
        return NAMES[authorization]
    raise errors.Unauthenticated


def test_a_burst_of_a_processor_is_taken_and_a_flood_is_told_when_to_come_again() -> None:
    """A refused event never reaches the inbox, so it was not acknowledged; other networks and paths are not counted."""
    assert (BURST.at_once, BURST.per_s) == (payments_limits.WEBHOOK_BURST_MAX, payments_limits.WEBHOOK_RATE)
    now_us = [0]
    door = Door(of_process(BURST._replace(at_once=60, per_s=5), now_us=lambda: now_us[0]), Tellers())

    async def work() -> None:
        most = 60
        assert await door.passed(most, WEBHOOK) == most
        assert await door.passed(3, WEBHOOK) == 0
        assert door.reached == most
        assert (door.told[b"retry-after"], door.told[b"content-type"]) == (b"1", b"application/problem+json")
        assert await door.ask("/v1/webhooks/adyen", "203.0.113.200") == 429  # of the same network
        assert await door.ask(WEBHOOK, "198.51.100.1") == 200
        assert await door.ask("/v1/payment_intents") == 200
        now_us[0] += 1_000_000
        assert await door.passed(10, WEBHOOK) == 5

    asyncio.run(work())


class OneToken:
    """Of the authenticator, what is asked here."""

    async def principal_in(self, scope: Scope) -> str:
        return await _name_of(scope)


def test_at_the_api_no_flood_of_one_is_anothers_and_wrong_tokens_are_not_tried_without_end() -> None:
    """What publishes policies away, health, and doors with quotas or proofs of their own are not counted."""
    bounds = {burst.name: (burst.at_once, burst.per_s) for burst in api_bursts.BURSTS}
    assert bounds == {
        "api_caller": (limits.BURST_OF_CALLER_MAX, limits.RATE_OF_CALLER),
        "api_strangers": (limits.BURST_OF_STRANGERS_MAX, limits.RATE_OF_STRANGERS),
    }
    scaled = [burst._replace(at_once=burst.at_once // 100) for burst in api_bursts.BURSTS]
    tell = api_bursts.askers(OneToken(), sessions=[_of_cookie])  # type: ignore[arg-type]
    door = Door(of_process(*scaled, now_us=lambda: 0), tell, tells_what_is_left=False)
    path, home = "/v1/payment_intents", "203.0.113.1"

    async def work() -> None:
        most, strangers = (burst.at_once for burst in scaled)
        assert (await door.ask(path, home, "one"), door.told) == (200, {})
        assert await door.passed(most + 3, path, home, "one") == most - 1
        assert (await door.ask(path, home, "one"), door.told[b"retry-after"]) == (429, b"1")
        assert await door.passed(strangers + 3, path, home, "forged") == strangers
        assert await door.ask("/app", home, cookie="session=u_1") == 200
        assert await door.ask(path, home, "two") == 200
        assert await door.ask(path, "198.51.100.1") == 200
        for other in (
            "/healthz",
            "/v1/policies",
            "/v1/policies/pl_1",
            "/v1/policies/pl_1/withdraw",
            "/v1/policy_snapshots/newest",
            "/schemas/ids/1",
            WEBHOOK,
            "/console/sign-in",
        ):
            assert await door.passed(strangers + 3, other, home) == strangers + 3

    asyncio.run(work())


def _of_cookie(headers: Headers) -> Caller | None:
    user = headers.get("cookie", "").removeprefix("session=")
    return Caller(principal=f"user:{user}", subject=user, scopes=frozenset(), expires_at=0) if user else None


def test_at_the_vault_no_flood_of_one_is_anothers() -> None:
    """Who shows no token is counted by the network, a merchant by its name, our workers and health not at all."""
    bounds = {burst.name: burst.at_once for burst in BURSTS}
    assert bounds == {
        "vault_caller": vault_limits.VAULT_BURST_OF_CALLER_MAX,
        "vault_strangers": vault_limits.VAULT_BURST_OF_STRANGERS_MAX,
    }
    scaled = [burst._replace(at_once=burst.at_once // 50) for burst in BURSTS]
    door = Door(of_process(*scaled, now_us=lambda: 0), askers(_name_of))
    tokens = "/v1/tokens"

    async def work() -> None:
        most, strangers = (burst.at_once for burst in scaled)
        assert await door.passed(most + 3, tokens, "203.0.113.1", "one") == most
        assert await door.passed(strangers + 3, tokens, "203.0.113.1", "forged") == strangers
        assert await door.ask(tokens, "203.0.113.1", "one") == 429
        assert door.told[b"retry-after"] == b"1"
        assert await door.ask(tokens, "203.0.113.1", "two") == 200
        assert await door.ask(tokens, "198.51.100.1") == 200
        for path, token in (("/v1/forward", "secret"), ("/healthz", "")):
            assert await door.passed(most + 3, path, "203.0.113.1", token) == most + 3
        assert (
            await door.passed(most + 3, tokens, "203.0.113.1", "named") == most
        )  # a merchant that is called like them

    asyncio.run(work())
