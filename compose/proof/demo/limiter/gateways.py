"""The processes of the replay: one Valkey, three gateways, and the signed policies that they follow.

A gateway here is what ``compose.services.limiter_gateway`` runs (library, follower of signed snapshots, frames, leases
settled in the background), without Envoy's service and without Kafka behind the recorder.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import signal
import sys
import threading
import time
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from compose.proof.bench.limiter.world import NoStream, counter_server
from compose.services.limiting import kept_going
from compose.services.logs import configure_logs
from compose.stack.errors import StackError
from compose.stack.ports import LOOPBACK
from limiter.decide.limiter import Limiter
from limiter.edge.frame_server import FrameServer
from limiter.policy.follower import SnapshotFollower
from limiter.policy.published import PATH, PublishedOverHttp
from limiter.policy.snapshot import Snapshot, digest, key_id, sign
from limiter.store.store import CounterStore
from limiter.stream.decisions import Recorder
from schemas.limiter import limits

if TYPE_CHECKING:
    from collections.abc import Iterator
    from multiprocessing.context import SpawnProcess

    from schemas.limiter.limit_policy import LimitPolicy

GATEWAYS: Final = 3
STORE_TIMEOUT_S: Final = 5.0  # what is proved is the arithmetic, not the speed of this machine
_START_S: Final = 60.0
_STOP_S: Final = 30.0
_LOOK_S: Final = 0.02


class Publication:
    """Serves the newest signed snapshot on loopback, as the platform's ingress does."""

    def __init__(self) -> None:
        self._key = Ed25519PrivateKey.generate()
        self._document = b""
        self._revision = 0
        self.public_key = self._key.public_key().public_bytes_raw()
        self._server = ThreadingHTTPServer((LOOPBACK, 0), self._handler())
        self.url = f"http://{LOOPBACK}:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def publish(self, policies: list[LimitPolicy]) -> int:
        """Gateways use these as soon as they look. Gives the revision."""
        self._revision += 1
        now = int(time.time())
        until = now + limits.LIMIT_SNAPSHOT_LIFE_S
        self._document = sign(
            Snapshot(revision=self._revision, issued_at=now, not_after=until, policies=policies), self._key
        )
        return self._revision

    def close(self) -> None:
        """Serves no more."""
        self._server.shutdown()
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        publication = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                document = publication._document
                tag = f'"{digest(document)}"'
                status = 404 if self.path != PATH else 304 if self.headers["If-None-Match"] == tag else 200
                body = document if status == 200 else b""  # noqa: PLR2004
                self.send_response(status)
                self.send_header("ETag", tag)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Says nothing."""

        return Handler


class Gateways:
    """Three processes. Gateway ``n`` listens on ``ports[n]``.

    No Unix sockets: the path of a temporary folder may be too long for one.
    """

    def __init__(self, store_url: str, folder: Path, publication: Publication) -> None:
        self.store_url = store_url
        self.publication = publication
        self._files = [folder / f"gateway-{n}" for n in range(GATEWAYS)]
        self.ports: list[int] = []
        self.alive = set(range(GATEWAYS))
        context = multiprocessing.get_context("spawn")
        self._processes: list[SpawnProcess] = [
            context.Process(
                target=_serve, args=(n, store_url, str(path), publication.url, publication.public_key), daemon=True
            )
            for n, path in enumerate(self._files)
        ]
        for process in self._processes:
            process.start()

    def wait_until_ready(self) -> None:
        """Each has a snapshot before it listens. Raises StackError."""
        until = time.monotonic() + _START_S
        while not all(_port_of(path).exists() for path in self._files):
            if time.monotonic() > until or not all(process.is_alive() for process in self._processes):
                raise StackError("a gateway of the replay did not start")
            time.sleep(_LOOK_S)
        self.ports = [int(_port_of(path).read_text()) for path in self._files]

    def wait_until_followed(self, revision: int) -> None:
        """Returns when every gateway that lives decides by that revision. Raises StackError."""
        until = time.monotonic() + _START_S
        while not all(_revision_of(self._files[n]).read_text() == str(revision) for n in self.alive):
            if time.monotonic() > until:
                raise StackError(f"a gateway of the replay does not take policies of revision {revision}")
            time.sleep(_LOOK_S)

    def kill(self, number: int) -> int:
        """SIGKILL: it settles nothing and says nothing. Gives its pid."""
        process = self._processes[number]
        process.kill()
        process.join()
        self.alive.discard(number)
        return process.pid or 0

    def stop(self) -> None:
        """SIGTERM: those that live give their leases back."""
        for number in self.alive:
            self._processes[number].terminate()
        for process in self._processes:
            process.join(_STOP_S)
            if process.is_alive():
                process.kill()
                process.join()
        self.alive.clear()


@contextmanager
def running_gateways(policies: list[LimitPolicy]) -> Iterator[Gateways]:
    """Everything that a replay needs; nothing is left behind. Raises StackError."""
    with ExitStack() as leaving:
        url, folder = leaving.enter_context(counter_server())
        publication = Publication()
        leaving.callback(publication.close)
        publication.publish(policies)
        gateways = Gateways(url, folder, publication)
        leaving.callback(gateways.stop)
        gateways.wait_until_ready()
        yield gateways


def _port_of(file: Path) -> Path:
    """Where a gateway says on which port it listens, when it does."""
    return file.with_suffix(".port")


def _revision_of(file: Path) -> Path:
    """Where a gateway keeps the revision of the policies that it has taken."""
    return file.with_suffix(".revision")


def lease_owner(number: int) -> str:
    """What the names of a gateway's leases begin with."""
    return f"demo-gateway-{number}"


def _serve(number: int, store_url: str, file: str, snapshots: str, public_key: bytes) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's, which stops its gateways
    configure_logs("warning", sys.stderr)  # stdout is the parent's
    asyncio.run(_served(number, store_url, Path(file), snapshots, Ed25519PublicKey.from_public_bytes(public_key)))


async def _served(number: int, store_url: str, file: Path, snapshots: str, key: Ed25519PublicKey) -> None:
    store = CounterStore(store_url, timeout_s=STORE_TIMEOUT_S)
    await store.load()
    recorder = Recorder(lease_owner(number), NoStream(), file.with_suffix(".ring"))
    limiter = Limiter(store, recorder, lease_owner(number))
    remembered = _revision_of(file)
    published = PublishedOverHttp(snapshots, lambda: "demo")
    follower = SnapshotFollower(published, lambda: {key_id(key): key}, limiter.use, remembered)
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    async with kept_going(limiter, store, recorder, follower, lambda _: ended.set()):
        while not follower.is_ready and not ended.is_set():  # noqa: ASYNC110 - else nothing would be limited
            await asyncio.sleep(_LOOK_S)
        server = FrameServer(limiter)
        port = await server.serve_tcp(LOOPBACK, 0)
        written = file.with_suffix(".written")
        written.write_text(str(port))
        written.replace(_port_of(file))  # whole, or not there
        await ended.wait()
        await server.close()
    await store.close()
