"""Real servers for tests. One set serves a whole run; each module has a ``World`` of its own on it.

A test that kills, freezes or restarts a server, or reads its files, has servers of its own: ``own_servers``. Postgres
forgoes fsync everywhere: what is not flushed is lost with the machine's power only, which no test cuts (a killed
process loses nothing that the kernel has). It forgoes autovacuum, too.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import uuid
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit, urlunsplit

import httpx
import psycopg
import pytest

from compose import limits
from compose.settings.addresses import Addresses
from compose.settings.settings import Settings
from compose.settings.unknown_variables import PREFIX
from compose.stack import processes
from compose.stack.errors import StackError
from compose.stack.home import write_private
from compose.stack.kafka import Kafka
from compose.stack.ports import PortLeases
from compose.supervise import launch
from compose.supervise.disk_reserve import DiskReserve
from compose.supervise.state import StackState, read_state
from sinks.kafka.user import BROKER
from sinks.postgres.roles import ROLES
from tests import asked, run_folder
from tests.eventually import patient
from tests.migrated import clone_database, make_template

if TYPE_CHECKING:
    from collections.abc import Iterator

#: the address of a server that a test of one part does not need and does not start
NOWHERE: Final = "127.0.0.1:9"
_ELSEWHERE: Final = {
    "kafka": ("kafka_bootstrap", NOWHERE),
    "postgres": ("postgres_dsn", f"postgresql://nobody@{NOWHERE}/none"),
    "redis": ("redis_url", f"redis://{NOWHERE}"),
    "clickhouse": ("clickhouse_url", f"http://{NOWHERE}"),
}
#: of the one system with all services that serves the tests of the public surface
PUBLIC_HOME: Final = run_folder.FOLDER / "public"
_SERVERS_HOME: Final = run_folder.FOLDER / "servers"
_NOT_OURS: Final = ("ports.json", "run", "logs")
#: a killed Postgres would leave its shared memory behind
_AT_ONCE: Final = {"postgres": signal.SIGQUIT}


@dataclass(frozen=True)
class World:
    """Everything a module may change: its database, topics and groups, ClickHouse database and Valkey database."""

    settings: Settings

    @property
    def addresses(self) -> Addresses:
        """Where its parts of the run's servers are."""
        return self.settings.addresses()

    @property
    def home(self) -> Path:
        """Its passwords and keys."""
        return self.settings.the_home().path


def servers_missing(reason: str) -> None:
    """A laptop without servers skips; CI (REQUIRE_SERVERS=1) fails."""
    if os.environ.get("REQUIRE_SERVERS") == "1":
        pytest.fail(reason)
    pytest.skip(reason)


def clean_environment() -> dict[str, str]:
    """The environment without settings of the shell that runs the tests."""
    return {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}


def up(settings: Settings, **options: Any) -> StackState:
    """As ``launch.up``, ending with the run at the latest; a stack that does not start is a missing server."""
    try:
        return launch.up(settings, tied=run_folder.LIFELINE, **options)
    except StackError as error:
        servers_missing(str(error))
        raise


def run_servers() -> Settings:
    """The servers of the run, started by whoever needs them first."""
    settings = Settings(home=_SERVERS_HOME)
    with run_folder.locked("servers"):
        if not settings.the_home().path.exists():
            _copy_template(settings)
            up(settings, servers_only=True)
            _gives_no_way(process_id(settings, "clickhouse"))
        up(settings, servers_only=True)
    return settings


def _gives_no_way(pid: int) -> None:
    """Here everybody waits for ClickHouse, beside workers that leave nothing over. Only root may say so."""
    with suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            os.setpriority(os.PRIO_PROCESS, int(thread.name), 0)
        Path(f"/proc/{pid}/autogroup").write_text("0")


def end_run() -> None:
    """In the first process of the run: everything ends that was started for all."""
    asked.end()
    if run_folder.is_first():
        for home in (PUBLIC_HOME, _SERVERS_HOME):
            end(Settings(home=home))
        run_folder.remove()


def end(settings: Settings) -> None:
    """Nothing of this home runs afterwards. It is killed: an orderly stop writes for half a minute what nobody reads."""
    state = read_state(settings.the_home())
    if state is None:
        return
    # its supervisor first, which would start the others again, and its guard, which would stop them orderly
    told = [(one.process, _AT_ONCE.get(one.name, signal.SIGKILL)) for one in state.processes if one.process is not None]
    processes.stop(told, limits.SERVER_STOP_TIMEOUT_S)
    launch.down(settings)  # what was started meanwhile
    DiskReserve(settings.the_home()).give_back()  # a run makes a hundred homes


@contextmanager
def world(home: Path, **changes: Any) -> Iterator[World]:
    """A world of its own on the servers of the run. ``changes`` are further settings."""
    with lasting_world(home, **changes) as made:
        try:
            yield made
        finally:
            asked.end()
            # the engine looks after every table that there is, a tenth of a core for hundreds that nobody reads any more
            url = made.addresses.clickhouse_url
            _in_clickhouse(_with_path(url, "default"), f"drop database {urlsplit(url).path[1:]}")


@contextmanager
def lasting_world(home: Path, **changes: Any) -> Iterator[World]:
    """One that is there until the run ends."""
    servers = run_servers()
    name = f"w{uuid.uuid4().hex[:10]}"
    where = servers.addresses()
    database = clone_database(where.postgres_superuser_dsn, name)
    _in_clickhouse(where.clickhouse_url, f"create database {name}")
    roles = servers.role_passwords()
    given: dict[str, Any] = {
        **_kafka_of(servers, name),
        "postgres_dsn": database,
        "redis_url": another_valkey_database(),
        "clickhouse_url": _with_path(where.clickhouse_url, name),
        **{f"postgres_{role.removeprefix('millrace_')}_password": roles[role] for role in ROLES},
    }
    settings = Settings(home=home, **(given | changes))
    leases = PortLeases()  # nobody else gets its ports, whether something listens there or not yet
    settings.the_home().prepare()
    ports = {port: leases.take_any() for port in settings.preferred_ports()}
    write_private(settings.the_home().ports_file, json.dumps(ports))
    try:
        yield World(settings)
    finally:
        leases.close()


def kafka_of_the_run(name: str) -> dict[str, Any]:
    """Settings of who has topics of this name on the run's Kafka.

    Each session under a password of SCRAM costs a client 15 ms of a core, and a run has thousands of them; stacks with a
    Kafka of their own have those sessions.
    """
    return _kafka_of(run_servers(), name)


def _kafka_of(servers: Settings, name: str) -> dict[str, Any]:
    return {
        "kafka_bootstrap": servers.addresses().kafka_bootstrap,
        "kafka_security_protocol": "SASL_PLAINTEXT",
        "kafka_sasl_mechanism": "PLAIN",
        "kafka_sasl_username": BROKER,
        "kafka_sasl_password": servers.the_home().secret(f"kafka_{BROKER}"),
        "kafka_prefix": f"{name}.",
    }


def another_valkey_database() -> str:
    """One of the run's Valkey that nobody else has."""
    number = run_folder.next_number("valkey") + 1  # the first is the run's own
    assert number < limits.REDIS_DATABASES, "more worlds than databases of the run's Valkey"
    return _with_path(run_servers().addresses().redis_url, str(number))


@contextmanager
def own_servers(home: Path, *, servers_only: bool = True, **changes: Any) -> Iterator[Settings]:
    """Servers that nobody else uses, with migrated tables, from a copy of folders that were made once in the run."""
    settings = Settings(home=home, **changes)
    _copy_template(settings)
    up(settings, servers_only=servers_only)
    try:
        yield settings
    finally:
        asked.end()
        end(settings)


def without(*names: str) -> dict[str, Any]:
    """Settings under which these servers are not started: they would be where nobody is."""
    return dict(_ELSEWHERE[name] for name in names)


def process_id(settings: Settings, name: str) -> int:
    """The process of a server or service as it is now."""
    state = read_state(settings.the_home())
    assert state is not None
    return next(entry.pid for entry in state.processes if entry.name == name and entry.pid is not None)


def _copy_template(settings: Settings) -> None:
    """A cluster with every role and table, a formatted Kafka, and the passwords that belong to them."""
    template = Settings(home=run_folder.FOLDER / "template").the_home()
    home = settings.the_home()
    with run_folder.locked("template"):
        if not template.path.exists():
            _make_template_home()
    home.path.mkdir(mode=0o700, parents=True, exist_ok=True)
    # with their owners: Postgres never runs as root
    subprocess.run(["cp", "-a", f"{template.path}/.", str(home.path)], check=True)


def _make_template_home() -> None:
    draft = Settings(home=run_folder.FOLDER / "template.new", **without("kafka", "redis", "clickhouse"))
    home = draft.the_home()
    up(draft, servers_only=True)
    _forgo_upkeep(draft)
    make_template(draft)
    launch.down(draft)
    Kafka(home.data("kafka"), 1, 2, home.secret("kafka_broker")).prepare()
    for name in _NOT_OURS:
        path = home.path / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    home.path.rename(run_folder.FOLDER / "template")


def _forgo_upkeep(settings: Settings) -> None:
    """Autovacuum would go through hundreds of databases again and again, and none lives long enough to need it."""
    with psycopg.connect(settings.addresses().postgres_superuser_dsn, autocommit=True) as connection:
        connection.execute("alter system set fsync = off")
        connection.execute("alter system set full_page_writes = off")
        connection.execute("alter system set autovacuum = off")
        connection.execute("select pg_reload_conf()")


def _in_clickhouse(url: str, statement: str) -> None:
    """In one request: a client of theirs asks three things before it is there, and each world would make two."""
    parts = urlsplit(url)
    assert parts.username
    assert parts.password
    login = unquote(parts.username), unquote(parts.password)
    address = f"http://{parts.hostname}:{parts.port}"
    httpx.post(address, content=statement, auth=login, timeout=patient(30)).raise_for_status()


def _with_path(url: str, path: str) -> str:
    return urlunsplit(urlsplit(url)._replace(path=f"/{path}"))
