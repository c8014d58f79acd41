"""The processor simulator as a caller meets it: a real process on real sockets, for the tests that use it."""

from __future__ import annotations

import base64
import itertools
import os
import socket
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import httpx
import pytest

from compose.simulator import limits
from tests.eventually import eventually, patient

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HOLD_MS: Final = 1_000
START_WITHIN_S: Final = 15
STOP_SLACK_S: Final = 5
ANSWER_WITHIN_S: Final = 10
UNREADABLE: Final = "unreadable"
SECRET: Final = "whsec_" + base64.b64encode(b"a secret of the tests only").decode()

_numbers = itertools.count(1)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def command(folder: Path, port: int, hold_ms: int = HOLD_MS, webhook_url: str | None = None) -> list[str]:
    program = [sys.executable, "-m", "compose.simulator"]
    told = [] if webhook_url is None else ["--webhook-url", webhook_url]
    return [*program, "--folder", str(folder), "--port", str(port), "--hold-ms", str(hold_ms), *told]


class Simulator:
    """One simulator process, its client, and the card processor's words for short."""

    def __init__(self, folder: Path, port: int, hold_ms: int, webhook_url: str | None) -> None:
        self.folder, self.port = folder, port
        self._command = command(folder, port, hold_ms, webhook_url)
        self.client = httpx.Client(
            base_url=f"http://127.0.0.1:{port}",
            timeout=patient(ANSWER_WITHIN_S),
            limits=httpx.Limits(max_connections=64),
        )
        self.process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(self._command, env=os.environ | {"SIMULATOR_WEBHOOK_SECRET": SECRET})
        eventually(lambda: process.poll() is not None or self.is_ready(), START_WITHIN_S)
        assert process.poll() is None, "the simulator ended at its start"
        return process

    def is_ready(self) -> bool:
        try:
            return self.client.get("/readyz").status_code == 200
        except httpx.TransportError:
            return False

    def kill_and_restart(self) -> None:
        self.process.kill()
        self.process.wait()
        self.process = self._start()

    def stop(self) -> int:
        self.process.terminate()
        try:
            return self.process.wait(timeout=patient(limits.SIMULATOR_DRAIN_TIMEOUT_S + STOP_SLACK_S))
        finally:
            self.process.kill()
            self.process.wait()
            self.client.close()

    def post(self, key: str, kind: str = "purchase", amount: int = 100, **changes: Any) -> httpx.Response:
        body = {"kind": kind, "reference": "pi_1", "amount": amount, "currency": "USD"} | changes
        if kind in {"authorize", "purchase"}:
            body.setdefault("token", "tok_sim_approve")
        return self.client.post("/v1/operations", json=body, headers={"Idempotency-Key": key})

    def captured(self, key: str, amount: int = 100, **changes: Any) -> str:
        """The provider_ref of a purchase that was captured."""
        answer = self.post(key, amount=amount, **changes).json()
        assert answer["status"] == "captured"
        return str(answer["provider_ref"])

    def query(self, key: str) -> httpx.Response:
        return self.client.get(f"/v1/operations/{key}")

    def book(self, *keys: str) -> dict[str, dict[str, int]]:
        """Section to operation to amount, of the given operations only; one entry for each or the test fails."""
        content = self.client.get("/book").json()
        sections = {
            section: [(entry["operation_id"], entry["amount"]) for entry in entries]
            for section, entries in content.items()
            if section != "disputes"
        }
        for entries in sections.values():
            assert len(dict(entries)) == len(entries), "an operation stands twice in the book"
        return {
            section: {key: amount for key, amount in entries if key in keys} for section, entries in sections.items()
        }


@contextmanager
def running(folder: Path, hold_ms: int = HOLD_MS, webhook_url: str | None = None) -> Iterator[Simulator]:
    simulator = Simulator(folder, free_port(), hold_ms, webhook_url)
    try:
        yield simulator
    finally:
        simulator.stop()


@pytest.fixture(scope="module")
def simulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Simulator]:
    with running(tmp_path_factory.mktemp("simulator")) as started:
        yield started


@pytest.fixture
def key() -> str:
    return f"op_{next(_numbers)}"


def content_of(response: httpx.Response) -> Any:
    try:
        return response.json()
    except ValueError:
        return UNREADABLE
