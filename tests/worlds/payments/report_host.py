"""A processor that shows its reports over HTTP and nothing else: the test says which there are."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from tests.worlds.payments.settlement_world import csv_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime


@dataclass
class ReportHost:
    """Its reports by id, as bytes, and when it says that it made them; ``downloads`` are the ids that were asked for."""

    url: str = ""
    is_away: bool = False
    broken_off: int = 0  # so many answers end in their middle
    reports: dict[str, bytes] = field(default_factory=dict)
    created: dict[str, str | None] = field(default_factory=dict)
    downloads: list[str] = field(default_factory=list)
    listen: Callable[[], None] = lambda: None  # of one that does not yet

    def make(self, report_id: str, at: datetime | None, rows: list[dict[str, Any]] | None = None) -> None:
        """A report of these lines."""
        self.reports[report_id] = csv_of(rows or [], report_id)
        self.created[report_id] = None if at is None else at.isoformat()

    def answer(self, path: str) -> tuple[int, bytes]:
        """What is at a path."""
        if self.is_away:
            return 503, b""
        if path == "/settlements":
            return 200, json.dumps([{"report_id": id_, "created": at} for id_, at in self.created.items()]).encode()
        report_id = path.removeprefix("/settlements/")
        self.downloads.append(report_id)
        return (200, self.reports[report_id]) if report_id in self.reports else (404, b"")


@contextmanager
def report_host(*, is_listening: bool = True) -> Iterator[ReportHost]:
    """One that listens, until the end of the block; or one that refuses connections until it is told to listen."""
    host = ReportHost()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = host.answer(self.path)
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            is_whole = host.broken_off == 0
            host.broken_off -= not is_whole
            self.wfile.write(body if is_whole else body[:-1])

        def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - as the class it overrides
            """None."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler, bind_and_activate=False) as server:
        server.server_bind()
        host.listen = server.server_activate
        if is_listening:
            host.listen()
        host.url = f"http://127.0.0.1:{server.server_port}"
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        try:
            yield host
        finally:
            server.shutdown()
            serving.join()
