"""Callers, sinks and commands of the fifth service, in a system of its own."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import uuid
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

import httpx

from ingress.identity.issuer import KeyFolder, issue_token
from sinks.clickhouse.connection import ClickHouseConnection
from sinks.clickhouse.metering import usage
from sinks.clickhouse.services import SINKS
from tests.eventually import patient

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.worlds.public_system import PublicSystem

SCOPES = ("counters:read", "counters:write")
Kind = Literal["merchant", "tenant", "user"]
_SINKS_BEFORE = len(SINKS)  # those of the services in the tree


class Caller:
    """Somebody with counters."""

    def __init__(self, system: PublicSystem, scopes: tuple[str, ...] = SCOPES, kind: Kind = "merchant") -> None:
        self.name = f"m_{uuid.uuid4().hex[:12]}"
        keys = KeyFolder(system.settings.the_home().path / "keys")
        self._keys = itertools.count()
        token = issue_token(keys, self.name, scopes, kind=kind)
        self.http = httpx.Client(
            base_url=system.base_url,
            headers={"Authorization": f"Bearer {token}"},
            timeout=patient(30),
            trust_env=False,
        )

    def post(self, path: str, payload: dict[str, Any], key: str | None = None, **headers: str) -> httpx.Response:
        named = {"Idempotency-Key": key or f"k{next(self._keys)}"}
        return self.http.post(path, json=payload, headers=named | headers)

    def counter(self) -> dict[str, Any]:
        answer = self.post("/v1/counters", {"label": "apples"})
        assert answer.status_code == 201, answer.text
        return answer.json()["result"]


@contextmanager
def process(
    system: PublicSystem, name: str, fail_point: str, instance: str = "1", changes: dict[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """One more process of a service, which kills itself at a place; it is gone at the end."""
    command = [sys.executable, "-m", "compose.services", name, "--instance", instance]
    given = system.settings.environment() | {"MILLRACE_FAIL_POINT": fail_point, "MILLRACE_OPS_PORT": "0"}
    given |= changes or {}
    started = subprocess.Popen(command, env=os.environ | given)
    try:
        yield started
    finally:
        if started.poll() is None:
            started.kill()
        started.wait(timeout=patient(30))


@contextmanager
def sink(system: PublicSystem, fail_point: str = "") -> Iterator[subprocess.Popen[bytes]]:
    """The process that feeds ClickHouse with counters alone; it is gone at the end."""
    command = [sys.executable, "-m", "compose.services", "clickhouse_sink", "--instance", str(_SINKS_BEFORE)]
    given = system.settings.environment() | {"MILLRACE_CLICKHOUSE_SINKS": "apart", "MILLRACE_FAIL_POINT": fail_point}
    process = subprocess.Popen(command, env=os.environ | given)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(timeout=patient(30))


def millrace(system: PublicSystem, *arguments: str) -> dict[str, Any]:
    """What a command prints as JSON, whatever its exit status."""
    command = [sys.executable, "-m", "tests.worlds.command_line", *arguments, "--json"]
    environment = os.environ | system.settings.environment()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.stdout, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def work(caller: Caller) -> None:
    """Counters made, added to, closed."""
    for n in range(5):
        one = f"/v1/counters/{caller.counter()['id']}"
        assert caller.post(f"{one}/add", {"amount": n}).status_code == 200
        if n % 2:
            assert caller.post(f"{one}/close", {}).status_code == 200


def in_clickhouse(system: PublicSystem) -> tuple[int, int]:
    """Rows, and distinct rows; none before the first sink has made the table."""
    client = ClickHouseConnection(url=system.settings.addresses().clickhouse_url).client()
    try:
        if not client.command("exists counters"):
            return 0, 0
        rows = client.query("select count(), uniqExact(kafka_partition, seq) from counters").result_rows
        return int(rows[0][0]), int(rows[0][1])
    finally:
        client.close()


def events(system: PublicSystem) -> int:
    """As many as were committed."""
    return int(system.rows("select count(*) from outbox where topic = 'events.counter.v1'")[0][0])


def used(system: PublicSystem, caller: str) -> dict[str, int]:
    """What was metered of a caller."""
    client = ClickHouseConnection(url=system.settings.addresses().clickhouse_url).client()
    try:
        return usage(client, "counter", caller)
    finally:
        client.close()
