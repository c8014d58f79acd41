"""The quota middleware in front of a small application, over a limiter on a real Valkey."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from ingress.http import quotas
from limiter.edge.asgi import Asker, QuotaMiddleware
from limiter.edge.request_identity import idempotency_key
from schemas.limiter import limits
from tests.worlds.limiter.counter_server import (
    MONTH_MS,
    CounterServer,
    emptied,
    hasty,
    limiter,
    policies,
    policy,
    server,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from starlette.requests import Request
    from starlette.types import Scope

    from limiter import Limiter
    from schemas.limiter.limit_policy import LimitPolicy

pytestmark = [pytest.mark.servers, pytest.mark.usefixtures("emptied")]
__all__ = ["emptied", "server"]  # the fixtures of this module
WINDOW_S = MONTH_MS // 1_000
FIELDS = ("ratelimit", "ratelimit-policy", "retry-after")


class Limited:
    """An application that counts its requests, behind the middleware."""

    def __init__(self, made: Limiter) -> None:
        self.limiter = made
        self.reached = 0
        self.asked = 0
        app = Starlette(routes=[Route("/things", self._answer, methods=["GET", "POST"])])
        guarded = QuotaMiddleware(app, made, self._who_asks, quotas.refusal, idempotency_key, self._cost_of)
        self.http = httpx.AsyncClient(transport=httpx.ASGITransport(guarded), base_url="http://a")

    async def _answer(self, _: Request) -> PlainTextResponse:
        self.reached += 1
        return PlainTextResponse("done")

    async def _who_asks(self, scope: Scope) -> Asker | None:
        self.asked += 1
        tenant = dict(scope["headers"]).get(b"tenant", b"").decode()
        return Asker(tenant, "u", "/things") if tenant else None

    @staticmethod
    def _cost_of(scope: Scope) -> int:
        return int(dict(scope["headers"]).get(b"cost", b"1"))

    async def post(self, key: str | None = None, **headers: str) -> tuple[int, str]:
        """The status of a request that changes something, and what is left after it."""
        named = {} if key is None else {"idempotency-key": key}
        answer = await self.http.post("/things", headers={"tenant": "t"} | named | headers)
        return answer.status_code, answer.headers["ratelimit"].split(";")[1]

    async def get(self, tenant: str = "t", path: str = "/things") -> httpx.Response:
        """A request that counts for the tenant; for nobody without one."""
        return await self.http.get(path, headers={"tenant": tenant} if tenant else {})


@asynccontextmanager
async def limited(server: CounterServer, folder: Path, *found: LimitPolicy) -> AsyncIterator[Limited]:
    async with limiter(server.url, folder, *found) as made:
        app = Limited(made)
        async with app.http:
            yield app


def three(**changes: Any) -> LimitPolicy:
    """Three requests of a tenant in a month, changed."""
    return policy(capacity=3, per=["tenant"], consistency="exact", **changes)


def test_answers_say_what_is_left_and_the_application_never_sees_what_is_refused(
    server: CounterServer, tmp_path: Path
) -> None:
    async def test() -> None:
        async with limited(server, tmp_path, three()) as app:
            for left in (2, 1, 0):
                answer = await app.get()
                assert (answer.status_code, answer.text) == (200, "done")
                assert answer.headers["ratelimit-policy"] == f'"pl_a";q=3;w={WINDOW_S}'
                assert answer.headers["ratelimit"].startswith(f'"pl_a";r={left};t=')
                assert "retry-after" not in answer.headers
            refused = await app.get()
            assert app.reached == 3
            wait_s = int(refused.headers["retry-after"])
            assert 1 <= wait_s <= WINDOW_S
            assert refused.headers["ratelimit"] == f'"pl_a";r=0;t={wait_s}'
            assert refused.headers["ratelimit-policy"] == f'"pl_a";q=3;w={WINDOW_S}'
            assert refused.headers["content-type"] == "application/problem+json"
            problem = refused.json()
            assert (refused.status_code, problem["status"], problem["code"]) == (429, 429, "quota_exceeded")
            assert problem["type"] == "https://iana.org/assignments/http-problem-types#quota-exceeded"
            assert problem["violated-policies"] == ["pl_a"]
            assert (await app.get("another")).status_code == 200

    asyncio.run(test())


def test_the_fields_are_on_the_applications_own_refusals_too(server: CounterServer, tmp_path: Path) -> None:
    async def test() -> None:
        async with limited(server, tmp_path, three()) as app:
            answer = await app.get(path="/nowhere")
            assert answer.status_code == 404
            assert answer.headers["ratelimit"].startswith('"pl_a";r=2;t=')

    asyncio.run(test())


def test_without_policies_nothing_is_asked(server: CounterServer, tmp_path: Path) -> None:
    """Also after policies were there; and again when they come back."""

    async def test() -> None:
        async with limited(server, tmp_path) as app:
            for found, fields_wanted in ((policies(), False), (policies(three()), True), (policies(), False)):
                app.limiter.use(found)
                answer = await app.get()
                assert answer.status_code == 200
                assert any(name in answer.headers for name in FIELDS) == fields_wanted
            assert (app.asked, app.limiter.store_calls) == (1, 1)

    asyncio.run(test())


@pytest.mark.parametrize("tenant", ["", "other"])
def test_who_is_governed_by_nothing_gets_the_plain_answer(server: CounterServer, tmp_path: Path, tenant: str) -> None:
    async def test() -> None:
        async with limited(server, tmp_path, three(scope={"tenant": "t"})) as app:
            for _ in range(5):
                answer = await app.get(tenant)
                assert answer.status_code == 200
                assert not any(name in answer.headers for name in FIELDS)
            assert app.limiter.store_calls == 0

    asyncio.run(test())


@pytest.mark.parametrize(("mode", "status"), [("closed", 503), ("stale", 503), ("open", 200)])
def test_without_the_store_the_failure_mode_answers(
    server: CounterServer, tmp_path: Path, mode: str, status: int
) -> None:
    """What is left is not known then, and not told; the policy is."""

    async def test() -> None:
        lone = three(failure_mode=mode)
        async with limited(server, tmp_path, lone) as app:
            with server.frozen(), hasty(app.limiter):
                answer = await app.get()
            assert answer.status_code == status
            assert answer.headers["ratelimit-policy"] == f'"pl_a";q=3;w={WINDOW_S}'
            assert "ratelimit" not in answer.headers
            if status == 503:
                assert answer.json()["code"] == "unavailable"
                assert int(answer.headers["retry-after"]) >= 1
            assert app.reached == (status == 200)

    asyncio.run(test())


def test_a_retried_request_consumes_once_at_any_process(server: CounterServer, tmp_path: Path) -> None:
    """And costs what the application says; an identity that had another cost, or another key, is charged."""
    ten = policy(capacity=10, per=["tenant"], consistency="exact")

    async def test() -> None:
        async with limited(server, tmp_path, ten) as app, limited(server, tmp_path / "other", ten) as other:
            assert [await app.post("a", cost="4") for _ in range(2)] == [(200, "r=6")] * 2
            assert await other.post("a", cost="4") == (200, "r=6")
            assert await app.post("a", cost="2") == (200, "r=4")
            assert [await app.post("b"), await app.post(), await app.post()] == [(200, f"r={n}") for n in (3, 2, 1)]
            assert await app.post("c", cost="2") == (429, "r=1")
            assert await app.post("a", cost="4") == (200, "r=6")  # as it was answered then
            assert await app.post("d") == (200, "r=0")

    (tmp_path / "other").mkdir()
    asyncio.run(test())


def test_whoever_repeats_one_request_for_ever_pays(
    server: CounterServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "LIMIT_REPETITIONS_FREE_MAX", 2)

    async def test() -> None:
        async with limited(server, tmp_path, three()) as app:
            found = [await app.post("again") for _ in range(6)]
            assert found == [(200, "r=2")] * 3 + [(200, "r=1"), (200, "r=0"), (429, "r=0")]

    asyncio.run(test())


def test_every_try_holds_permits_of_its_own(server: CounterServer, tmp_path: Path) -> None:
    permits = policy(capacity=3, per=["tenant"], consistency="exact", algorithm="concurrency")

    async def test() -> None:
        async with limited(server, tmp_path, permits) as app:
            assert [await app.post("a", cost="2") for _ in range(3)] == [(200, "r=1")] * 3  # and has given them back
            (bucket,) = app.limiter.governed("t", "u", "/things").buckets
            assert (await app.limiter._store.peek(bucket)).used == 0

    asyncio.run(test())
