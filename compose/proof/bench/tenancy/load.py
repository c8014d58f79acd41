"""Commands of tenants for a real owner process on a database of its own; and how fast tenants are made in bulk."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import psycopg

from compose.proof import limits as proof_limits
from compose.proof.bench.goals import at_least
from compose.stack.errors import StackError
from compose.stack.ports import PortLeases
from reconciliation.tenancy.tenant_stores import newest
from schemas import records
from schemas.operation import Named
from schemas.tenancy import limits as tenancy_limits
from schemas.tenancy.operations import OPERATIONS
from schemas.tenancy.service import SERVICE
from sinks import limits as sinks_limits
from sinks.kafka.delivery import command_letter, why_not_delivered
from sinks.tenancy import contexts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from compose.proof.bench.world import World
    from sinks.kafka.delivery import Letter

STAFF: Final = "m_bench"
_BY_NAME: Final = {operation.name: operation for operation in OPERATIONS}
_POSITION: Final = "insert into partition_owner (topic, partition, next_offset) values (%s, %s, %s)"
_OWNED: Final = "select count(*) from partition_owner where topic = %s and owner_id <> ''"
MADE: Final = "select count(*) from tenant"
_MADE_GOAL: Final = 500
_PAGES: Final = 200  # of the list that are read and timed


@contextmanager
def process(world: World, dsn: str, name: str) -> Iterator[None]:
    """A process of the platform on that database; killed at the end."""
    ports = PortLeases()
    given = {"MILLRACE_POSTGRES_DSN": dsn, "MILLRACE_OPS_PORT": str(ports.take_any())}
    command = [sys.executable, "-m", "compose.proof.bench.new_database", name, "--instance", "0"]
    with tempfile.TemporaryFile() as log:
        environment = os.environ | world.settings.environment() | given
        started = subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT)
        try:
            yield
        finally:
            started.kill()
            started.wait()
            ports.close()


@contextmanager
def tenancy_owner(world: World, dsn: str) -> Iterator[None]:
    """One owner of all partitions of tenants, from where the topic ends now."""
    contexts.believe(dsn, world.settings.the_home().path / "keys")
    with psycopg.connect(dsn, autocommit=True) as connection:
        for partition, offset in enumerate(world.ends(SERVICE.commands_topic, SERVICE.partitions)):
            connection.execute(_POSITION, (SERVICE.commands_topic, partition, offset))
        with process(world, dsn, "tenancy_owner"):
            wait_until(connection, _OWNED, (SERVICE.commands_topic,), SERVICE.partitions)
            yield


def wait_until(connection: psycopg.Connection[Any], query: str, given: tuple[Any, ...], wanted: int) -> None:
    """Until the query gives so many. Raises StackError."""
    deadline = time.monotonic() + proof_limits.BENCH_TENANCY_WAIT_S
    while (found := connection.execute(query.encode(), given).fetchone()) and found[0] < wanted:
        if time.monotonic() > deadline:
            raise StackError(f"the owner of tenants came to {found[0]} of {wanted} in time: see 'millrace logs'")
        time.sleep(sinks_limits.HEALTH_POLL_INTERVAL_S)


def measure_provisioning(world: World, dsn: str, tenants: int) -> dict[str, Any]:
    """Tenants a second, from the first command in Kafka to the last tenant served; and pages of the list of all."""
    kafka = world.signer()
    made = [command_letter(kafka, create(f"tenant-{n}")) for n in range(tenants)]
    with tenancy_owner(world, dsn), psycopg.connect(dsn, autocommit=True) as connection:
        began = time.monotonic()
        send(world, made)
        wait_until(connection, MADE, (), tenants)
        seconds = time.monotonic() - began
        pages = _pages(connection)
    return {
        "tenants": tenants,
        **at_least("tenants_per_s", round(tenants / seconds), _MADE_GOAL),
        "list_pages": len(pages),
        "list_page_p99_ms": round(sorted(pages)[len(pages) * 99 // 100] * 1_000, 2),
    }


def _pages(connection: psycopg.Connection[Any]) -> list[float]:
    """The seconds that each page took, one after the other."""
    found: list[float] = []
    after = ""
    while len(found) < _PAGES:
        began = time.perf_counter()
        rows = newest(connection, after)
        found.append(time.perf_counter() - began)
        if len(rows) < tenancy_limits.TENANTS_LISTED_MAX:
            break
        after = rows[-1]["tenant_id"]
    return found


def send(world: World, commands: Iterable[Letter]) -> None:
    """Commands into their topic, at once. Raises StackError."""
    if why := why_not_delivered(world.signer(), world.producer(linger_ms=0), commands):
        raise StackError(f"Kafka did not take the benchmark's commands ({why}); see 'millrace logs kafka'")


def tenant_of(key: str) -> str:
    """The tenant that the creation under this idempotency key makes."""
    return create(key).aggregate_key


def create(key: str) -> records.Command:
    """The command that makes a tenant."""
    return command("create_tenant", key, STAFF, {"name": key, "placement": {"mode": "pooled"}})


def command(name: str, key: str, scope: str, payload: dict[str, Any], path_id: str | None = None) -> records.Command:
    """As an ingress would write it."""
    operation = _BY_NAME[name]
    normal, wrong = operation.normalize(payload)
    if wrong:
        raise ValueError(f"the benchmark made a command that is not valid: {wrong}")
    aggregate_key = operation.aggregate_key(Named(path_id, normal, scope, key))
    return records.Command(
        operation=name,
        request_id=f"req_{key}",
        idempotency_key=key,
        aggregate_key=aggregate_key,
        expected_version=None,
        scope=scope,
        request_hash=operation.request_hash(aggregate_key, normal),
        trace_id="0" * 32,
        issued_at=time.time_ns() // 1_000,
        deadline_at=0,
        reply_to=-1,
        reply_id=0,
        payload=normal,
    )
