"""What a request took is given back once, wherever it is asked for; permits are free when the work has ended."""

from __future__ import annotations

import asyncio
import itertools
import uuid
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from limiter import SyncLimiter
from limiter.decide.durable import Answer, Asked, Left, OwnerUnavailable
from limiter.edge.asgi import Asker, QuotaMiddleware
from limiter.edge.frame_server import FrameServer
from limiter.frames.frame_client import FrameClient
from limiter.frames.frame_client_async import AsyncFrameClient
from limiter.frames.frame_requests import Check
from limiter.store.store import StoreUnavailable
from schemas import errors
from schemas.limiter import limits
from tests.worlds.limiter.counter_server import CounterServer, emptied, hasty, limiter, policies, policy, server
from tests.worlds.limiter.store_proxy import StoreProxy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from limiter import Limiter

pytestmark = [pytest.mark.servers, pytest.mark.usefixtures("emptied")]
__all__ = ["emptied", "server"]  # the fixtures of this module
PATIENT_S = 60
EXACT = policy(capacity=10, consistency="exact")
WIDE = policy("pl_wide", capacity=20, consistency="exact", per=["tenant"])
PERMITS = policy("pl_permits", capacity=2, consistency="exact", algorithm="concurrency")
HERE = ("t", "u", "/r")


async def left(gateway: Limiter) -> int:
    return (await gateway.check(*HERE, 0)).remaining


def test_a_request_is_taken_back_once_at_any_gateway_and_charged_anew_when_it_comes_again(
    server: CounterServer, tmp_path: Path
) -> None:
    """From all levels. Twice, at two gateways at once, under an unknown identity, under none of ours: nothing more."""

    async def test() -> None:
        async with (
            limiter(server.url, tmp_path, EXACT, WIDE, timeout_s=PATIENT_S) as one,
            limiter(server.url, tmp_path, EXACT, WIDE, name="g2", timeout_s=PATIENT_S) as two,
        ):
            await one.check(*HERE, 4, "r")
            await two.check(*HERE, 5, "s")
            given = await asyncio.gather(*(g.refund("%74", "u", "/r/", "r") for g in (one, two, one, two)))
            assert given == [4] * 4  # every one of them knows afterwards that it was given back
            assert [await g.refund(*HERE, name) for g, name in itertools.product((one, two), "rx")] == [4, 0] * 2
            assert await left(one) == 5
            assert not (await one.check("t", "v", "/r", 16)).allowed  # of the other level 15 are left
            again = [await g.check(*HERE, 4, "r") for g in (one, two, one)]
            assert [(d.allowed, d.duplicate) for d in again] == [(True, False), (True, True), (True, True)]
            assert await left(two) == 1

    asyncio.run(test())


def test_a_refund_whose_answer_was_lost_is_asked_for_again_and_gives_back_once(
    server: CounterServer, tmp_path: Path
) -> None:
    proxy = StoreProxy(server.url)

    async def test() -> None:
        async with proxy.url() as url, limiter(url, tmp_path, EXACT, timeout_s=PATIENT_S) as gateway:
            await gateway.check(*HERE, 4, "r")
            await gateway.check(*HERE, 5, "s")
            proxy.dropping = True
            with pytest.raises(StoreUnavailable):
                await gateway.refund(*HERE, "r")
            proxy.dropping = False
            assert await said(gateway) == 4
            assert await left(gateway) == 5

    asyncio.run(test())


async def said(gateway: Limiter) -> int:
    """What the store says of the refund when it is asked again."""
    async with asyncio.timeout(PATIENT_S):
        while True:
            try:
                return await gateway.refund(*HERE, "r")
            except StoreUnavailable:
                await asyncio.sleep(0.05)


def test_what_cannot_be_given_back_is_said(server: CounterServer, tmp_path: Path) -> None:
    """No policy, a lease that paid, a key that is none, no identity."""

    async def test() -> None:
        async with limiter(server.url, tmp_path, policy(), timeout_s=PATIENT_S) as gateway:
            while not gateway.leases():
                await gateway.check(*HERE)
            assert (await gateway.check(*HERE, 1, "leased")).approximate
            assert await gateway.refund(*HERE, "leased") == 0
            assert (await gateway.check(*HERE, 1, "leased")).duplicate
            with pytest.raises(errors.InvalidCommand):
                await gateway.refund("%00", "u", "/r", "leased")
            with pytest.raises(errors.InvalidCommand):
                await gateway.refund(*HERE, "")
            gateway.use(policies())
            with pytest.raises(errors.InvalidCommand):
                await gateway.refund(*HERE, "r")
            assert await gateway.release(*HERE, "r") == 0

    asyncio.run(test())


def test_permits_that_are_released_are_free_and_what_else_was_charged_stays(
    server: CounterServer, tmp_path: Path
) -> None:
    async def test() -> None:
        async with limiter(server.url, tmp_path, PERMITS, WIDE, timeout_s=PATIENT_S) as gateway:
            assert [(await gateway.check(*HERE, 1, name)).allowed for name in "abc"] == [True, True, False]
            assert [await gateway.release(*HERE, "a") for _ in range(2)] == [1, 0]
            assert (await gateway.check(*HERE, 1, "c")).allowed
            assert not (await gateway.check(*HERE, 1, "d")).allowed
            assert [await gateway.release(*HERE, name) for name in "bc"] == [1, 1]
            assert (await gateway.check(*HERE, 2, "two")).allowed
            assert await gateway.release(*HERE, "two", 2) == 2
            gateway.use(policies(WIDE))
            assert await left(gateway) == 20 - 5

    asyncio.run(test())


def test_a_request_that_comes_again_runs_with_a_permit_or_not_at_all(server: CounterServer, tmp_path: Path) -> None:
    """When its first try has given its own back; of all other limits it is charged once, also when a retry is lost."""

    async def test() -> None:
        async with limiter(server.url, tmp_path, PERMITS, WIDE, timeout_s=PATIENT_S) as gateway:
            assert [(await gateway.check(*HERE, 1, name)).duplicate for name in "aa"] == [False, True]
            assert await gateway.release(*HERE, "a") == 1
            assert [(await gateway.check(*HERE, 1, name)).allowed for name in "bc"] == [True, True]
            again = await gateway.check(*HERE, 1, "a")
            assert (again.allowed, again.policy_id) == (False, "pl_permits")
            assert await gateway.release(*HERE, "b") == 1
            again = await gateway.check(*HERE, 1, "a")
            assert (again.allowed, again.duplicate) == (True, True)
            assert not (await gateway.check(*HERE, 1, "d")).allowed
            with server.frozen(), hasty(gateway):
                assert (await gateway.check(*HERE, 1, "a")).degraded
            async with asyncio.timeout(PATIENT_S):
                while not (await gateway.check(*HERE, 1, "d")).allowed:  # the lost retry holds nothing
                    with suppress(StoreUnavailable):
                        await gateway.maintain()
            gateway.use(policies(WIDE))
            assert await left(gateway) == 20 - 4

    asyncio.run(test())


def test_who_went_away_while_the_store_was_asked_holds_no_permit(server: CounterServer, tmp_path: Path) -> None:
    """Whatever the failure mode is: nobody would release it."""
    permits = policy(capacity=2, consistency="exact", algorithm="concurrency", failure_mode="open")

    async def test() -> None:
        async with limiter(server.url, tmp_path, permits, timeout_s=PATIENT_S) as gateway:
            assert (await gateway.check(*HERE, 0)).remaining == 2
            with server.frozen():
                asked = [asyncio.ensure_future(gateway.check(*HERE, 1, name)) for name in ("a", None)]
                for _ in range(10):
                    await asyncio.sleep(0)  # it is on its way
                for one in asked:
                    one.cancel()
                await asyncio.wait(asked)
            await gateway.maintain()
            assert (await gateway.check(*HERE, 2)).allowed

    asyncio.run(test())


class Owners:
    """Of durable quotas: what they say, when they are let."""

    def __init__(self, answer: Answer | None = None, *, silent: bool = False) -> None:
        self.answer = answer
        self.asked, self.may_say = asyncio.Event(), asyncio.Event()
        if not silent:
            self.may_say.set()

    def prepare(self) -> None:
        """There is nothing to connect to."""

    async def consume(self, asked: Asked) -> Answer:
        self.asked.set()
        await self.may_say.wait()
        if self.answer is None:
            raise OwnerUnavailable
        return self.answer

    async def refund(self, tenant: str, consumed: str) -> int:
        raise OwnerUnavailable


def test_what_a_gateway_refuses_is_given_back_unless_another_one_allowed_it(
    server: CounterServer, tmp_path: Path
) -> None:
    """An owner was late, and the caller went on: where both gateways refuse the request all of it is given back."""
    monthly = policy("pl_month", consistency="durable", failure_mode="closed", per=["tenant"])
    allows = Owners(Answer(allowed=True, duplicate=False, levels={"pl_month": Left(1, 5, 1, 0)}))

    async def test() -> None:
        for other, kept in ((allows, 3), (Owners(), 0)):
            slow, key = Owners(silent=True), ("t", f"u{kept}", "/r")
            async with (
                limiter(server.url, tmp_path, EXACT, monthly, timeout_s=PATIENT_S, durable=slow) as one,
                limiter(server.url, tmp_path, EXACT, monthly, name="g2", timeout_s=PATIENT_S, durable=other) as two,
                limiter(server.url, tmp_path, EXACT, name="g3", timeout_s=PATIENT_S) as look,
            ):
                first = asyncio.create_task(one.check(*key, 3, "r"))
                await slow.asked.wait()
                assert (await two.check(*key, 3, "r")).allowed is bool(kept)
                assert (await look.check(*key, 0)).remaining == 10 - 3
                slow.may_say.set()
                assert not (await first).allowed
                assert (await look.check(*key, 0)).remaining == 10 - kept

    asyncio.run(test())


def test_who_went_away_while_an_owner_was_asked_holds_no_permit(server: CounterServer, tmp_path: Path) -> None:
    """The store had allowed it. Where it runs at another gateway by then it keeps what it took."""
    monthly = policy("pl_month", consistency="durable", shadow=True)

    async def test() -> None:
        owners = Owners(silent=True)
        async with (
            limiter(server.url, tmp_path, PERMITS, monthly, timeout_s=PATIENT_S, durable=owners) as gateway,
            limiter(server.url, tmp_path, PERMITS, name="g2", timeout_s=PATIENT_S) as other,
        ):
            for name, is_elsewhere in (("a", False), (None, False), ("b", True)):
                owners.asked.clear()
                asked = asyncio.ensure_future(gateway.check(*HERE, 2, name))
                await owners.asked.wait()
                if is_elsewhere:
                    assert (await other.check(*HERE, 2, name)).duplicate
                else:
                    assert not (await other.check(*HERE, 1)).allowed
                asked.cancel()
                await asyncio.wait([asked])
                await gateway.maintain()
                assert (await other.check(*HERE, 0)).remaining == (0 if is_elsewhere else 2)
            assert await other.release(*HERE, "b", 2) == 2

    asyncio.run(test())


def test_what_ends_while_the_store_is_away_is_released_when_it_is_back(server: CounterServer, tmp_path: Path) -> None:
    async def test() -> None:
        async with limiter(server.url, tmp_path, PERMITS, timeout_s=PATIENT_S) as gateway, asyncio.timeout(PATIENT_S):
            assert [(await gateway.check(*HERE, 1, name)).allowed for name in "ab"] == [True, True]
            with server.frozen(), hasty(gateway):
                for name in "ab":  # the second one is not even asked for
                    with pytest.raises(StoreUnavailable):
                        await gateway.release(*HERE, name)
            while not (await gateway.check(*HERE, 2)).allowed:
                with suppress(StoreUnavailable):
                    await gateway.maintain()

    asyncio.run(test())


def test_one_request_id_on_two_routes_holds_two_permits(server: CounterServer, tmp_path: Path) -> None:
    """And neither frees the other's, by its release nor by its refund."""
    permits = policy("pl_permits", capacity=2, consistency="exact", algorithm="concurrency", per=["tenant"])

    async def test() -> None:
        async with limiter(server.url, tmp_path, permits, timeout_s=PATIENT_S) as gateway:
            assert [(await gateway.check("t", "u", f"/{n}", 1, "id")).allowed for n in "abc"] == [True, True, False]
            assert [await gateway.release("t", "u", "/c", "id"), await gateway.release("t", "u", "/a", "id")] == [0, 1]
            assert [(await gateway.check("t", "u", f"/{n}", 1, "id")).allowed for n in "cd"] == [True, False]
            assert [await gateway.refund("t", "u", f"/{n}", "id") for n in "bc"] == [1, 1]
            assert (await gateway.check("t", "u", "/e", 2)).allowed

    asyncio.run(test())


def test_a_request_holds_its_permit_until_it_is_answered_however_that_ends(
    server: CounterServer, tmp_path: Path
) -> None:
    """Never more at once than permits, and after every end, errors and callers who left too, all are free again."""
    at_once = [0, 0]
    began = asyncio.Event()

    async def work(request: Any) -> PlainTextResponse:
        at_once[0] += 1
        began.set()
        at_once[1] = max(at_once)
        try:
            await asyncio.sleep(0.02)
            if request.query_params.get("fails"):
                raise RuntimeError
        finally:
            at_once[0] -= 1
        return PlainTextResponse("done")

    async def who_asks(_: Any) -> Asker:
        return Asker(*HERE)

    async def test() -> None:
        async with limiter(server.url, tmp_path, PERMITS, timeout_s=PATIENT_S) as gateway:
            refused = PlainTextResponse("full", 429)
            app = QuotaMiddleware(Starlette(routes=[Route("/", work)]), gateway, who_asks, lambda _: refused)
            transport = httpx.ASGITransport(app, raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
                answers = await asyncio.gather(*(client.get("/") for _ in range(20)))
                assert sorted({a.status_code for a in answers}) == [200, 429]
                assert at_once == [0, 2]
                for _ in range(5):
                    assert (await client.get("/?fails=1")).status_code == 500
                began.clear()
                for _ in range(5):
                    left_early = asyncio.ensure_future(client.get("/"))
                    await began.wait()
                    began.clear()
                    left_early.cancel()
                    with pytest.raises(asyncio.CancelledError):
                        await left_early
                assert [(await client.get("/")).status_code for _ in range(5)] == [200] * 5

    asyncio.run(test())


def test_threads_give_back_too(server: CounterServer, tmp_path: Path) -> None:
    @asynccontextmanager
    async def made() -> AsyncIterator[Limiter]:
        async with limiter(server.url, tmp_path, WIDE, PERMITS, timeout_s=PATIENT_S) as gateway:
            yield gateway

    with SyncLimiter(made, timeout_s=PATIENT_S) as threads:
        names = [uuid.uuid4().hex for _ in range(3)]
        assert [threads.check(*HERE, 1, name).allowed for name in names] == [True, True, False]
        assert threads.refund(*HERE, names[0]) == 1
        assert threads.release(*HERE, names[1]) == 1
        assert threads.check(*HERE, 2).allowed


def test_permits_are_released_over_frames(server: CounterServer, tmp_path: Path) -> None:
    """By both clients, under the identity that holds them; as many as there are, however many are named."""
    one, two, three = (bytes([n]) * 16 for n in (1, 2, 3))

    async def test() -> None:
        async with limiter(server.url, tmp_path, PERMITS, timeout_s=PATIENT_S) as gateway:
            served = FrameServer(gateway)
            await served.serve_unix(tmp_path / "g.sock")
            async with AsyncFrameClient(str(tmp_path / "g.sock"), timeout_s=PATIENT_S) as client:
                held = await client.check_many([Check(*HERE, 1, identity) for identity in (one, two, three)])
                assert [answer.allowed for answer in held] == [True, True, False]
                assert [await client.release(*HERE, one) for _ in range(2)] == [1, 0]
                assert (await client.check(*HERE, 1, three)).allowed
                assert await client.release(*HERE, three, limits.LIMIT_COST_MAX) == 1
                assert await client.release("t", "u", "/r", bytes([9]) * 16) == 0
                with pytest.raises(errors.InvalidCommand):
                    await client.release(*HERE, bytes(16))  # whoever named no identity holds none by it

                def blocking() -> list[int]:
                    with FrameClient(str(tmp_path / "g.sock"), timeout_s=PATIENT_S) as other:
                        return [other.release(*HERE, identity, 2) for identity in (two, two)]

                assert await asyncio.to_thread(blocking) == [1, 0]
                assert (await client.check(*HERE, 2)).allowed
            await served.close()

    asyncio.run(test())
