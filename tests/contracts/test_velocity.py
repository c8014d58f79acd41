"""Velocity counters on the real server: once for each confirm, over all processes, and gone with their window."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from schemas import errors, limits
from schemas.payments import limits as payments_limits
from sinks.redis.connection import connect
from sinks.redis.user import OPERATOR, url_as
from sinks.redis.velocity import Counter, Counting, VelocityCounters
from tests.eventually import patient
from tests.migrated import clone_database, in_database
from tests.worlds.limiter.counter_server import CounterServer
from tests.worlds.payments.attempts_world import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.servers import World

pytestmark = pytest.mark.servers
_PATIENCE_MS = 60_000  # what counts here is what is counted: a busy machine may answer later than a confirm would wait
Test = Callable[[VelocityCounters, VelocityCounters], Awaitable[None]]


async def remembered(held: int) -> int:
    """The counters of this server as they are: none was lost, whatever other tests did."""
    return max(held, 1)


def run(stack: World, test: Test) -> None:
    """Runs a test over the connections of two processes."""

    async def both() -> None:
        one, other = (VelocityCounters(stack.addresses.redis_url, remembered, _PATIENCE_MS) for _ in range(2))
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
        nowhere = VelocityCounters(f"redis://127.0.0.1:{free_port()}/0", remembered)
        stranger = VelocityCounters(url_as(stack.addresses.redis_url, OPERATOR, "guessed"), remembered)
        for away in (nowhere, stranger):
            with pytest.raises(errors.Unavailable) as unavailable:
                await away.count([counting("s")])
            assert stack.addresses.redis_url not in str(unavailable.value.context)
            await away.close()

    run(stack, test)


class Epochs:
    """What Postgres remembers, in memory."""

    def __init__(self) -> None:
        self.known = 0

    async def of(self, held: int) -> int:
        if held != self.known or not held:
            self.known = held if held > self.known else self.known + 1
        return self.known


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[CounterServer]:
    """A Valkey that may be emptied."""
    server = CounterServer(tmp_path)
    yield server
    server.close()


def test_a_store_that_lost_its_counters_knows_no_window_that_began_before(own_server: CounterServer) -> None:
    """Else everybody has a fresh start: a count of one, and the rule that blocks after five lets them by."""
    epochs = Epochs()

    async def test() -> None:
        one, other = (VelocityCounters(own_server.url, epochs.of, _PATIENCE_MS) for _ in range(2))
        subject = uuid.uuid4().hex
        for _ in range(6):
            (row,) = await one.count([counting(subject)])
        assert row == {"w600": 6}, "a store that nobody used before has lost nothing"
        redis = connect(own_server.url, _PATIENCE_MS)
        await redis.flushall()
        assert await one.count([counting(subject)]) == [{}]
        assert await other.count([counting(subject) for _ in range(3)]) == [{}] * 3
        assert epochs.known == 2
        fresh = VelocityCounters(own_server.url, epochs.of, _PATIENCE_MS)
        async with asyncio.timeout(patient(45)):
            while (row := (await fresh.count([counting(subject, windows=(1, 600))]))[0]) == {}:
                continue
        assert list(row) == ["w1"], "a window that began afterwards is known"
        await redis.delete("millrace:velocity_epoch")
        assert [await counters.count([counting(subject)]) for counters in (one, other)] == [[{}], [{}]]
        await redis.aclose()
        for counters in (one, other, fresh):
            await counters.close()

    asyncio.run(test())


def test_postgres_remembers_the_epoch_that_the_store_lost(stack: World) -> None:
    """None yet, the same, lost, an older copy, and a store of a later time than this database's."""
    name = f"velocity_{uuid.uuid4().hex[:12]}"
    addresses = stack.settings.addresses()
    clone_database(addresses.postgres_superuser_dsn, name)
    dsn = in_database(addresses.postgres_dsns["millrace_ingress"], name)
    with psycopg.connect(dsn, autocommit=True) as connection:
        told = [
            connection.execute("select velocity_epoch_of(%s)", (held,)).fetchone()[0]  # type: ignore[index]
            for held in (0, 1, 0, 1, 3, 7, 7)
        ]
        assert told == [1, 1, 2, 3, 3, 7, 7]
