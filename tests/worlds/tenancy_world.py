"""Tenants in a system of their own, whose movers a test starts and kills itself."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from contextlib import contextmanager
from importlib import resources
from typing import TYPE_CHECKING, Any, Final

import httpx
import psycopg

from ingress.identity.issuer import KeyFolder, issue_token
from schemas import limits
from schemas.crypto import sealing
from schemas.tenancy.operations import STAFF
from sinks.tenancy import seals
from tests.eventually import eventually, patient

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.worlds.public_system import PublicSystem

MEMBER: Final = ("resources:read", "resources:write", "usage:read", "tenant:admin")
TRY_AGAIN: Final = (202, 503, 504)
Ledger = dict[str, tuple[int, Any]]  # version and payload by resource
#: what SQL alone decides about tenants, beside what others watch
INVARIANTS: Final = (
    *("tenancy_quotas_counted", "tenancy_rows_at_heads", "tenancy_gates", "tenancy_keys", "tenancy_deleted_is_empty"),
    *("tenancy_moves", "tenancy_fences_end", "tenancy_sealed", "tenancy_shreds_acknowledged"),
)


#: of each purpose, in the certificate of a shred
PROVED: Final = {
    ("postgres:tenant_key", "no wrapped key is left; from it came the keys of resources, exports, retries"),
    ("postgres:tenant_export_part", "1 parts of exports lie without a key"),
}


def sealed_before(key: bytes, tenant: str, place: str, plain: bytes) -> bytes:
    """As releases sealed before there were purposes: under the tenant's key itself, of version 1."""
    return (1).to_bytes(8, "big") + sealing.encrypt(key, plain, seals.bound("payload", tenant, place, 1))


class Caller:
    """Whoever holds one token."""

    def __init__(self, system: PublicSystem, name: str, kind: Any, scopes: tuple[str, ...]) -> None:
        keys = KeyFolder(system.settings.the_home().path / "keys")
        self.name, self.person = name, f"s_{uuid.uuid4().hex[:6]}"
        token = issue_token(keys, name, scopes, limits.TOKEN_TTL_MAX_S, kind=kind, subject=self.person)
        self.http = httpx.Client(
            base_url=system.base_url,
            headers={"Authorization": f"Bearer {token}"},
            timeout=patient(60),
            trust_env=False,
        )

    def send(
        self, method: str, path: str, payload: dict[str, Any] | None = None, key: str = "", version: int | None = None
    ) -> httpx.Response:
        """One command, once."""
        headers = {"Idempotency-Key": key or uuid.uuid4().hex, "Prefer": "wait=20"}
        if version is not None:
            headers["If-Match"] = f'"{version}"'
        return self.http.request(method, path, json=payload if method != "DELETE" else None, headers=headers)

    def done(self, method: str, path: str, payload: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
        """One command under one identity, sent until it is decided."""
        key = more.pop("key", "") or uuid.uuid4().hex

        def ask() -> httpx.Response:
            answer = self.send(method, path, payload, key, **more)
            assert answer.status_code not in TRY_AGAIN, answer.text
            return answer

        answer = eventually(ask, 60)
        assert answer.status_code in (200, 201), answer.text
        found: dict[str, Any] = answer.json()["result"]
        return found

    def get(self, path: str, **query: Any) -> dict[str, Any]:
        """What is read there."""
        answer = self.http.get(path, params=query)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def resources(self) -> dict[str, tuple[int, Any]]:
        """All live ones: version and payload by id."""
        found: dict[str, tuple[int, Any]] = {}
        query: dict[str, Any] = {"limit": 100}
        while True:
            page = self.get("/v1/resources", **query)
            found |= {r["resource_id"]: (r["version"], r["payload"]) for r in page["data"]}
            if not page["has_more"]:
                return found
            query["cursor"] = page["next_cursor"]


def write(caller: Caller, ledger: Ledger, count: int) -> None:
    """Creates, and of every three one is replaced and one is deleted."""
    for n in range(count):
        made = caller.done("POST", "/v1/resources", {"n": n, "text": "\u00e9 \u2028"})
        path = f"/v1/resources/{made['resource_id']}"
        if n % 3 == 1:
            made = caller.done("PUT", path, {"n": n, "again": True}, version=1)
        if n % 3 == 2:
            assert caller.done("DELETE", path, version=1)["deleted"]
        else:
            ledger[made["resource_id"]] = (made["version"], made["payload"])


class Tenancy:
    """Staff, and tenants that it makes."""

    def __init__(self, system: PublicSystem) -> None:
        self.system = system
        self.staff = Caller(system, "m_ops", "merchant", (STAFF,))
        self._callers = [self.staff]

    def tenant(self, mode: str = "pooled", **payload: Any) -> Caller:
        """A member of a new tenant that is served."""
        given = {"name": "A tenant", "placement": {"mode": mode}} | payload
        made = self.staff.done("POST", "/v1/tenants", given)
        path = f"/v1/tenants/{made['tenant_id']}"
        eventually(lambda: self.staff.get(path)["state"] == "active", 30)
        self._callers.append(Caller(self.system, made["tenant_id"], "tenant", MEMBER))
        return self._callers[-1]

    def close(self) -> None:
        """Nobody calls any more."""
        for caller in self._callers:
            caller.http.close()

    def becomes(self, path: str, *states: str) -> dict[str, Any]:
        """Waits until what is there has one of these states."""

        def read() -> dict[str, Any] | None:
            found = self.staff.get(path)
            return found if found["state"] in states else None

        return eventually(read, 60)

    def export(self, of: Caller) -> str:
        """Where one is that is asked for now."""
        path = f"/v1/tenants/{of.name}/export"
        return f"{path}s/{self.staff.done('POST', path)['export_id']}"

    def shredded(self, tenant: Caller, exported: str) -> set[tuple[str, str]]:
        """The keys of a tenant are destroyed once that export is there: what the certificate says of each store."""
        self.becomes(exported, "ready")
        path, staff = f"/v1/tenants/{tenant.name}", self.staff
        assert staff.http.get(f"{exported}/content").text
        staff.done("POST", f"{path}/keys/shred", {"reason": "asked for"})
        certificate = eventually(lambda: staff.get(f"{path}/keys")["certificate_id"], 30)
        return {(one["store"], one["proof"]) for one in staff.get(f"{path}/certificates/{certificate}")["stores"]}

    @contextmanager
    def mover(self, fail_point: str = "") -> Iterator[subprocess.Popen[bytes]]:
        """A mover; it is gone at the end."""
        command = [sys.executable, "-m", "compose.services", "tenancy_mover", "--instance", "0"]
        given = self.system.settings.environment() | {"MILLRACE_FAIL_POINT": fail_point, "MILLRACE_OPS_PORT": "0"}
        started = subprocess.Popen(command, env=os.environ | given)
        try:
            yield started
        finally:
            if started.poll() is None:
                started.kill()
            started.wait(timeout=patient(30))

    def broken_invariants(self) -> dict[str, list[Any]]:
        """What each invariant of tenants finds, if anything."""
        with psycopg.connect(self.system.settings.addresses().postgres_superuser_dsn) as connection:
            found = {name: self.found_by(connection, name) for name in INVARIANTS}
        return {name: rows for name, rows in found.items() if rows}

    @staticmethod
    def found_by(connection: psycopg.Connection[Any], name: str) -> list[Any]:
        """What one invariant finds."""
        text = (resources.files("reconciliation.tenancy") / "invariants" / f"{name}.sql").read_text()
        return connection.execute(text.encode()).fetchall()
