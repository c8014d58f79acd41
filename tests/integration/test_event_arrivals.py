"""What wakes streams and long polls: Kafka tells that something came; what it was is read from Postgres, without a gap."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from ingress import limits
from ingress.commands.arrivals import Arrivals, woken
from ingress.commands.events import Events, EventStreams
from ingress.commands.watch import Watch
from ingress.http.cursors import Cursors
from ingress.http.store import Store
from ingress.identity.caller import Caller
from schemas.payments import rendering
from schemas.payments.service import SERVICE as PAYMENTS
from sinks.kafka.connection import KafkaConnection
from tests.eventually import patient
from tests.worlds.public_system import merchant, public

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.worlds.public_system import Merchant, PublicSystem

__all__ = ["merchant", "public"]  # the fixtures of this module
pytestmark = pytest.mark.servers

TOPIC = PAYMENTS.events_topic
NOWHERE = KafkaConnection(bootstrap="127.0.0.1:1")


def made(merchant: Merchant, count: int = 1) -> list[str]:
    return [str(merchant.create().json()["result"]["id"]) for _ in range(count)]


@asynccontextmanager
async def arrivals_over(kafka: KafkaConnection) -> AsyncIterator[Arrivals]:
    arrivals = Arrivals(kafka, "millrace-ingress-test", {TOPIC: PAYMENTS.partitions})
    try:
        yield arrivals
    finally:
        await asyncio.to_thread(arrivals.close)


@asynccontextmanager
async def store_of(public: PublicSystem) -> AsyncIterator[Store]:
    store = Store(public.settings.addresses().postgres_dsns["millrace_ingress"])
    await store.open()
    try:
        yield store
    finally:
        await store.close()


def test_an_event_wakes_those_of_its_aggregate_and_those_of_its_topic(public: PublicSystem, merchant: Merchant) -> None:
    """Others sleep on. Before, and whenever reading begins, everybody looks: nothing falls between."""
    (ours,) = made(merchant)

    async def listen() -> None:
        mine, every, nobodys = asyncio.Event(), asyncio.Event(), asyncio.Event()
        async with arrivals_over(public.settings.kafka_of("ingress")) as arrivals:
            with (
                arrivals.listening(mine, TOPIC, ours),
                arrivals.listening(every, TOPIC),
                arrivals.listening(nobodys, TOPIC, "pi_nobody_made"),
            ):
                for heard in (mine, every, nobodys):
                    assert await woken(heard, patient(20)), "who listened before reading began looks once it has"
                    heard.clear()
                assert arrivals.look_within_s(TOPIC) == limits.EVENTS_LOOK_UNASKED_S
                await asyncio.to_thread(merchant.act, ours, "cancel")
                assert await woken(mine, patient(20))
                assert every.is_set()
                assert not nobodys.is_set()
            late = asyncio.Event()
            with arrivals.listening(late, TOPIC):  # once more: reading goes on, or begins anew
                await asyncio.to_thread(made, merchant)
                assert await woken(late, patient(20))

    asyncio.run(listen())


def test_a_slow_stream_loses_nothing_while_kafka_tells_nothing(public: PublicSystem, merchant: Merchant) -> None:
    """Every event once and in order, of a stream that is read late, without a Kafka to wake it."""
    caller = Caller(
        principal=merchant.name, subject="s", scopes=frozenset({"payments:read"}), expires_at=time.time() + 600
    )

    async def allowed() -> None:
        return

    async def follow() -> tuple[list[str], list[str]]:
        async with arrivals_over(NOWHERE) as arrivals, store_of(public) as store:
            events = Events(store, Cursors(b"k" * 32), PAYMENTS, rendering.payment_event_body)
            streams = EventStreams(events, store, arrivals)
            frames = streams.stream(caller, await events.end(), allowed)
            assert (await anext(frames)).startswith(b"retry")
            wanted = await asyncio.to_thread(made, merchant, 3)
            heard = keys(await anext(frames))
            wanted += await asyncio.to_thread(made, merchant, 12)  # nobody reads meanwhile
            async with asyncio.timeout(patient(30)):
                while len(heard) < len(wanted):
                    heard += keys(await anext(frames))
            streams.close()
            await frames.aclose()  # type: ignore[attr-defined] # it is a generator
            return wanted, heard

    wanted, heard = asyncio.run(follow())
    assert heard == wanted


def keys(frame: bytes) -> list[str]:
    rows: list[dict[str, Any]] = [json.loads(row[5:]) for row in frame.splitlines() if row.startswith(b"data:")]
    return [row["aggregate_key"] for row in rows]


@pytest.mark.parametrize("tells", [True, False], ids=["kafka-tells", "kafka-is-away"])
def test_a_wait_ends_when_the_object_has_moved_on(public: PublicSystem, merchant: Merchant, *, tells: bool) -> None:
    """At once for one that moved on before the wait, and whether or not Kafka tells of it."""
    (before,), query = made(merchant), "intents_moved_on"

    async def wait() -> None:
        kafka = public.settings.kafka_of("ingress") if tells else NOWHERE
        async with arrivals_over(kafka) as arrivals, store_of(public) as store:
            watch = Watch(store, query, arrivals, TOPIC)
            async with asyncio.timeout(patient(20)):
                await watch.moved_on(before, before, patient(60))
            waiting = asyncio.create_task(watch.moved_on("pi_nobody_made", "pi_nobody_made", patient(60)))
            await asyncio.sleep(0)
            watch.drain()
            async with asyncio.timeout(patient(10)):
                await waiting

    asyncio.run(wait())
