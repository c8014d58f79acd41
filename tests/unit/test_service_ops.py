"""Readiness that is asked from another thread than the one it lives on: always an answer, within the bound."""

from __future__ import annotations

import asyncio
import http.client
import threading
from typing import TYPE_CHECKING

import pytest

from compose import limits
from compose.services.ops import OpsServer, asked_on

if TYPE_CHECKING:
    from collections.abc import Iterator


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
