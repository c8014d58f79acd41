"""A merchant's server: verifies every webhook, remembers what it took in which order, and is not always there."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Final

from compose.proof import limits as proof_limits
from schemas.payments import limits as payments_limits

if TYPE_CHECKING:
    from collections.abc import Iterator

_PREFIX: Final = "whsec_"
#: every so many events are refused at their first delivery: they must come again
_REFUSED_EVERY: Final = 17

Place = tuple[str, int]  # an object and its version


@dataclass(slots=True)
class Shop:
    """What arrived so far, by merchant."""

    port: int = 0
    keys: dict[str, bytes] = field(default_factory=dict)  # merchant to the key of its endpoint
    taken: dict[str, dict[str, list[int]]] = field(default_factory=dict)  # merchant to object to versions, in order
    deliveries: int = 0
    refused: set[str] = field(default_factory=set)  # deliberately, once each
    problems: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def url(self, merchant: str) -> str:
        """Where this merchant wants to be told."""
        return f"http://127.0.0.1:{self.port}/{merchant}"

    def open_for(self, merchant: str, secret: str) -> None:
        """From here on deliveries for this merchant are taken."""
        self.keys[merchant] = base64.b64decode(secret.removeprefix(_PREFIX))
        self.taken[merchant] = {}

    def places(self, merchant: str) -> set[Place]:
        """Every version of every object that this merchant was told of."""
        with self.lock:
            return {(name, version) for name, versions in self.taken[merchant].items() for version in versions}

    def out_of_order(self) -> list[str]:
        """Objects that were not told version by version. The same one again is no disorder."""
        with self.lock:
            return [
                f"webhooks of {name} came as versions {versions}"
                for taken in self.taken.values()
                for name, versions in taken.items()
                if (first := list(dict.fromkeys(versions))) != sorted(first)
            ]

    def take(self, merchant: str, headers: Any, body: bytes) -> HTTPStatus:
        """The answer to one delivery."""
        key = self.keys.get(merchant)
        if key is None or not _is_genuine(key, headers, body):
            self.problems.append(f"a delivery to {merchant} is not signed with its secret")
            return HTTPStatus.UNAUTHORIZED
        event = json.loads(body)
        with self.lock:
            self.deliveries += 1
            name = headers["webhook-id"]
            if name not in self.refused and self.deliveries % _REFUSED_EVERY == 0:
                self.refused.add(name)
                return HTTPStatus.SERVICE_UNAVAILABLE
            self.taken[merchant].setdefault(event["aggregate_key"], []).append(event["version"])
        return HTTPStatus.OK


@contextmanager
def open_shop() -> Iterator[Shop]:
    """Serves until the end of the block."""
    shop = Shop()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(shop.take(self.path.strip("/"), self.headers, body))
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    class Server(ThreadingHTTPServer):
        request_queue_size = proof_limits.SOAK_SHOP_BACKLOG  # a settlement tells of hundreds of payments at once

    server = Server(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    shop.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)
    thread.start()
    try:
        yield shop
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _is_genuine(key: bytes, headers: Any, body: bytes) -> bool:
    """Standard Webhooks, computed apart from the code that signs."""
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    mac = "v1," + base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()
    is_fresh = abs(time.time() - int(headers["webhook-timestamp"])) < payments_limits.WEBHOOK_TOLERANCE_S
    return is_fresh and any(hmac.compare_digest(mac, one) for one in headers["webhook-signature"].split(" "))
