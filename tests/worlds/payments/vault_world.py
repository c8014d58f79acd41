"""A card vault as its own process over a real Postgres, and a processor beside it that does what a test tells it."""

from __future__ import annotations

import http.server
import json
import subprocess
import sys
import threading
import uuid
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import httpx
import psycopg
import pytest

from compose.settings.settings import Settings
from ingress.identity.issuer import SCOPES_DEFAULT, KeyFolder, issue_token
from tests import servers
from tests.eventually import eventually, patient
from tests.servers import clean_environment
from tests.worlds.payments.attempts_world import free_port, is_ready

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


def card(number: str = "4242424242424242", **changes: Any) -> dict[str, Any]:
    """The payload of a valid card, changed."""
    return {"number": number, "exp_month": 12, "exp_year": 2035, "cvc": "123"} | changes


@dataclass
class Holder:
    """A merchant at the vault; every method gives the httpx response."""

    name: str
    http: httpx.Client

    def tokenize(self, payload: Any = None, key: str | None = None, **more: Any) -> httpx.Response:
        """POST /v1/tokens with the envelope."""
        body = {"idempotency_key": key or uuid.uuid4().hex, "payload": card() if payload is None else payload}
        return self.http.post("/v1/tokens", json=body | more)

    def token(self, number: str = "4242424242424242") -> str:
        """The id of a new token."""
        answer = self.tokenize(card(number))
        assert answer.status_code == 201, answer.text
        return str(answer.json()["result"]["id"])


@dataclass
class VaultWorld:
    """One Postgres; vaults come and go."""

    settings: Settings
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    clients: list[httpx.Client] = field(default_factory=list)

    @property
    def url(self) -> str:
        return self.settings.addresses().vault_url

    def start(self, *, log: Path | None = None, **environment: str) -> subprocess.Popen[bytes]:
        """A vault process that is ready, or has ended."""
        process, port = self.begin(log=log, **environment)
        eventually(lambda: is_ready(port) or process.poll() is not None, 60, what="the vault is ready")
        return process

    def begin(self, *, log: Path | None = None, **environment: str) -> tuple[subprocess.Popen[bytes], int]:
        """A vault process that has only begun, and the port of its /readyz."""
        port = free_port()
        variables = clean_environment() | self.settings.environment() | environment | {"MILLRACE_OPS_PORT": str(port)}
        file = log or self.settings.the_home().log(f"vault-{uuid.uuid4().hex[:6]}")
        with file.open("ab") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "compose.services", "vault"],
                env=variables,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        self.processes.append(process)
        return process, port

    def end_all(self) -> None:
        """Ends every vault of this world, and who talks to it."""
        for client in self.clients:
            client.close()
        self.clients.clear()
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            try:
                process.wait(patient(15))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.processes.clear()

    def holder(self, name: str | None = None, scopes: tuple[str, ...] = SCOPES_DEFAULT) -> Holder:
        """A merchant that nobody used before, unless it is named."""
        name = name or f"m_{uuid.uuid4().hex[:12]}"
        token = issue_token(KeyFolder(self.settings.the_home().path / "keys"), name, scopes)
        headers = {"Authorization": f"Bearer {token}"}
        self.clients.append(httpx.Client(base_url=self.url, headers=headers, timeout=patient(20), trust_env=False))
        return Holder(name, self.clients[-1])

    def forward(
        self, token: object, merchant: object, *, headers: dict[str, str] | None = None, **changes: Any
    ) -> httpx.Response:
        """POST /v1/forward as a worker of ours."""
        body = {"token": token, "merchant_id": merchant, "path": "/v1/operations", "body": {"payment_method": token}}
        secret = {"Authorization": f"Bearer {self.settings.vault_forward_secret()}"}
        return httpx.post(
            f"{self.url}/v1/forward",
            json=body | changes,
            headers=secret | (headers or {}),
            timeout=patient(20),
            trust_env=False,
        )

    def rows(self, statement: Any, *parameters: object) -> list[tuple[Any, ...]]:
        """As the superuser, who may look everywhere."""
        with psycopg.connect(self.settings.addresses().postgres_superuser_dsn, autocommit=True) as connection:
            cursor = connection.execute(statement, parameters)
            return cursor.fetchall() if cursor.description else []


@contextmanager
def vault_on(home: Path) -> Iterator[VaultWorld]:
    """A database with every table, keys of its own, and no vault yet."""
    with servers.world(home) as made, ended(VaultWorld(made.settings)) as vault:
        yield vault


@contextmanager
def ended(made: VaultWorld) -> Iterator[VaultWorld]:
    try:
        yield made
    finally:
        made.end_all()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VaultWorld]:
    """One world with one vault for a module's tests; each uses merchants of its own."""
    with vault_on(tmp_path_factory.mktemp("vault")) as made:
        made.start()
        yield made


@dataclass
class Processor:
    """A real HTTP server in the processor's place: it keeps what it got and answers as it is told."""

    received: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)
    status: int = 200
    headers: dict[str, str] = field(default_factory=lambda: {"Content-Type": "application/json"})
    #: the answer, given the request's body
    answer: Callable[[bytes], bytes | None] = field(default=lambda _: b'{"ok":true}')
    hangs: threading.Event = field(default_factory=threading.Event)

    def card(self) -> dict[str, Any]:
        """The card of the newest call."""
        return dict(json.loads(self.received[-1][2])["card"])


@pytest.fixture
def processor(world: VaultWorld) -> Iterator[Processor]:
    """A processor where the vault expects one."""
    told = Processor()

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            told.received.append((self.path, {k.lower(): v for k, v in self.headers.items()}, body))
            answer = told.answer(body)
            if answer is None:  # no answer at all
                told.hangs.wait(20)
                self.close_connection = True
                return
            self.send_response(told.status)
            for name, value in told.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(answer)))
            self.send_header("Connection", "close")  # the next test's processor is another server on this port
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - as the class it overrides
            pass

    class Server(http.server.ThreadingHTTPServer):
        request_queue_size = 512

    server = Server(("127.0.0.1", world.settings.addresses().processor_port), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    yield told
    told.hangs.set()
    server.shutdown()
    server.server_close()
    thread.join(5)
