"""A ClickHouse front of its own for the contract suite, which kills it and starts it again."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import clickhouse_connect
import pytest

from compose.stack import processes
from compose.stack.clickhouse.server import ClickHouse
from compose.stack.ports import PortLeases
from tests.eventually import eventually, patient

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from clickhouse_connect.driver.client import Client

PASSWORD = "a password with ' quotes & signs"
READER_PASSWORD = "another one"


@dataclass
class FrontProcess:
    """The server under test: a real process on a data folder that outlives it."""

    folder: Path
    server: ClickHouse
    handle: processes.ChildProcess | None = field(default=None)

    def start(self) -> None:
        self.server.prepare()
        self.handle = processes.spawn(
            self.server.command(),
            environment=self.server.environment(),
            log=self.folder / "front.log",
            folder=self.folder,
        )
        eventually(lambda: self.server.unhealthy() is None, within_s=30, what="the front answers")
        eventually(self._is_initialized, within_s=30, what="the front has its database")

    def _is_initialized(self) -> bool:
        """The stack's own way, which waits for an answer no longer than a health check."""
        try:
            self.server.initialize()
        except OSError:
            return False
        return True

    def stop(self, number: signal.Signals) -> int:
        assert self.handle is not None
        os.kill(self.handle.pid, number)
        return self.handle.wait(patient(20))

    def client(self, username: str = "default", **options: object) -> Client:
        return clickhouse_connect.get_client(
            host="127.0.0.1",
            port=self.server.port,
            username=username,
            password=PASSWORD if username == "default" else READER_PASSWORD,
            database="millrace",
            **options,
        )


@pytest.fixture(scope="module")
def front(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FrontProcess]:
    folder = tmp_path_factory.mktemp("clickhouse")
    leases = PortLeases()
    process = FrontProcess(folder, ClickHouse(folder / "data", leases.take_any(), PASSWORD, READER_PASSWORD))
    process.start()
    yield process
    process.stop(signal.SIGTERM)
    leases.close()


@pytest.fixture
def client(front: FrontProcess) -> Iterator[Client]:
    made = front.client()
    yield made
    made.close()
