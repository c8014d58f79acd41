"""Leases on a real Valkey: of several levels all are spent or none, and the next one comes before it is needed."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from limiter.decide import store_call
from limiter.decide.quota_lender import QuotaLender
from limiter.decide.quota_shares import Share
from limiter.spending.buckets import Bucket
from limiter.store.lease_clock import lease_clock_ns
from schemas import errors
from schemas.limiter import limits
from tests.worlds.limiter.counter_server import CounterServer, emptied, limiter, policy, server
from tests.worlds.limiter.store_proxy import StoreProxy

if TYPE_CHECKING:
    from pathlib import Path

    from limiter import Limiter
    from schemas.limiter.limit_policy import LimitPolicy

pytestmark = [pytest.mark.servers, pytest.mark.usefixtures("emptied")]
__all__ = ["emptied", "server"]  # the fixtures of this module
PATIENT_S = 60.0  # for a store that is there


async def burst(gateway: Limiter, count: int, user: str = "u") -> int:
    """How many of ``count`` at once were allowed."""
    decided = await asyncio.gather(*(gateway.check("t", user, "/r") for _ in range(count)))
    return sum(d.allowed for d in decided)


async def with_leases(gateway: Limiter, at_least: int) -> None:
    """Asks until every counter of a key holds a lease."""
    while not gateway._buckets or any(b.left < at_least for b in gateway._buckets.values()):
        await gateway.check("t", "u", "/r")


def two_levels(**changes: Any) -> list[LimitPolicy]:
    """A counter of each key, and one of the whole tenant."""
    return [policy(capacity=20_000, **changes), policy("pl_b", capacity=12_000, per=["tenant"], **changes)]


async def counted(gateway: Limiter) -> dict[str, tuple[int, int]]:
    """What every counter has charged and reserved, by policy and user."""
    found = {}
    for bucket in gateway._buckets.values():
        held = await gateway._store.peek(bucket)
        found[f"{bucket.id_}:{bucket.keys[0].decode()}"] = (held.used, held.reserved)
    return found


def test_leases_of_all_levels_are_spent_or_none(server: CounterServer, tmp_path: Path) -> None:
    """Two users of one tenant until the tenant has nothing left: each counter is charged what was allowed on it."""

    async def test() -> None:
        async with limiter(server.url, tmp_path, *two_levels(), timeout_s=PATIENT_S) as gateway:
            allowed = {"u": 0, "v": 0}
            for _ in range(200):
                for user in allowed:
                    allowed[user] += await burst(gateway, 40, user=user)
            calls = gateway.store_calls
            await gateway.close()
            used = {name: charged for name, charged in (await counted(gateway)).items() if charged != (0, 0)}
            total = sum(allowed.values())
            assert 12_000 * 0.9 <= total <= 12_000
            assert sorted(used.values()) == sorted([(total, 0), (allowed["u"], 0), (allowed["v"], 0)])
            assert calls < 16_000 / 2

    asyncio.run(test())


def test_a_level_that_is_exact_asks_the_store(server: CounterServer, tmp_path: Path) -> None:
    async def test() -> None:
        mixed = [policy(), policy("pl_b", per=["tenant"], consistency="exact")]
        async with limiter(server.url, tmp_path, *mixed, timeout_s=PATIENT_S) as gateway:
            assert await burst(gateway, 100) == 100
            assert gateway.store_calls == 100
            assert gateway.leases() == 0

    asyncio.run(test())


def test_a_retry_over_leases_of_several_levels_consumes_once(server: CounterServer, tmp_path: Path) -> None:
    async def test() -> None:
        async with limiter(server.url, tmp_path, *two_levels(), timeout_s=PATIENT_S) as gateway:
            await with_leases(gateway, at_least=5)
            for bucket in gateway._buckets.values():
                bucket.lease_ends_ns = lease_clock_ns() + 10**12  # a slow machine must not end it
            left = [b.left for b in gateway._buckets.values()]
            first = gateway.check_now("t", "u", "/r", 2, "r")
            again = gateway.check_now("t", "u", "/r", 2, "r")
            assert first is not None
            assert again is not None
            assert (first.allowed, first.duplicate, again.allowed, again.duplicate) == (True, False, True, True)
            assert [b.left for b in gateway._buckets.values()] == [n - 2 for n in left]
            with pytest.raises(errors.KeyReused):
                gateway.check_now("t", "u", "/r", 3, "r")

    asyncio.run(test())


def test_the_next_lease_comes_before_the_present_one_is_spent(
    server: CounterServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody asks the store: what is spent alone brings the next lease, one question at a time."""
    monkeypatch.setattr(limits, "LIMIT_LEASE_MS", 60_000)  # a slow machine must not end it
    monkeypatch.setattr(Bucket, "wanted", lambda *_: 400)  # nor let demand seem to have ceased

    async def test() -> None:
        async with limiter(server.url, tmp_path, policy(capacity=1_000_000), timeout_s=PATIENT_S) as gateway:
            await with_leases(gateway, at_least=40)
            (bucket,) = gateway._buckets.values()
            first, calls = bucket.lease_id, gateway.store_calls
            while bucket.left > 1:
                assert gateway.check_now("t", "u", "/r", 1, None)
            assert gateway.store_calls == calls + 1
            assert len(gateway._calls.refills) == 1
            await asyncio.gather(*gateway._calls.refills)
            assert bucket.lease_id != first
            assert bucket.left > 1
            assert gateway.check_now("t", "u", "/r", 1, None)
            assert not bucket.settling  # the first one is settled
            assert (await gateway._store.peek(bucket)).reserved == bucket.granted

    asyncio.run(test())


def test_a_lease_on_its_way_is_given_back_too(
    server: CounterServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A gateway that ends while it asks for its next lease: nobody would spend that one, and all of it be charged."""
    monkeypatch.setattr(limits, "LIMIT_LEASE_MS", 60_000)
    monkeypatch.setattr(Bucket, "wanted", lambda *_: 400)

    async def test() -> None:
        async with limiter(server.url, tmp_path, policy(capacity=1_000_000), timeout_s=PATIENT_S) as gateway:
            await with_leases(gateway, at_least=40)
            (bucket,) = gateway._buckets.values()
            while not gateway._calls.refills:
                assert gateway.check_now("t", "u", "/r", 1, None)
            await gateway.close()
            assert (gateway._calls.refills, gateway.leases()) == (set(), 0)
            assert (await gateway._store.peek(bucket)).reserved == 0

    asyncio.run(test())


@pytest.mark.parametrize("ended", [False, True], ids=["lasts", "ended"])
@pytest.mark.parametrize("impatient", ["caller", "line"])
def test_a_lease_of_a_late_answer_is_spent_or_given_back(
    server: CounterServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, impatient: str, ended: bool
) -> None:
    """A store that is a little slower than it may be grants leases: nobody would hold them, and each be charged whole."""
    monkeypatch.setattr(limits, "LIMIT_LEASE_MS", 60_000)
    monkeypatch.setattr(Bucket, "wanted", lambda *_: 400)
    if ended:
        monkeypatch.setattr(store_call, "lease_end_ns", lambda *_: 0)
    proxy = StoreProxy(server.url)

    async def test() -> None:
        async with (
            proxy.url() as url,
            limiter(url, tmp_path, policy(capacity=1_000_000), timeout_s=PATIENT_S) as gateway,
            asyncio.timeout(PATIENT_S),
        ):
            await gateway.check("t", "v", "/r")
            (bucket,) = gateway.governed("t", "u", "/r").buckets
            counters: Any = gateway._store.store_of((bucket,))
            proxy.delivering.clear()
            if impatient == "line":
                counters._line.timeout_s = 0.01
            within_s = 0.01 if impatient == "caller" else None
            assert (await gateway.check("t", "u", "/r", within_s=within_s)).degraded
            counters._line.timeout_s = PATIENT_S
            proxy.delivering.set()
            while not (bucket.settling if ended else bucket.lease_id):  # noqa: ASYNC110 - as the answer comes
                await asyncio.sleep(0.01)
            decided = gateway.check_now("t", "u", "/r", 1, None)
            assert (decided is not None) == (not ended)
            await gateway.close()
            counted_ = await gateway._store.peek(bucket)
            assert (counted_.used, counted_.reserved) == (1 if ended else 2, 0)

    asyncio.run(test())


def test_a_late_answer_about_an_envoys_share_costs_nothing(server: CounterServer, tmp_path: Path) -> None:
    """Its lease is given back, and what Envoy had let through by its own rules is paid once."""
    proxy = StoreProxy(server.url)

    async def test() -> None:
        async with (
            proxy.url() as url,
            limiter(url, tmp_path, policy(capacity=1_000, consistency="exact"), timeout_s=PATIENT_S) as gateway,
            asyncio.timeout(PATIENT_S),
        ):
            lender = QuotaLender(gateway, gateway._store, gateway._recorder, "g")
            share, key = Share(lease_clock_ns()), gateway.governed("t", "u", "/r")
            await gateway.check("t", "u", "/r")
            counters: Any = gateway._store.store_of(key.buckets)
            share.report(30, 0, lease_clock_ns())
            proxy.delivering.clear()
            counters._line.timeout_s = 0.01
            told = await lender.lend(share, key)
            assert (told and told.rule, share.unpaid) == ("deny_all", 30)
            counters._line.timeout_s = PATIENT_S
            proxy.delivering.set()
            while share.unpaid:  # noqa: ASYNC110 - as the answer comes
                await asyncio.sleep(0.01)
            told = await lender.lend(share, key)
            await gateway.maintain()
            counted_ = await gateway._store.peek(key.buckets[0])
            assert told
            assert (counted_.used, counted_.reserved) == (31, told.tokens)

    asyncio.run(test())
