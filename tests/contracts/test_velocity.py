"""Velocity counters on the real server: once for each confirm, over all processes, and gone with their window."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import pytest

from schemas import errors, limits
from schemas.payments import limits as payments_limits
from sinks.redis.connection import connect
from sinks.redis.velocity import Counter, Counting, VelocityCounters
from tests.eventually import patient
from tests.worlds.payments.attempts_world import free_port

if TYPE_CHECKING:
    from tests.servers import World

pytestmark = pytest.mark.servers
_PATIENCE_MS = 60_000  # what counts here is what is counted: a busy machine may answer later than a confirm would wait
Test = Callable[[VelocityCounters, VelocityCounters], Awaitable[None]]


def run(stack: World, test: Test) -> None:
    """Runs a test over the connections of two processes."""

    async def both() -> None:
        one, other = (VelocityCounters(stack.addresses.redis_url, _PATIENCE_MS) for _ in range(2))
        try:
            await test(one, other)
        finally:
            await one.close()
            await other.close()

    asyncio.run(both())


def counting(subject: str, identity: str = "", windows: tuple[int, ...] = (600,), increment: int = 1) -> Counting:
    counters = tuple(Counter(f"w{window}", subject, window, increment) for window in windows)
    return Counting(identity or uuid.uuid4().hex, counters)


def test_a_confirm_counts_once_in_every_process_and_every_retry_sees_the_count(stack: World) -> None:
    async def test(one: VelocityCounters, other: VelocityCounters) -> None:
        subject, mine = uuid.uuid4().hex, uuid.uuid4().hex
        assert await one.count([counting(subject, mine)]) == [{"w600": 1}]
        assert await other.count([counting(subject, mine)]) == [{"w600": 1}]
        assert await other.count([counting(subject)]) == [{"w600": 2}]
        assert await one.count([counting(subject, mine)]) == [{"w600": 2}]
        assert await one.count([counting(subject + "x")]) == [{"w600": 1}]
        rivals = [counter.count([counting(subject)]) for counter in (one, other) for _ in range(10)]
        seen = [row["w600"] for (row,) in await asyncio.gather(*rivals)]
        assert sorted(seen) == list(range(3, 23))

    run(stack, test)


def test_a_list_is_counted_in_its_order(stack: World) -> None:
    async def test(one: VelocityCounters, _: Any) -> None:
        subject = uuid.uuid4().hex
        many = [counting(subject, increment=7) for _ in range(payments_limits.VELOCITY_PIPELINE_MAX + 5)]
        assert [row["w600"] for row in await one.count(many)] == [7 * n for n in range(1, len(many) + 1)]

    run(stack, test)


def test_what_is_older_than_the_window_counts_no_more_and_no_key_stays(stack: World) -> None:
    async def test(one: VelocityCounters, _: Any) -> None:
        subject, mine = uuid.uuid4().hex, uuid.uuid4().hex
        twice = counting(subject, mine, windows=(1, 600))
        assert await one.count([twice]) == [{"w1": 1, "w600": 1}]
        async with asyncio.timeout(patient(45)):
            while await one.count([twice]) != [{"w1": 0, "w600": 1}]:
                continue
        redis = connect(stack.addresses.redis_url, _PATIENCE_MS)
        keys = [key async for key in redis.scan_iter("millrace:velocity:*")]
        assert keys
        ends = [await redis.ttl(key) for key in keys]
        assert -1 not in ends, "without an end; -2 is one that has ended since it was listed"
        assert subject not in repr(keys), "keys hold nobody's address"
        await redis.script_flush()
        await redis.aclose()
        assert (await one.count([counting(subject)]))[0]["w600"] == 2, "a server that forgot the script is told again"

    run(stack, test)


def test_no_amount_is_too_large(stack: World) -> None:
    async def test(one: VelocityCounters, _: Any) -> None:
        subject = uuid.uuid4().hex
        for _ in range(5):
            (row,) = await one.count([counting(subject, increment=limits.AMOUNT_MINOR_MAX)])
        assert row["w600"] >= limits.AMOUNT_MINOR_MAX

    run(stack, test)


def test_a_server_that_is_away_is_unavailable_and_not_waited_for(stack: World) -> None:
    async def test(_: Any, __: Any) -> None:
        nowhere = VelocityCounters(f"redis://127.0.0.1:{free_port()}/0")
        stranger = VelocityCounters(stack.addresses.redis_url.replace("redis://:", "redis://:x"))
        for away in (nowhere, stranger):
            with pytest.raises(errors.Unavailable) as unavailable:
                await away.count([counting("s")])
            assert stack.addresses.redis_url not in str(unavailable.value.context)
            await away.close()

    run(stack, test)
