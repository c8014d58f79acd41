"""A real receiver of webhooks: verifies every signature, remembers every delivery, and may refuse or vanish."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import threading
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass
class Received:
    """What came so far; ``refusals`` is how many more deliveries get a 503."""

    port: int = 0
    deliveries: list[dict[str, Any]] = field(default_factory=list)
    refusals: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    def of(self, reference: str) -> list[dict[str, Any]]:
        """Every delivery about a reference, in the order of arrival."""
        return [event for event in list(self.deliveries) if event["data"]["reference"] == reference]

    def types(self, reference: str) -> list[str]:
        return [event["type"] for event in self.of(reference)]

    def ids(self, reference: str) -> Counter[str]:
        return Counter(event["id"] for event in self.of(reference))


@contextmanager
def receiving(secret: str, port: int = 0) -> Iterator[Received]:
    """Serves until the end of the block."""
    received = Received()
    key = base64.b64decode(secret.removeprefix("whsec_"))

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(_status(received, key, self.headers, body))
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads = True
    received.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield received
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _status(received: Received, key: bytes, headers: Any, body: bytes) -> int:
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    mac = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    event = json.loads(body)
    is_genuine = headers["webhook-signature"] == f"v1,{mac}" and headers["webhook-id"] == event["id"]
    if not is_genuine or abs(time.time() - int(headers["webhook-timestamp"])) > 30:
        return 401
    if received.refusals > 0:
        received.refusals -= 1
        return 503
    received.deliveries.append(event)
    return 200
