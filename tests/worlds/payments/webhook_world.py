"""A world in which the tests are the processor: real ingress, owner, Kafka and Postgres; no simulator, no calls.

Attempts that are created stay open until a webhook tells what came of them. Workers are started by each test, so that
they can be armed with fail points and killed.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import signal
import subprocess
import sys
import time
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import httpx
import psycopg
import pytest

from compose.settings.settings import Settings
from schemas import identity
from tests.eventually import eventually, patient
from tests.servers import clean_environment
from tests.worlds.payments.attempts_world import free_port, is_ready
from tests.worlds.public_system import PublicSystem, system_of_its_own

if TYPE_CHECKING:
    from collections.abc import Iterator

_STOP_WITHIN_S = 15


@dataclass
class WebhookWorld:
    """The system, what a processor does to it, and the workers of a test."""

    system: PublicSystem
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def settings(self) -> Settings:
        """Of the running system."""
        return self.system.settings

    # --- the processor ----------------------------------------------------------------------------------------

    def post(self, processor: str, raw: bytes, headers: dict[str, str]) -> httpx.Response:
        """A delivery over a connection of its own: any ingress process may get it."""
        fields = {"Content-Type": "application/json", "Connection": "close"} | headers
        url = f"{self.system.base_url}/v1/webhooks/{processor}"
        return httpx.post(url, content=raw, headers=fields, timeout=30, trust_env=False)

    def tell(self, event_type: str, event_id: str | None = None, **data: Any) -> str:
        """The simulator's webhook, signed; returns the id under which it is stored."""
        event_id = event_id or f"evt_{uuid.uuid4().hex}"
        body = json.dumps({"id": event_id, "type": event_type, "created": int(time.time()), "data": data}).encode()
        answer = self.post("simulator", body, self.signed("simulator", event_id, body))
        assert answer.status_code == 200, answer.text
        return event_id

    def signed(self, processor: str, event_id: str, body: bytes, at: int | None = None) -> dict[str, str]:
        """The headers of Standard Webhooks."""
        secret = self.settings.webhook_secrets()[processor]
        stamp = str(at or int(time.time()))
        key = base64.b64decode(secret.removeprefix("whsec_"))
        mac = base64.b64encode(hmac.digest(key, f"{event_id}.{stamp}.".encode() + body, "sha256")).decode()
        return {"webhook-id": event_id, "webhook-timestamp": stamp, "webhook-signature": f"v1,{mac}"}

    def stripe_signed(self, body: bytes, secret: str | None = None, at: int | None = None) -> dict[str, str]:
        """The header of Stripe."""
        stamp = at or int(time.time())
        key = (secret or self.settings.webhook_secrets()["stripe"]).encode()
        mac = hmac.new(key, f"{stamp}.".encode() + body, hashlib.sha256).hexdigest()
        return {"Stripe-Signature": f"t={stamp},v1={mac}"}

    # --- payments ---------------------------------------------------------------------------------------------

    def intent(self, merchant: Any, amount: int = 1_000, *, confirmed: bool = True) -> str:
        """A payment, with an open attempt when it is confirmed."""
        intent_id: str = merchant.create(amount=amount).json()["result"]["id"]
        if confirmed:
            assert merchant.act(intent_id, "confirm").status_code == 200
        return intent_id

    def refund(self, merchant: Any, intent_id: str, amount: int) -> dict[str, Any]:
        """A refund with an open attempt."""
        payload = {"payment_intent": intent_id, "amount": amount}
        answer = merchant.http.post("/v1/refunds", json={"idempotency_key": uuid.uuid4().hex, "payload": payload})
        assert answer.status_code == 201, answer.text
        return dict(answer.json()["result"])

    @staticmethod
    def charge(intent_id: str, attempt: int = 1, amount: int = 1_000, **changes: Any) -> dict[str, Any]:
        """The data of an event about an attempt."""
        operation_id = identity.operation_id(intent_id, attempt)
        named = {"operation_id": operation_id, "reference": intent_id, "provider_ref": f"ref_{operation_id}"}
        return named | {"amount": amount, "currency": "USD", "error_code": None} | changes

    # --- what is stored ---------------------------------------------------------------------------------------

    def event(self, event_id: str, processor: str = "simulator") -> tuple[Any, ...]:
        """(state, note, tries) of a stored event; empty when there is none."""
        query = "select state, note, tries from provider_event where processor = %s and provider_event_id = %s"
        return next(iter(self.system.rows(query, processor, event_id)), ())

    def reaches(self, event_id: str, *states: str, within_s: float = 20) -> tuple[Any, ...]:
        """The event, once it is in one of these states."""

        def reached() -> tuple[Any, ...]:
            found = self.event(event_id)
            return found if found and found[0] in states else ()

        return eventually(reached, within_s, what=f"event in {states}")

    def cases(self, reference: str) -> list[tuple[Any, ...]]:
        """The kinds of the cases about a reference."""
        return self.system.rows("select kind from repair_case where reference = %s", reference)

    def superuser(self) -> psycopg.Connection:
        """A connection that may do anything."""
        return psycopg.connect(self.settings.addresses().postgres_superuser_dsn, autocommit=True)

    # --- workers ----------------------------------------------------------------------------------------------

    def start(self, **environment: str) -> subprocess.Popen[bytes]:
        """A worker, once it is ready or has ended."""
        port = free_port()
        variables = clean_environment() | self.settings.environment() | {"MILLRACE_OPS_PORT": str(port)} | environment
        process = subprocess.Popen([sys.executable, "-m", "compose.services", "webhook_worker"], env=variables)
        self.processes.append(process)
        eventually(lambda: is_ready(port) or process.poll() is not None, 60, what="webhook worker ready")
        assert "MILLRACE_FAIL_POINT" in environment or process.poll() is None, f"it ended with {process.returncode}"
        return process

    def end(self, process: subprocess.Popen[bytes]) -> int:
        """Drains a worker; its exit status."""
        process.terminate()
        try:
            return process.wait(patient(_STOP_WITHIN_S))
        finally:
            process.kill()
            process.wait()
            self.processes.remove(process)

    def end_all(self) -> None:
        """Ends what is left of a test's workers."""
        for process in list(self.processes):
            process.send_signal(signal.SIGCONT)
            self.end(process)


@pytest.fixture(scope="module")
def webhook_system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PublicSystem]:
    """Two ingress processes and an owner over real servers."""
    home = tmp_path_factory.mktemp("webhooks")
    with system_of_its_own(home, owner_processes=1, services=("owner", "ingress")) as made:
        yield made


@pytest.fixture
def webhooks(webhook_system: PublicSystem) -> Iterator[WebhookWorld]:
    """The world; workers end with the test, however it ends."""
    world = WebhookWorld(webhook_system)
    yield world
    world.end_all()
