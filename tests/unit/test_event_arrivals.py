"""Who is woken by what Kafka tells, and what happens where it tells nothing."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ingress import limits
from ingress.commands.arrivals import Arrivals
from ingress.commands.watch import Watch
from sinks import limits as sinks_limits
from sinks.kafka.connection import KafkaConnection
from tests.eventually import patient

PAID, POSTED = "events.payments.v1", "events.social.v1"


@pytest.fixture
def arrivals(monkeypatch: pytest.MonkeyPatch) -> Arrivals:
    """Of a Kafka that is away."""
    monkeypatch.setattr(sinks_limits, "KAFKA_ADMIN_TIMEOUT_S", 0.01)
    return Arrivals(KafkaConnection(bootstrap="127.0.0.1:1"), "test", {PAID: 2, POSTED: 2})


class Moved:
    """A store in which objects move on when they are told to."""

    def __init__(self) -> None:
        self.ids: set[str] = set()
        self.asked_for: asyncio.Queue[list[str]] = asyncio.Queue()

    async def rows(self, _: str, parameters: dict[str, Any]) -> list[tuple[str]]:
        self.asked_for.put_nowait(parameters["ids"])
        return [(one,) for one in parameters["ids"] if one in self.ids]


def test_a_record_wakes_its_aggregate_and_its_topic(arrivals: Arrivals) -> None:
    """And a loss, or the beginning of reading, everybody of the topic."""

    async def listen() -> None:
        a, b, paid, posted = events = [asyncio.Event() for _ in range(4)]
        with (
            arrivals.listening(a, PAID, "a"),
            arrivals.listening(b, PAID, "b"),
            arrivals.listening(paid, PAID),
            arrivals.listening(posted, POSTED),
        ):
            for heard, woken in (
                ({(PAID, "a")}, [a, paid]),
                ({(PAID, "nobody"), (POSTED, "a")}, [paid, posted]),
                ({(PAID, None)}, [a, b, paid]),
            ):
                arrivals._wake(heard)
                assert [event for event in events if event.is_set()] == woken
                for event in events:
                    event.clear()
        arrivals._wake({(PAID, None), (POSTED, None)})
        assert not any(event.is_set() for event in events), "who does not listen any more is left alone"

    asyncio.run(listen())
    arrivals.close()


def test_without_kafka_looks_are_frequent(arrivals: Arrivals) -> None:
    async def listen() -> None:
        with arrivals.listening(asyncio.Event(), PAID):
            assert arrivals.look_within_s(PAID) == limits.EVENT_POLL_INTERVAL_MS / 1_000 < limits.EVENTS_LOOK_UNASKED_S

    asyncio.run(listen())
    arrivals.close()


def test_a_wait_looks_when_it_begins_when_it_is_told_and_now_and_then(
    arrivals: Arrivals, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "EVENT_POLL_INTERVAL_MS", 3_600_000)  # unasked, it looks never

    async def wait() -> None:
        store = Moved()
        watch = Watch(store, "moved", arrivals, PAID)  # type: ignore[arg-type] # what is asked of it
        store.ids.add("early")
        async with asyncio.timeout(patient(20)):
            await watch.moved_on("early", "early", patient(60))
        waiting = asyncio.create_task(watch.moved_on("re_1", "pi_1", patient(60)))
        async with asyncio.timeout(patient(20)):
            while await store.asked_for.get() != ["re_1"]:
                pass
        store.ids.add("re_1")
        arrivals._wake({(PAID, "pi_1")})
        async with asyncio.timeout(patient(20)):
            await waiting
        monkeypatch.setattr(limits, "EVENT_POLL_INTERVAL_MS", 1)
        store.ids.add("late")
        async with asyncio.timeout(patient(20)):
            await watch.moved_on("late", "late", patient(60))
        assert watch._watched == {}

    asyncio.run(wait())
    arrivals.close()
