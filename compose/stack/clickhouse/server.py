"""ClickHouse on loopback: the chdb engine behind a front that speaks ClickHouse's HTTP interface."""

from __future__ import annotations

import http.client
import importlib.util
import json
import signal
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from compose import limits
from compose.stack.clickhouse.users import READER, USER
from compose.stack.errors import StackError
from compose.stack.ports import LOOPBACK
from sinks import private_file

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

DATABASE: Final = "millrace"
_OK: Final = 200


@dataclass(slots=True)
class ClickHouse:
    """One process with the engine in it; the passwords reach it in a private file."""

    data: Path
    port: int
    password: str = field(repr=False)
    reader_password: str = field(repr=False)
    name: str = "clickhouse"
    stop_signal: signal.Signals = signal.SIGTERM

    @property
    def address(self) -> str:
        """Host and port."""
        return f"{LOOPBACK}:{self.port}"

    def prepare(self) -> None:
        """The engine is installed and has a folder."""
        if importlib.util.find_spec("chdb") is None:
            message = "no ClickHouse engine found: run 'make setup', or set MILLRACE_CLICKHOUSE_URL to a server"
            raise StackError(message)
        self.data.mkdir(parents=True, exist_ok=True)
        private_file.replace(self._passwords, json.dumps({USER: self.password, READER: self.reader_password}))

    @property
    def _passwords(self) -> Path:
        return self.data.with_name(f"{self.data.name}.passwords.json")  # beside what the engine may read

    def command(self) -> Sequence[str]:
        """The front in the foreground."""
        where = ["--port", str(self.port), "--data", str(self.data), "--passwords", str(self._passwords)]
        return [sys.executable, "-m", "compose.stack.clickhouse.front", *where]

    def environment(self) -> Mapping[str, str]:
        """Nothing is added."""
        return {}

    def unhealthy(self) -> str | None:
        """None once it answers a query with the password."""
        try:
            status, body = self._request("SELECT 1")
        except OSError as error:
            return str(error)
        return None if status == _OK else body

    def initialize(self) -> None:
        """The database exists."""
        status, body = self._request(f"CREATE DATABASE IF NOT EXISTS {DATABASE}")
        if status != _OK:
            raise StackError(f"ClickHouse cannot create its database: {body}")

    def _request(self, query: str) -> tuple[int, str]:
        connection = http.client.HTTPConnection(LOOPBACK, self.port, timeout=limits.HEALTH_CHECK_TIMEOUT_S)
        try:
            headers = {"X-ClickHouse-User": "default", "X-ClickHouse-Key": self.password}
            connection.request("POST", "/", body=query, headers=headers)
            answer = connection.getresponse()
            return answer.status, answer.read().decode(errors="replace")
        except http.client.HTTPException as error:
            raise ConnectionError(str(error)) from error
        finally:
            connection.close()
