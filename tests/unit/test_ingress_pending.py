"""A wait ends exactly when nothing is open any more, whatever comes first, twice or never."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from ingress import limits
from ingress.commands.pending import Call
from ingress.commands.stored import Stored
from ingress.http.breaker import Breaker
from ingress.http.coalescer import Coalescer
from schemas import errors, records

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


def command(key: str = "k", request_hash: bytes = b"h") -> records.Command:
    return records.Command(
        operation="create_payment_intent",
        request_id="r",
        idempotency_key=key,
        aggregate_key="pi_1",
        expected_version=None,
        scope="m_1",
        request_hash=request_hash,
        trace_id="t",
        issued_at=0,
        deadline_at=0,
        reply_to=0,
        reply_id=1,
        payload={},
    )


class Calls:
    """Makes calls whose futures belong to one loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def __call__(self, count: int = 1, *, only_acknowledged: bool = False) -> Call:
        commands = [command(f"k{n}") for n in range(count)]
        return Call(commands, self._loop.create_future(), only_acknowledged=only_acknowledged)


@pytest.fixture
def call() -> Iterator[Calls]:
    loop = asyncio.new_event_loop()
    yield Calls(loop)
    loop.close()


def test_a_wait_ends_with_the_last_decision(call: Calls) -> None:
    waiting = call(3)
    first, second, third = waiting.pendings
    first.decided("committed", b"1", replayed=False)
    first.decided("refused", b"2", replayed=True)  # a repeated result changes nothing
    second.failed(errors.Unavailable())
    assert not waiting.done.done()
    third.decided("expired", b"3", replayed=False)
    assert waiting.done.done()
    assert (first.outcome, first.body, first.replayed) == ("committed", b"1", False)


def test_an_acknowledgement_alone_ends_only_an_asynchronous_call(call: Calls) -> None:
    patient, hasty = call(2), call(2, only_acknowledged=True)
    for waiting in (patient, hasty):
        waiting.pendings[0].acknowledged(1, 10)
        waiting.pendings[0].acknowledged(1, 10)
        assert not waiting.done.done()
        waiting.pendings[1].acknowledged(1, 11)
    assert (patient.done.done(), hasty.done.done()) == (False, True)


def test_an_asynchronous_call_waits_for_its_place_in_the_topic_also_when_it_is_decided_before(call: Calls) -> None:
    """The owner's result overtakes Kafka's acknowledgement. Without the place its note would never end."""
    held, lost = call(2, only_acknowledged=True), call(2, only_acknowledged=True)
    for waiting in (held, lost):
        for pending in waiting.pendings:
            pending.decided("parked", b"{}", replayed=False)
        waiting.pendings[0].acknowledged(1, 10)
        assert not waiting.done.done()
    held.pendings[1].acknowledged(1, 11)
    lost.pendings[1].failed(errors.Unavailable())  # it will not come
    assert (held.done.done(), lost.done.done()) == (True, True)
    assert (held.pendings[1].place, lost.pendings[1].place, lost.pendings[1].error) == ((1, 11), None, None)


def test_a_drained_call_waits_for_acknowledgements_only(call: Calls) -> None:
    held, under_way = call(2), call(2)
    for pending in (*held.pendings, under_way.pendings[0]):
        pending.acknowledged(1, 10)
    held.drain()
    under_way.drain()
    assert (held.done.done(), under_way.done.done()) == (True, False)
    under_way.pendings[1].acknowledged(1, 11)
    assert under_way.done.done()


def test_an_asynchronous_call_ends_when_some_commands_failed(call: Calls) -> None:
    waiting = call(2, only_acknowledged=True)
    waiting.pendings[0].failed(errors.Unavailable())
    waiting.pendings[1].acknowledged(0, 1)
    assert waiting.done.done()


def test_the_stored_result_tells_whose_it_is(call: Calls) -> None:
    """Ours when it was decided at our place in the topic; another place means that an earlier try was decided."""
    ours, earlier, foreign = call(3).pendings
    for pending in (ours, earlier, foreign):
        pending.acknowledged(2, 20)
    ours.decided_by_store(Stored(b"h", b"body", "committed", 2, 20))
    earlier.decided_by_store(Stored(b"h", b"body", "refused", 2, 7))
    foreign.decided_by_store(Stored(b"other", b"body", "committed", 2, 7))
    assert (ours.outcome, ours.replayed) == ("committed", False)
    assert (earlier.outcome, earlier.replayed) == ("refused", True)
    assert (foreign.outcome, b"key_reused" in foreign.body) == ("refused", True)


def test_a_drain_ends_a_wait_as_it_is(call: Calls) -> None:
    waiting = call()
    waiting.stop_waiting()
    waiting.stop_waiting()
    assert waiting.done.done()
    assert waiting.pendings[0].open


def test_reads_that_come_during_a_query_share_the_next_one() -> None:
    asked: list[list[int]] = []
    begun, gate = asyncio.Event(), asyncio.Event()

    async def read(numbers: Sequence[int]) -> list[int]:
        asked.append(list(numbers))
        begun.set()
        await gate.wait()
        return [n * 2 for n in numbers]

    async def play() -> list[int]:
        coalescer = Coalescer(read, batch_max=3, running_max=1)
        tasks = [asyncio.create_task(coalescer.ask(n)) for n in range(6)]
        await begun.wait()
        tasks[1].cancel()
        gate.set()
        return [r for r in await asyncio.gather(*tasks, return_exceptions=True) if isinstance(r, int)]

    assert asyncio.run(play()) == [0, 4, 6, 8, 10]
    assert asked == [[0], [1, 2, 3], [4, 5]]


def test_a_failed_query_fails_all_that_shared_it_and_no_other() -> None:
    fail = [True]

    async def read(numbers: Sequence[int]) -> list[int]:
        await asyncio.sleep(0)
        if fail.pop() if fail else False:
            raise errors.Unavailable
        return list(numbers)

    async def play() -> None:
        coalescer = Coalescer(read, batch_max=10, running_max=1)
        with pytest.raises(errors.Unavailable):
            await coalescer.ask(1)
        assert await coalescer.ask(2) == 2

    asyncio.run(play())


def test_a_circuit_opens_after_failures_in_a_row_and_tries_once_in_a_while() -> None:
    now = [0.0]
    breaker = Breaker("The database", clock=lambda: now[0])
    for _ in range(limits.BREAKER_FAILURES_MAX - 1):
        breaker.enter()
        breaker.failed()
    breaker.succeeded()
    for _ in range(limits.BREAKER_FAILURES_MAX):
        breaker.enter()
        breaker.failed()
    with pytest.raises(errors.Unavailable):
        breaker.enter()
    now[0] += limits.BREAKER_OPEN_S
    breaker.enter()  # the one trial
    with pytest.raises(errors.Unavailable):
        breaker.enter()
    breaker.succeeded()
    breaker.enter()
