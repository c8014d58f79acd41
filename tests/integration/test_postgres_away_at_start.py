"""Every service of ours that needs Postgres waits for it when it starts, says so, and ends when it is told to.

A machine that starts again starts all at once, and a Postgres that was killed recovers for as long as that takes: a
process that ended meanwhile would be given up. How the vault waits while Postgres recovers is tested in
test_vault_process.py.
"""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

import psycopg
import pytest
from psycopg import sql
from pydantic import SecretStr

from compose.settings import SERVICES, Settings
from compose.stack.home import write_private
from sinks.kafka.topics import ensure_topics
from tests.attempts_world import free_port, readiness
from tests.conftest import clean_environment
from tests.eventually import becomes, eventually, patient
from tests.gate import matrix
from tests.migrated import fresh_database

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.conftest import Stack

pytestmark = [pytest.mark.servers, pytest.mark.timeout(240)]

_REFUSED: Final = "connection failed: connection to server"
#: these two never ask Postgres
_WITHOUT_POSTGRES: Final = ("simulator", "limiter_gateway")
_NEEDING_POSTGRES: Final = tuple(service for service in SERVICES if service not in _WITHOUT_POSTGRES)
#: a loop over connections of its own, and one over a pool
_WAYS: Final = ("owner", "processor_worker")
#: ready with their place in a consumer group, or as long as nothing comes in that would be written
_READY_WITHOUT: Final = ("owner", "limiter_owner", "limiter_usage")


@dataclass
class Servers:
    """The session's servers with topics and a database of our own."""

    stack: Stack
    database: str
    settings: Settings

    def accept(self, *, connections: bool) -> None:
        """Whether Postgres lets anybody into the database; nobody stays whom it would not let in."""
        with psycopg.connect(self.stack.addresses.postgres_superuser_dsn, autocommit=True) as connection:
            statement = sql.SQL("alter database {} allow_connections {}")
            connection.execute(statement.format(sql.Identifier(self.database), sql.Literal(connections)))
            if not connections:
                everybody = "select pg_terminate_backend(pid) from pg_stat_activity where datname = %s"
                connection.execute(everybody, (self.database,))


@pytest.fixture(scope="module")
def servers(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """Everything that a service needs."""
    database = f"waiting_{uuid.uuid4().hex[:12]}"
    roles = stack.settings.role_passwords()
    passwords = {f"postgres_{role.removeprefix('millrace_')}_password": word for role, word in roles.items()}
    with fresh_database(stack.settings, database) as dsn:
        settings = Settings(
            home=tmp_path_factory.mktemp("waiting"),
            kafka_bootstrap=stack.addresses.kafka.bootstrap,
            kafka_prefix=f"{database}-",
            redis_url=stack.addresses.redis_url,
            clickhouse_url=stack.addresses.clickhouse_url,
            postgres_dsn=dsn,
            **passwords,
        )
        settings.the_home().prepare()
        ports = {name: free_port() for name in settings.preferred_ports()}
        write_private(settings.the_home().ports_file, json.dumps(ports))
        ensure_topics(settings.addresses().kafka)
        yield Servers(stack, database, settings)


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
        assert reason.startswith(("Postgres is away", _REFUSED)), reason
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
def test_it_waits_for_postgres_and_ends_when_told(service: str, servers: Servers, tmp_path: Path) -> None:
    """Nothing listens where Postgres should: the process goes on waiting, and SIGTERM is a regular end."""
    nowhere = f"postgresql://postgres@127.0.0.1:{free_port()}/millrace"
    settings = servers.settings.model_copy(update={"postgres_dsn": SecretStr(nowhere)})
    with started(service, settings, tmp_path / "log") as waiting:
        eventually(waiting.waits, 60, what=f"{service} waits")
        waiting.ends()


@pytest.mark.parametrize("service", matrix(_NEEDING_POSTGRES, lambda service: service == "processor_worker"))
def test_it_serves_once_postgres_does(service: str, servers: Servers, tmp_path: Path) -> None:
    """Postgres refuses everybody at first, as one that recovers does; who waited serves then, and waits again later."""
    servers.accept(connections=False)
    try:
        with started(service, servers.settings, tmp_path / "log") as waiting:
            eventually(waiting.waits, 60, what=f"{service} waits")
            servers.accept(connections=True)
            becomes(partial(readiness, waiting.port), (200, "ready"), 60, what=f"{service} serves")
            servers.accept(connections=False)
            if service not in _READY_WITHOUT:
                eventually(waiting.waits, what=f"{service} waits again")
            waiting.ends()
    finally:
        servers.accept(connections=True)
