"""Handshakes of websockets behind the quota middleware, over a limiter on a real Valkey."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from ingress.http import quotas
from limiter.edge.asgi import Asker, QuotaMiddleware
from tests.worlds.limiter.counter_server import CounterServer, emptied, limiter, policy, server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from starlette.types import Message, Receive, Scope, Send

    from limiter import Limiter
    from schemas.limiter.limit_policy import LimitPolicy

pytestmark = [pytest.mark.servers, pytest.mark.usefixtures("emptied")]
__all__ = ["emptied", "server"]  # the fixtures of this module
DENIAL = {"websocket.http.response": {}}


class Sockets:
    """An application that accepts connections and keeps them until ``ended``, behind the middleware."""

    def __init__(self, made: Limiter) -> None:
        self.accepted = 0
        self.begun, self.ended = asyncio.Event(), asyncio.Event()
        self.ended.set()
        self.guarded = QuotaMiddleware(self._app, made, self._who_asks, quotas.refusal, lambda _: "always-the-same")

    async def _app(self, _scope: Scope, receive: Receive, send: Send) -> None:
        assert (await receive())["type"] == "websocket.connect"
        self.accepted += 1
        await send({"type": "websocket.accept", "headers": [(b"x", b"y")]})
        self.begun.set()
        await self.ended.wait()

    @staticmethod
    async def _who_asks(scope: Scope) -> Asker | None:
        assert (scope["type"], scope["method"]) == ("http", "GET")
        tenant = dict(scope["headers"]).get(b"tenant", b"").decode()
        return Asker(tenant, "u", "/feed") if tenant else None

    async def connect(self, tenant: str = "t", extensions: dict[str, Any] | None = None) -> list[Message]:
        """What the server is told of one handshake."""
        told: list[Message] = []
        headers = [(b"tenant", tenant.encode())]
        scope: Scope = {"type": "websocket", "path": "/feed", "headers": headers, "extensions": extensions or {}}

        async def receive() -> Message:
            return {"type": "websocket.connect"}

        async def send(message: Message) -> None:
            told.append(message)

        await self.guarded(scope, receive, send)
        return told


@asynccontextmanager
async def sockets(server: CounterServer, folder: Path, *found: LimitPolicy) -> AsyncIterator[Sockets]:
    async with limiter(server.url, folder, *found) as made:
        yield Sockets(made)


def test_each_handshake_is_charged_and_a_refused_one_is_never_accepted(server: CounterServer, tmp_path: Path) -> None:
    async def test() -> None:
        async with sockets(server, tmp_path, policy(capacity=2, per=["tenant"], consistency="exact")) as app:
            for left in (b"1", b"0"):
                (accepted,) = await app.connect()
                named = dict(accepted["headers"])
                assert accepted["type"] == "websocket.accept"
                assert named[b"ratelimit"].startswith(b'"pl_a";r=' + left + b";t=")
                assert named[b"x"] == b"y"
            assert await app.connect() == [{"type": "websocket.close", "code": 1008, "reason": ""}]
            begun, *body = await app.connect(extensions=DENIAL)
            assert (begun["type"], begun["status"]) == ("websocket.http.response.start", 429)
            assert b"retry-after" in dict(begun["headers"])
            assert {message["type"] for message in body} == {"websocket.http.response.body"}
            assert app.accepted == 2
            assert len(await app.connect("")) == 1, "who is limited by nobody is let in"

    asyncio.run(test())


def test_an_open_connection_holds_its_permit_until_it_ends(server: CounterServer, tmp_path: Path) -> None:
    async def test() -> None:
        one = policy(algorithm="concurrency", capacity=1, per=["tenant"], consistency="exact")
        async with sockets(server, tmp_path, one) as app:
            app.ended.clear()
            first = asyncio.create_task(app.connect())
            await app.begun.wait()
            assert [message["type"] for message in await app.connect()] == ["websocket.close"]
            app.ended.set()
            await first
            assert [message["type"] for message in await app.connect()] == ["websocket.accept"]

    asyncio.run(test())


def test_who_can_be_no_key_is_not_let_in(server: CounterServer, tmp_path: Path) -> None:
    async def test() -> None:
        async with sockets(server, tmp_path, policy(capacity=2, per=["tenant"], consistency="exact")) as app:
            begun, _ = await app.connect("x" * 10_000, DENIAL)
            assert (begun["type"], begun["status"]) == ("websocket.http.response.start", 400)
            assert app.accepted == 0

    asyncio.run(test())
