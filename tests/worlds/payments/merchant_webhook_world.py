"""A world in which the tests are a merchant's server: real ingress, owner, Kafka and Postgres; senders by each test."""

from __future__ import annotations

import base64
import hmac
import json
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from tests.eventually import eventually, patient
from tests.servers import clean_environment
from tests.worlds.payments.attempts_world import free_port, is_ready
from tests.worlds.public_system import PublicSystem, system_of_its_own

if TYPE_CHECKING:
    from collections.abc import Iterator

_STOP_WITHIN_S = 25


@dataclass
class Shop:
    """A merchant's server: remembers every try, and answers with the planned statuses, then 200."""

    port: int = 0
    tries: list[dict[str, Any]] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)
    refused: set[str] = field(default_factory=set)  # objects whose events are answered with 500

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/told?of=payments"

    def ids(self) -> list[str]:
        return [one["id"] for one in list(self.tries)]

    def of(self, aggregate_key: str) -> list[dict[str, Any]]:
        """The tries about one object, in the order of arrival."""
        return [one for one in list(self.tries) if one["event"]["aggregate_key"] == aggregate_key]

    def versions(self, aggregate_key: str) -> list[int]:
        """The versions of one object that were taken, in the order of arrival."""
        return [one["event"]["version"] for one in self.of(aggregate_key) if one["status"] == 200]


@contextmanager
def shop() -> Iterator[Shop]:
    """Serves until the end of the block."""
    found = Shop()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            event = json.loads(body)
            is_refused = event["aggregate_key"] in found.refused
            status = 500 if is_refused else found.statuses.pop(0) if found.statuses else 200
            head = {name: self.headers[f"webhook-{name}"] for name in ("id", "timestamp", "signature")}
            found.tries.append({**head, "status": status, "body": body, "event": event, "path": self.path})
            self.send_response(status)
            if status == 302:
                self.send_header("Location", f"{found.url}&redirected")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    found.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield found
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def signature(secret: str, one: dict[str, Any]) -> str:
    """What Standard Webhooks wants of a try, computed apart from our own code."""
    signed = f"{one['id']}.{one['timestamp']}.".encode() + one["body"]
    key = base64.b64decode(secret.removeprefix("whsec_"))
    return "v1," + base64.b64encode(hmac.digest(key, signed, "sha256")).decode()


@dataclass
class MerchantWebhookWorld:
    """The system and the senders of a test."""

    system: PublicSystem
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def launch(self, module: str = "compose.services", **environment: str) -> tuple[subprocess.Popen[bytes], int]:
        """Starts a sender; with the port of its operator."""
        port = free_port()
        variables = clean_environment() | self.system.settings.environment()
        variables |= {"MILLRACE_OPS_PORT": str(port)} | environment
        process = subprocess.Popen([sys.executable, "-m", module, "merchant_webhooks"], env=variables)
        self.processes.append(process)
        return process, port

    def start(self, **environment: str) -> subprocess.Popen[bytes]:
        """A sender, once it is ready or has ended."""
        process, port = self.launch(**environment)
        eventually(lambda: is_ready(port) or process.poll() is not None, 60, what="sender ready")
        assert "MILLRACE_FAIL_POINT" in environment or process.poll() is None, f"it ended with {process.returncode}"
        return process

    def end_all(self) -> None:
        """Ends what is left of a test's senders."""
        for process in self.processes:
            process.send_signal(signal.SIGCONT)
            process.terminate()
        for process in self.processes:
            try:
                process.wait(patient(_STOP_WITHIN_S))
            finally:
                process.kill()
                process.wait()
        self.processes.clear()

    def endpoint(self, merchant: Any, url: str, **values: Any) -> dict[str, Any]:
        """A new endpoint with its secret."""
        answer = merchant.http.post("/v1/webhook_endpoints", json={"url": url, **values})
        assert answer.status_code == 201, answer.text
        return dict(answer.json()["result"])

    def payment(self, merchant: Any, events: int = 1) -> str:
        """A payment with one or two events."""
        intent_id: str = merchant.create().json()["result"]["id"]
        if events > 1:
            assert merchant.act(intent_id, "cancel").status_code == 200
        return intent_id

    def deliveries(self, merchant: Any, endpoint: dict[str, Any]) -> list[dict[str, Any]]:
        """The log, newest first."""
        answer = merchant.http.get(f"/v1/webhook_endpoints/{endpoint['id']}/deliveries", params={"limit": 100})
        assert answer.status_code == 200, answer.text
        return list(answer.json()["data"])

    def hurry(self, endpoint: dict[str, Any], *, leases: bool = True) -> None:
        """As if the waits of an endpoint's deliveries were over, and leases too: what is under way is then sent twice."""
        with psycopg.connect(self.system.settings.addresses().postgres_superuser_dsn, autocommit=True) as connection:
            connection.execute(
                "update merchant_webhook_delivery d set next_at = now() from (select id from merchant_webhook_delivery"
                # in the order in which a sender locks them
                " where endpoint_id = %s and state = 'waiting' and (%s or in_flight_until is null)"
                " order by seq for update) w where d.id = w.id",
                (endpoint["id"], leases),
            )


@pytest.fixture(scope="module")
def merchant_webhook_system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PublicSystem]:
    """An ingress and an owner over real servers, with the development setting on."""
    changes = {"owner_processes": 1, "ingress_processes": 1, "services": ("owner", "ingress")}
    home = tmp_path_factory.mktemp("merchant_webhooks")
    with system_of_its_own(home, merchant_webhooks_loopback=True, **changes) as made:
        yield made


@pytest.fixture
def told(merchant_webhook_system: PublicSystem) -> Iterator[MerchantWebhookWorld]:
    """The world; senders end with the test, however it ends."""
    world = MerchantWebhookWorld(merchant_webhook_system)
    yield world
    world.end_all()
