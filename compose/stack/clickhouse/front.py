"""ClickHouse's HTTP interface over the chdb engine: ``python -m compose.stack.clickhouse.front``.

``clickhouse-connect`` and every other HTTP client use it as they use a real server; ``compose/README.md`` lists
what it does not do. It listens on loopback only and asks every caller for a password: that of ``default``, or of
``reader``, who changes nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sys
import tempfile
import threading
import uuid
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from compose import limits
from compose.stack.clickhouse.codings import accepted_coding, body_chunks, compress
from compose.stack.clickhouse.errors import QueryError
from compose.stack.clickhouse.request import Request, authenticate, read_request
from compose.stack.clickhouse.users import READER, USER
from compose.stack.niceness import give_way
from compose.stack.ports import LOOPBACK
from sinks.landlock import confine

if TYPE_CHECKING:
    from collections.abc import Iterator

    from compose.stack.clickhouse.engine import Engine
    from compose.stack.clickhouse.query import Answer
    from compose.stack.clickhouse.session import Session

_OK_BODY: Final = b"Ok.\n"
_HEALTH_PATHS: Final = frozenset({"/ping", "/replicas_status"})


class Front(ThreadingHTTPServer):
    """One thread per connection, at most ``limits.CLICKHOUSE_CLIENTS_MAX`` of them."""

    daemon_threads = True
    request_queue_size = limits.CLICKHOUSE_CLIENTS_MAX

    def __init__(self, port: int, engine: Engine, passwords: dict[str, str], spool: Path) -> None:
        super().__init__((LOOPBACK, port), Handler)
        self.engine = engine
        self.passwords = passwords
        self.spool = spool
        self._clients = threading.BoundedSemaphore(limits.CLICKHOUSE_CLIENTS_MAX)
        self._working = 0
        self._idle = threading.Condition()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Waits for a free place before it takes another connection."""
        self._clients.acquire()
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Gives the place back at the end."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._clients.release()

    @contextmanager
    def work(self) -> Iterator[None]:
        """Counts a request from its first byte to the last one of its answer."""
        with self._idle:
            self._working += 1
        try:
            yield
        finally:
            with self._idle:
                self._working -= 1
                self._idle.notify_all()

    def drain(self) -> None:
        """Waits, within the bound of a stop, until every request that came in is answered."""
        with self._idle:
            self._idle.wait_for(lambda: self._working == 0, limits.SERVICE_STOP_TIMEOUT_S)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that left is no error."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            super().handle_error(request, client_address)


class Handler(BaseHTTPRequestHandler):
    """One connection: requests one after another until the client leaves."""

    protocol_version = "HTTP/1.1"
    server_version = "Millrace-ClickHouse-front"
    sys_version = ""
    timeout = limits.CLICKHOUSE_IDLE_TIMEOUT_S
    wbufsize = limits.CLICKHOUSE_CHUNK_BYTES
    disable_nagle_algorithm = True
    server: Front
    _session: Session

    def handle(self) -> None:
        """All requests of the connection, in one session of the engine."""
        with self.server.engine.session() as self._session:
            super().handle()

    def do_GET(self) -> None:
        """Health, or a query that only reads."""
        path = self.path.split("?", 1)[0]
        if path in _HEALTH_PATHS or self.path == "/":
            self._send(HTTPStatus.OK, {}, _OK_BODY)
        elif path != "/":
            self._send(HTTPStatus.NOT_FOUND, {}, f"There is no handle {path}\n".encode())
        else:
            self._serve(read_only=True)

    do_HEAD = do_GET  # noqa: N815 - the name that http.server looks for

    def do_POST(self) -> None:
        """Any query."""
        self._serve(read_only=False)

    def _serve(self, *, read_only: bool) -> None:
        with self.server.work():
            self._serve_one(read_only=read_only)

    def _serve_one(self, *, read_only: bool) -> None:
        headers = {"X-ClickHouse-Server-Display-Name": "millrace", "X-ClickHouse-Timezone": "UTC"}
        with tempfile.SpooledTemporaryFile(
            limits.CLICKHOUSE_SPOOL_MEMORY_BYTES_MAX, dir=str(self.server.spool)
        ) as body:
            try:
                user = authenticate(self.path, self.headers, self.server.passwords)
                for chunk in body_chunks(self.rfile, self.headers):
                    body.write(chunk)
            except QueryError as error:
                self.close_connection = True  # what is left of the body was not read
                self._fail(error, headers)
                return
            try:
                request = read_request(self.path, self.headers, body, read_only=read_only or user == READER)
                headers["X-ClickHouse-Query-Id"] = request.query_id or str(uuid.uuid4())
                with self.server.engine.run(request.query, self._session) as answer:
                    self._answer(request, answer, headers)
            except QueryError as error:
                self._fail(error, headers)

    def _answer(self, request: Request, answer: Answer, headers: dict[str, str]) -> None:
        if answer.output_format:
            headers["X-ClickHouse-Format"] = answer.output_format
        coding = accepted_coding(self.headers) if request.compress_answer else None
        if answer.streamed:
            self._stream(answer, headers)
            return
        headers["X-ClickHouse-Summary"] = json.dumps(answer.summary)
        whole = b"".join(answer.blocks)
        if coding and whole:
            headers["Content-Encoding"] = coding
            whole = compress(coding, whole)
        self._send(HTTPStatus.OK, headers, whole)

    def _stream(self, answer: Answer, headers: dict[str, str]) -> None:
        self._start(HTTPStatus.OK, headers | {"Transfer-Encoding": "chunked"})
        try:
            for block in answer.blocks:
                self._chunk(block)
        except RuntimeError as error:
            # The status is out. As ClickHouse does: the exception becomes the end of the body, which stays unfinished.
            self.close_connection = True
            self._chunk(f"\n{QueryError.of_engine(error).text}\n".encode())
        else:
            self.wfile.write(b"0\r\n\r\n")
        self.wfile.flush()

    def _chunk(self, block: bytes) -> None:
        if block:
            self.wfile.write(b"%x\r\n" % len(block))
            self.wfile.write(block)
            self.wfile.write(b"\r\n")

    def _fail(self, error: QueryError, headers: dict[str, str]) -> None:
        version = f" (version {self.server.engine.version})"
        text = error.text if "(version" in error.text else error.text + version
        headers = headers | {"X-ClickHouse-Exception-Code": str(error.code)}
        self._send(error.status, headers, f"{text}\n".encode(errors="replace"))

    def _send(self, status: HTTPStatus, headers: dict[str, str], body: bytes) -> None:
        self._start(status, headers | {"Content-Length": str(len(body))})
        if self.command != "HEAD":
            self.wfile.write(body)
        self.wfile.flush()

    def _start(self, status: HTTPStatus, headers: dict[str, str]) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "text/plain; charset=UTF-8")
        for name, value in headers.items():
            self.send_header(name, value)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - as the class it overrides
        """No access log: a query may carry personal data."""


def _confine(data: Path) -> None:
    """Nothing of the machine but its own data and what code needs: grants do not rule SQL's function ``file``.

    Not the folder that our packages lie in: a home may lie there too. Nor ``/proc``: it has the environment of every
    process, ours among them. But what the kernel told this one: the engine looks for that in ``auxv``, and where it may
    not in the memory behind its environment, which may be anything (one start in some hundreds crashed).
    """
    ours = [Path(__file__).parents[2], Path(limits.__file__).parent]
    told = ("/proc/self/auxv", "/proc/self/maps")
    system = ("/usr", "/lib", "/lib64", *told, "/sys", "/etc/localtime", "/etc/ld.so.cache")
    devices = map(Path, ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom"))
    if not confine([*map(Path, (*system, sys.prefix, sys.base_prefix)), *ours], [data, *devices]):
        print("no Landlock here: SQL's function file() reads what this process may read", flush=True)


def serve(port: int, data: Path, passwords: dict[str, str]) -> None:
    """Serves until SIGTERM or SIGINT, then finishes what runs and closes the engine."""
    spool = data / "spool"
    shutil.rmtree(spool, ignore_errors=True)
    spool.mkdir(parents=True)
    os.environ["TMPDIR"] = str(spool)
    _confine(data)
    # chdb loads it, and numpy with it, for tables of Arrow in Python, which no request asks for: 40 MB
    sys.modules["pyarrow"] = None  # type: ignore[assignment]
    from compose.stack.clickhouse.engine import Engine  # noqa: PLC0415 - its threads begin here, confined as this one

    engine = Engine(data / "engine")
    front = Front(port, engine, passwords, spool)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: threading.Thread(target=front.shutdown).start())
    print(f"ClickHouse {engine.version} on {LOOPBACK}:{port}", flush=True)
    front.serve_forever(poll_interval=limits.SUPERVISOR_TICK_S)  # how soon it hears of a stop
    front.server_close()
    front.drain()
    engine.close()


def main() -> None:
    """Reads the command line, and its users' passwords from a private file."""
    parser = argparse.ArgumentParser(prog="compose.stack.clickhouse.front")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--passwords", type=Path, required=True)
    arguments = parser.parse_args()
    passwords: dict[str, str] = json.loads(arguments.passwords.read_text())
    if unset := [user for user in (USER, READER) if not passwords.get(user)]:
        sys.exit(f"{' and '.join(unset)} has no password: this server never runs without one")
    os.environ["TZ"] = "UTC"
    give_way()
    serve(arguments.port, arguments.data, passwords)
    sys.stdout.flush()
    os._exit(0)  # the engine's threads have been told to end; waiting for them at exit gains nothing


if __name__ == "__main__":
    main()
