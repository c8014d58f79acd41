"""Readiness that is asked from another thread than the one it lives on: always an answer, within the bound."""

from __future__ import annotations

import asyncio
import http.client
import socket
import struct
import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from compose import limits
from compose.services.ops import OpsServer, _started, asked_on, turning
from dataflows import limits as dataflows_limits
from dataflows.owner.process import Lane, OwnerProcess
from dataflows.owner.publisher import MarkTimer
from dataflows.owner.transaction.size import TransactionSize
from sinks.streams.standing_still import StandsStill, together
from tests.eventually import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    """A loop that turns in a thread of its own."""
    made = asyncio.new_event_loop()
    thread = threading.Thread(target=made.run_forever)
    thread.start()
    yield made
    made.call_soon_threadsafe(made.stop)
    thread.join()
    made.close()


@pytest.mark.parametrize(("reason", "said"), [(None, True), ("Postgres is away", "Postgres is away")])
def test_what_the_loop_says_is_said(loop: asyncio.AbstractEventLoop, reason: str | None, said: bool | str) -> None:
    """Ready is True, anything else the reason."""

    async def why_not_ready() -> str | None:
        return reason

    assert asked_on(loop, why_not_ready)() == said


def test_no_answer_is_an_answer(loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch) -> None:
    """A part that hangs is not ready, and nothing of the question is left on the loop."""
    monkeypatch.setattr(limits, "HEALTH_CHECK_TIMEOUT_S", 0.05)
    given_up = threading.Event()

    async def why_not_ready() -> str | None:
        try:
            await asyncio.Event().wait()
        finally:
            given_up.set()
        return None

    assert asked_on(loop, why_not_ready)() == "no answer in time"
    assert given_up.wait(10)


def test_a_process_that_is_ending_says_so(loop: asyncio.AbstractEventLoop) -> None:
    """Its log is left alone: whoever asks meanwhile, or after it, is no exception."""

    async def why_not_ready() -> str | None:
        for task in asyncio.all_tasks():  # as a loop does that is wound up
            task.cancel()
        await asyncio.Event().wait()
        return None

    assert asked_on(loop, why_not_ready)() == "the process is ending"
    closed = asyncio.new_event_loop()
    closed.close()
    assert asked_on(closed, why_not_ready)() == "the process is ending"


def test_a_loop_that_hangs_is_not_alive_until_it_turns_again(
    loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "LOOP_BEAT_INTERVAL_S", 0.0)
    monkeypatch.setattr(limits, "LOOP_SILENT_MAX_S", 3_600.0)

    async def watched() -> Callable[[], bool | str]:
        return turning(asyncio.get_running_loop())

    alive = asyncio.run_coroutine_threadsafe(watched(), loop).result(20)
    assert alive() is True
    go_on = threading.Event()
    loop.call_soon_threadsafe(go_on.wait)
    monkeypatch.setattr(limits, "LOOP_SILENT_MAX_S", 0.5)
    eventually(lambda: alive() is not True, what="it is seen that the loop hangs")
    assert "the loop has not turned for" in str(alive())
    go_on.set()
    eventually(lambda: alive() is True, what="it turns again")


def test_a_lane_that_hangs_is_told_and_one_that_waits_for_kafka_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dataflows_limits, "OWNER_LANE_SILENT_MAX_S", 0.1)
    go_on, waits = threading.Event(), threading.Event()

    class Hanging:
        """A reader and a publisher of which every call that takes long waits for us."""

        service = None
        refusals = dict
        serve = staticmethod(lambda: None)
        backlog = staticmethod(lambda: 0)
        all = staticmethod(list)
        done = staticmethod(lambda _: None)
        stop_reading = staticmethod(lambda: None)

        def next_round(self, _: float) -> list[Any]:
            waits.set()
            go_on.wait(60)
            return []

        publish = next_round

    hanging: Any = Hanging()
    hanging.rounds = hanging
    process = OwnerProcess.__new__(OwnerProcess)
    process.leases = process.reader = process.publisher = hanging
    process.size, process.large, process.failure = TransactionSize(), threading.Lock(), None
    process.marks = MarkTimer()
    lane: Any = Lane(process, cast("Any", SimpleNamespace()))  # it has no transaction here
    process.lanes = [lane]
    assert process.hanging() is None  # nothing is expected yet
    batch: Any = SimpleNamespace(parked=0, closes=False)
    for call, is_told in ((lane.next_round, True), (lambda: lane.publish(batch), False)):
        go_on.clear()
        waits.clear()
        turned = threading.Thread(target=process._turn, args=(lambda _, call=call: call(), lane))
        turned.start()
        assert waits.wait(20)
        if is_told:
            eventually(lambda: process.hanging() is not None, what="it is told")
        assert (process.hanging() is not None) is is_told
        go_on.set()
        turned.join()
        assert process.hanging() is None  # it has ended


@pytest.mark.parametrize(("path", "status"), [("/readyz", 503), ("/startz", 200), ("/healthz", 200)])
def test_a_process_that_cannot_serve_everything_has_started(path: str, status: int) -> None:
    """The supervisor would start an owner with one halted partition again and again, and nobody would serve the others."""
    server = OpsServer(0, lambda: "partition 3 stands still", lambda: True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        connection = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=10)
        connection.request("GET", path)
        answer = connection.getresponse()
        said = answer.read()
        connection.close()
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    assert answer.status == status
    assert (b"partition 3 stands still" in said) is (path == "/readyz")


@pytest.mark.parametrize(
    ("reasons", "has_started"),
    [
        ([None, None], True),
        ([StandsStill("partition 3 stands still"), None], True),
        ([StandsStill("partition 3 stands still"), StandsStill("partition 5 stands still")], True),
        ([StandsStill("partition 3 stands still"), "Kafka is away"], False),
        (["Kafka is away"], False),
    ],
)
def test_whose_partitions_stand_still_has_started(reasons: list[str | None], has_started: bool) -> None:
    """A new start mends nothing, and while it does not start, no stack does: nobody could look at what is amiss."""
    said = _started(lambda: together(reasons) or True)
    assert (said is True) is has_started
    assert has_started or said == "; ".join(filter(None, reasons))


def test_who_asks_and_does_not_wait_is_not_in_the_log(capsys: pytest.CaptureFixture[str]) -> None:
    """Ends it with a reset, as the supervisor's question on a busy machine may."""
    asked, left = threading.Event(), threading.Event()

    def ready() -> bool:
        asked.set()
        return left.wait(20)

    server = OpsServer(0, ready, lambda: True)
    server.daemon_threads = False  # its end waits for them
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        with socket.create_connection(("127.0.0.1", server.server_address[1])) as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.sendall(b"GET /readyz HTTP/1.0\r\n\r\n")
            assert asked.wait(20)
        left.set()
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    assert capsys.readouterr().err == ""


def test_a_process_that_hangs_is_not_healthy() -> None:
    server = OpsServer(0, lambda: True, lambda: True, lambda: "the loop has not turned for 31 s")
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        connection = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=10)
        connection.request("GET", "/healthz")
        answer = connection.getresponse()
        assert (answer.status, answer.read()) == (503, b"the loop has not turned for 31 s\n")
        connection.close()
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
