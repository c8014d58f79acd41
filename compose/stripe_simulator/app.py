"""The account's HTTP face: reads a request, carries it out once, answers when that is on disk.

With ``mock_url`` each request of the API goes to Stripe's own mock first, that is, through their OpenAPI document: what
it refuses is refused here in its words. Fault: ``POST /levers/die`` lets the process die by SIGKILL after the next
request is on disk and before its answer leaves.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import uuid
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from compose.simulator import limits
from compose.stripe_simulator import operations
from compose.stripe_simulator.forms import form_read
from compose.stripe_simulator.problems import Object, Refused

if TYPE_CHECKING:
    from collections.abc import Mapping

    from compose.stripe_simulator.book import Answer, Book

LOOPBACK: Final = "127.0.0.1"
_API, _LEVERS = "/v1/", "/levers/"
_FILE: Final = re.compile(r"/v1/files/(\w+)/contents\Z")
_HOP_BY_HOP: Final = frozenset({"host", "connection", "content-length", "accept-encoding"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """A book, the only key that is taken, and the mock that checks requests (None: nobody does)."""

    book: Book
    api_key: str
    mock_url: str | None = None


class RefusedByMock(Exception):
    """The mock refused the request."""

    def __init__(self, status: int, body: Object) -> None:
        super().__init__(status)
        self.status, self.body = status, body


class AccountServer(ThreadingHTTPServer):
    """Serves one account on loopback; ``serve_forever`` until ``shutdown``."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, account: Account, port: int) -> None:
        super().__init__((LOOPBACK, port), _Handler)
        self.account = account
        self.dies_next = False


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: AccountServer

    def do_GET(self) -> None:
        self._serve("")

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length", 0))
        if not 0 <= length <= limits.SIMULATOR_BODY_BYTES_MAX:
            self.send_error(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
            return
        self._serve(self.rfile.read(length).decode(errors="replace"))

    def _serve(self, body: str) -> None:
        path, _, query = self.path.partition("?")
        is_replay = False
        found: Any = {}
        try:
            if path == f"{_LEVERS}die":
                self.server.dies_next = True
                status = HTTPStatus.OK.value
            elif not path.startswith(_API):
                status, found = _elsewhere(self.server.account, self.command, path, body)
            elif self.command == "GET":
                status, found = self._read(path, query)
            else:
                (status, found), is_replay = self._carried_out(path, body)
        except RefusedByMock as told:
            status, found = told.status, told.body
        except Refused as refused:
            status, found = refused.status, refused.body()
        self._answer(status, found, is_replay=is_replay)

    def _read(self, path: str, query: str) -> tuple[int, Any]:
        self._check(path, "")
        with self.server.account.book.transaction() as made:
            if file := _FILE.fullmatch(path):
                return HTTPStatus.OK, made.fetch("file", file[1])["text"]
            act, name = _found(operations.GETS, path.removeprefix(_API))
            answered: Answer = act(made, name, form_read(query))
            return answered

    def _carried_out(self, path: str, body: str) -> tuple[Answer, bool]:
        self._check(path, body)
        post, name = _found(operations.POSTS, path.removeprefix(_API))
        form, key = form_read(body), self.headers.get("Idempotency-Key") or uuid.uuid4().hex
        answered = self.server.account.book.once(key, f"{path} {body}", lambda made: post(made, name, form, key))
        if self.server.dies_next:
            os.kill(os.getpid(), signal.SIGKILL)
        return answered

    def _check(self, path: str, body: str) -> None:
        """Raises Refused without the key, RefusedByMock when Stripe's document does not allow the request."""
        account = self.server.account
        if self.headers.get("Authorization") != f"Bearer {account.api_key}":
            raise Refused("api_key_invalid", "Invalid API Key provided.", HTTPStatus.UNAUTHORIZED)
        if account.mock_url is not None and not _FILE.fullmatch(path):
            _checked(account.mock_url, self.command, self.path, self.headers, body)

    def _answer(self, status: int, found: Any, *, is_replay: bool) -> None:
        content = found.encode() if isinstance(found, str) else json.dumps(found).encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/csv" if isinstance(found, str) else "application/json")
        self.send_header("Content-Length", str(len(content)))
        if is_replay:
            self.send_header("Idempotent-Replayed", "true")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Nothing is logged: who asks sees what came of it."""


def _elsewhere(account: Account, method: str, path: str, body: str) -> tuple[int, Any]:
    """What is no part of Stripe's API."""
    with account.book.transaction() as made:
        if path.startswith(_LEVERS) and method == "POST":
            act, name = _found(operations.LEVERS, path.removeprefix(_LEVERS))
            answered: Answer = act(made, name, form_read(body))
            return answered
        if path == "/book":
            return HTTPStatus.OK, operations.book(made)
        if path == "/readyz":
            return HTTPStatus.OK, {"status": "ready"}
    raise Refused("url_invalid", f"Unrecognized request URL ({method}: {path}).", HTTPStatus.NOT_FOUND)


def _found(table: Mapping[str, Any], place: str) -> tuple[Any, str]:
    for pattern, act in table.items():
        if found := re.fullmatch(pattern, place):
            return act, found[1] if found.groups() else ""
    raise Refused("url_invalid", f"Unrecognized request URL: {place}.", HTTPStatus.NOT_FOUND)


def _checked(mock_url: str, method: str, path: str, headers: Any, body: str) -> None:
    """Raises RefusedByMock when Stripe's document does not allow the request."""
    kept = {name: text for name, text in headers.items() if name.lower() not in _HOP_BY_HOP}
    connection = http.client.HTTPConnection(urlsplit(mock_url).netloc, timeout=limits.SIMULATOR_WEBHOOK_TIMEOUT_S)
    try:
        connection.request(method, path, body.encode() or None, kept)
        answer = connection.getresponse()
        content = answer.read()
    finally:
        connection.close()
    if answer.status >= HTTPStatus.BAD_REQUEST:
        raise RefusedByMock(answer.status, json.loads(content))
