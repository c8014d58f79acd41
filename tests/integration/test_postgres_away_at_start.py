"""Every service of ours that needs Postgres waits for it when it starts, says so, and ends when it is told to.

A machine that starts again starts all at once, and a Postgres that was killed recovers for as long as that takes: a
process that ended meanwhile would be given up. How the vault waits while Postgres recovers is tested in
test_vault_process.py.
"""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import psycopg
import pytest
from psycopg import sql
from pydantic import SecretStr

from compose.settings.settings import SERVICES
from sinks.kafka.topics import ensure_topics
from sinks.tenancy import contexts
from tests.eventually import becomes, eventually, patient
from tests.gate import matrix
from tests.migrated import in_database
from tests.servers import NOWHERE, clean_environment
from tests.worlds.payments.attempts_world import free_port, readiness

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from compose.settings.settings import Settings
    from tests.servers import World

pytestmark = pytest.mark.servers

_REFUSED: Final = "connection failed: connection to server"
#: these two never ask Postgres
_WITHOUT_POSTGRES: Final = ("simulator", "limiter_gateway")
_NEEDING_POSTGRES: Final = tuple(service for service in SERVICES if service not in _WITHOUT_POSTGRES)
#: a loop over connections of its own, and one over a pool
_WAYS: Final = ("owner", "processor_worker")
#: ready with their place in a consumer group, or as long as nothing comes in that would be written
_READY_WITHOUT: Final = ("owner", "limiter_owner", "limiter_usage")


@pytest.fixture(scope="module")
def settings(stack: World) -> Settings:
    """Everything that a service needs."""
    ensure_topics(stack.addresses.kafka)
    contexts.believe(stack.addresses.postgres_superuser_dsn, stack.home / "keys")  # as migrations do
    return stack.settings


def accept(settings: Settings, *, connections: bool) -> None:
    """Whether Postgres lets anybody into the database; nobody stays whom it would not let in."""
    dsn = settings.addresses().postgres_superuser_dsn
    database = urlsplit(dsn).path.strip("/")
    with psycopg.connect(in_database(dsn, "postgres"), autocommit=True) as connection:
        statement = sql.SQL("alter database {} allow_connections {}")
        connection.execute(statement.format(sql.Identifier(database), sql.Literal(connections)))
        if not connections:
            everybody = "select pg_terminate_backend(pid) from pg_stat_activity where datname = %s"
            connection.execute(everybody, (database,))


@dataclass
class Started:
    """A process of a service."""

    process: subprocess.Popen[bytes]
    port: int  # of its /readyz
    log: Path

    def waits(self) -> bool:
        """It tells that it is Postgres that it waits for, and has tried more than once."""
        assert self.process.poll() is None, f"it ended with {self.process.returncode}: {self.log.read_text()}"
        status, reason = readiness(self.port) or (0, "nobody answers")
        assert status == 503, reason
        assert reason.startswith("Postgres is away") or _REFUSED in reason, reason
        return self.log.read_text().count(_REFUSED) > 1

    def ends(self) -> None:
        """SIGTERM is a regular end of it."""
        self.process.terminate()
        assert self.process.wait(patient(20)) == 0, self.log.read_text()


@contextmanager
def started(service: str, settings: Settings, log: Path) -> Iterator[Started]:
    """The service's process, which is gone at the end."""
    port = free_port()
    variables = clean_environment() | settings.environment() | {"MILLRACE_OPS_PORT": str(port)}
    with log.open("wb") as output:
        command = [sys.executable, "-m", "compose.services", service]
        process = subprocess.Popen(command, env=variables, stdout=output, stderr=subprocess.STDOUT)
    try:
        yield Started(process, port, log)
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("service", matrix(_NEEDING_POSTGRES, _WAYS.__contains__))
def test_it_waits_for_postgres_and_ends_when_told(service: str, settings: Settings, tmp_path: Path) -> None:
    """Nothing listens where Postgres should: the process goes on waiting, and SIGTERM is a regular end."""
    away = settings.model_copy(update={"postgres_dsn": SecretStr(f"postgresql://postgres@{NOWHERE}/millrace")})
    with started(service, away, tmp_path / "log") as waiting:
        eventually(waiting.waits, 60, what=f"{service} waits")
        waiting.ends()


@pytest.mark.parametrize("service", matrix(_NEEDING_POSTGRES, lambda service: service == "processor_worker"))
def test_it_serves_once_postgres_does(service: str, settings: Settings, tmp_path: Path) -> None:
    """Postgres refuses everybody at first, as one that recovers does; who waited serves then, and waits again later."""
    accept(settings, connections=False)
    try:
        with started(service, settings, tmp_path / "log") as waiting:
            eventually(waiting.waits, 60, what=f"{service} waits")
            accept(settings, connections=True)
            becomes(partial(readiness, waiting.port), (200, "ready"), 60, what=f"{service} serves")
            accept(settings, connections=False)
            if service not in _READY_WITHOUT:
                eventually(waiting.waits, what=f"{service} waits again")
            waiting.ends()
    finally:
        accept(settings, connections=True)
