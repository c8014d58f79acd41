"""Varnish with our rules before an origin that a test plays."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
from collections import Counter
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx

from compose.stack.ports import PortLeases
from compose.stack.varnish import Varnish
from dataflows.social.media.caches import MediaCaches
from ingress.http import problems
from schemas.social import limits
from schemas.social.media_origin import MediaOrigin, cache_keys
from tests.eventually import eventually
from tests.freezing import freeze
from tests.servers import servers_missing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PUBLIC = {"Cache-Control": f"public, max-age={limits.MEDIA_PUBLIC_AGE_S}"}
PRIVATE = {"Cache-Control": "private, max-age=10"}
NOT_THERE = problems.headers_of("not_found")  # of the real origin


class Origin(ThreadingHTTPServer):
    """Answers as it is told, counts what it is asked, and can hold its answers back."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked: Counter[str] = Counter()
        self.answered: Counter[str] = Counter()
        self.status = 200
        self.alive: set[str] | None = None  # paths that alone have this status, and all others 404
        self.headers: dict[str, str] = PUBLIC
        self.keys: Callable[[str], str] = cache_keys  # of a medium
        self.open = threading.Event()
        self.open.set()


class _Handler(BaseHTTPRequestHandler):
    server: Origin

    def _answer(self) -> None:
        origin = self.server
        origin.asked[self.path] += 1
        status, headers = origin.status, origin.headers  # as it is when the request comes
        if origin.alive is not None and self.path.partition("?")[0] not in origin.alive:
            status = 404
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))) or self.path.encode()
        origin.open.wait(30)
        if status == HTTPStatus.OK and self.headers.get("If-None-Match", "") == headers.get("ETag"):
            status, body = HTTPStatus.NOT_MODIFIED, b""
        self.send_response(status)
        for name, value in (
            headers | {"xkey": origin.keys(self.path.split("/")[2]), "Content-Length": str(len(body))}
        ).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)
        origin.answered[self.path] += 1

    def do_GET(self) -> None:
        self._answer()

    def do_PUT(self) -> None:
        self._answer()

    def log_message(self, *_: Any) -> None:
        """Nothing is printed."""


class Edge:
    """The cache, its origin, and a client of both."""

    def __init__(self, origin: Origin, url: str, place: MediaOrigin, pid: int) -> None:
        self.origin, self.url, self.place = origin, url, place
        self._pid = pid
        self.http = httpx.Client(base_url=url, trust_env=False, timeout=30)
        self.caches = MediaCaches(self.http, place)

    def get(self, path: str) -> httpx.Response:
        return self.http.get(path)

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """The cache stands still: its server, which the process that was started has begun in another one."""
        children = Path(f"/proc/{self._pid}/task/{self._pid}/children").read_text().split()
        pids = [int(child) for child in children]
        assert pids
        for pid in pids:
            freeze(pid)
        try:
            yield
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGCONT)


@contextmanager
def cached_origin(folder: Path) -> Iterator[Edge]:
    """A cache that answers, until the block ends."""
    if not (shutil.which("varnishd") or shutil.which("varnishd", path="/usr/sbin")):
        servers_missing("no varnishd: install varnish and varnish-modules")
    origin = Origin()
    threading.Thread(target=origin.serve_forever, daemon=True).start()
    leases = PortLeases()
    port = leases.take_any()
    url = f"http://127.0.0.1:{port}"
    place = MediaOrigin(url=url, uploads_url=url, key=b"k" * 32, folder=folder, caches=(url,))
    varnish = Varnish(folder / "cache", port, origin.server_port, place.purge_key)
    varnish.prepare()
    process = subprocess.Popen(varnish.command(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    edge = Edge(origin, place.caches[0], place, process.pid)
    try:
        eventually(lambda: process.poll() is None and varnish.unhealthy() is None, 60, what="Varnish answers")
        yield edge
    finally:
        edge.http.close()
        process.terminate()
        process.wait()
        origin.shutdown()
        origin.server_close()
        leases.close()
