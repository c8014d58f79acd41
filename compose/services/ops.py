"""The loopback port of one process for its operator: /healthz, /startz, /readyz and Prometheus /metrics.

/startz is asked by the supervisor: a process that has started and yet cannot serve everything is not started again.
/healthz is, too, for ever: a process whose loop or lanes hang is not healthy, though these threads here answer.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from concurrent.futures import CancelledError
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Final

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from compose import limits
from compose.stack.errors import StackError
from sinks.streams.standing_still import StandsStill

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

LOOPBACK: Final = "127.0.0.1"
PORT_VARIABLE: Final = "MILLRACE_OPS_PORT"
_LOOKS_FOR_ITS_END_S: Final = 3_600  # it has none before that of the process
_ENDING: Final = "the process is ending"
_TEXT: Final = "text/plain; charset=utf-8"


class OpsServer(ThreadingHTTPServer):
    """Answers from threads of its own, so that it answers while the process works."""

    daemon_threads = True

    def __init__(
        self,
        port: int,
        ready: Callable[[], bool | str],
        started: Callable[[], bool | str],
        alive: Callable[[], bool | str] = lambda: True,
    ) -> None:
        super().__init__((LOOPBACK, port), _Handler)
        self.alive = alive
        self.ready = ready
        self.started = started


class _Handler(BaseHTTPRequestHandler):
    server: OpsServer
    timeout = limits.HEALTH_CHECK_TIMEOUT_S

    def do_GET(self) -> None:
        match self.path:
            case "/healthz":
                self._tell(self.server.alive(), "ok")
            case "/readyz":
                self._tell(self.server.ready(), "ready")
            case "/startz":
                self._tell(self.server.started(), "ready")
            case "/metrics":
                self._send(HTTPStatus.OK, CONTENT_TYPE_LATEST, generate_latest())
            case _:
                self._send(HTTPStatus.NOT_FOUND, _TEXT, b"there are /healthz, /startz, /readyz and /metrics\n")

    def _tell(self, said: bool | str, good: str) -> None:
        status = HTTPStatus.OK if said is True else HTTPStatus.SERVICE_UNAVAILABLE
        reason = good if said is True else said or f"not {good}"
        self._send(status, _TEXT, f"{reason}\n".encode())

    def _send(self, status: HTTPStatus, content_type: str, body: bytes) -> None:
        with suppress(ConnectionError):  # who asked waits no more, which is nothing to log
            self.send_response(status)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - as the class it overrides
        """No access log: the supervisor asks all the time."""


def asked_on(
    loop: asyncio.AbstractEventLoop, why_not_ready: Callable[[], Coroutine[None, None, str | None]]
) -> Callable[[], bool | str]:
    """Readiness for ``serve_ops``, whose threads ask, of parts that live on a loop. One that hangs is not ready."""

    def ready() -> bool | str:
        question = why_not_ready()
        try:
            asked = asyncio.run_coroutine_threadsafe(question, loop)
        except RuntimeError:  # the loop is closed
            question.close()
            return _ENDING
        try:
            return asked.result(limits.HEALTH_CHECK_TIMEOUT_S) or True
        except TimeoutError:
            asked.cancel()
            return "no answer in time"
        except CancelledError:
            return _ENDING

    return ready


def turning(loop: asyncio.AbstractEventLoop) -> Callable[[], bool | str]:
    """Whether the loop turns, for ``serve_ops``; made by the loop's own thread. One that hangs runs nothing."""
    turned_at = time.monotonic()

    def turn() -> None:
        nonlocal turned_at
        turned_at = time.monotonic()
        loop.call_later(limits.LOOP_BEAT_INTERVAL_S, turn)

    def alive() -> bool | str:
        silent_s = time.monotonic() - turned_at
        return silent_s < limits.LOOP_SILENT_MAX_S or f"the loop has not turned for {silent_s:.0f} s"

    turn()
    return alive


def _started(ready: Callable[[], bool | str]) -> bool | str:
    said = ready()
    return isinstance(said, StandsStill) or said


def serve_ops(
    port: int | None,
    ready: Callable[[], bool | str],
    *,
    started: Callable[[], bool | str] | None = None,
    alive: Callable[[], bool | str] = lambda: True,
) -> OpsServer | None:
    """Serves health and metrics from a thread until the process ends; ``ready`` answers True or why not.

    ``started`` is as ``ready`` unless given: whether the process is up, whatever it cannot serve; partitions that stand
    still are no reason. ``alive``: whether it
    goes on by itself; one that does not for long is killed and started again.
    ``port`` None takes ``MILLRACE_OPS_PORT``; without either nothing is served and None is returned. Raises StackError
    when the port is busy.
    """
    chosen = port if port is not None else int(os.environ.get(PORT_VARIABLE, "0"))
    if not chosen:
        return None
    try:
        server = OpsServer(chosen, ready, started or partial(_started, ready), alive)
    except OSError as error:
        raise StackError(f"{PORT_VARIABLE}={chosen}: {error.strerror}; choose a free port, or 0 for none") from error
    serve = partial(server.serve_forever, poll_interval=_LOOKS_FOR_ITS_END_S)
    threading.Thread(target=serve, name="ops", daemon=True).start()
    return server
