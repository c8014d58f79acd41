"""``millrace backup``: a home as a kill of all its processes at one moment would have left it.

A copy of Postgres that is older than that of Kafka would do commands twice, and one of Kafka that is older would lack
some. So both are of one moment: Postgres's files are copied while all runs, and so are the others, a first time; then
everything but Postgres stands still for as long as it takes to copy what changed meanwhile, and Postgres's log up to
there. Whatever was acknowledged before is in the backup, and nothing is half.
"""

from __future__ import annotations

import shutil
import stat
import time
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib import metadata
from typing import TYPE_CHECKING, Any, Final

import psycopg

from compose import limits
from compose.backup.draft import draft_of, need_room
from compose.backup.files import TreeCopy, entries, write_manifest
from compose.backup.frozen import frozen
from compose.stack.errors import StackError
from compose.stack.postgres import SUPERUSER
from compose.supervise.state import read_state
from sinks import limits as sinks_limits
from sinks.postgres.sql_files import queries

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from compose.settings.settings import Settings
    from compose.supervise.state import StackState

_SQL: Final = queries("compose.backup", "postgres.sql")
_WAL: Final = "pg_wal"
#: of Postgres: what is of the running server alone, and its log, which comes last
_NOT_OF_POSTGRES: Final = (
    *(_WAL, "pg_replslot", "pg_stat_tmp", "pg_notify", "pg_serial", "pg_snapshots", "pg_subtrans", "pg_dynshmem"),
    *("postmaster.pid", "postmaster.opts"),
)
#: of a home: what is made anew at each start
_NOT_OF_HOME: Final = ("logs", "run", "secrets/given", "data/media_cache", "data/postgres")


def back_up(settings: Settings, target: Path, on_step: Callable[[str], None] = lambda _: None) -> dict[str, Any]:
    """Makes ``target`` a backup of the home, whose stack must be ready; what the manifest says but its files.

    ``target`` is there as a whole or not at all. Raises StackError.
    """
    _running(settings)
    home = settings.the_home().path.resolve()
    if target.resolve().is_relative_to(home):
        raise StackError(f"{target} lies in the home itself: give a folder elsewhere, at best on another disk")
    try:
        with draft_of(target, target.with_name(f".{target.name}.unfinished")) as draft:
            need_room(draft, _bytes_needed(home, draft))
            told = _copy(settings, home, draft, on_step)
            on_step("digests")
            write_manifest(draft, told)
    except OSError as error:
        raise StackError(f"the backup cannot be written: {error}") from error
    return told


def _bytes_needed(home: Path, draft: Path) -> int:
    """A disk that a backup fills stops Kafka and Postgres, if the home is on it."""
    needed = limits.BACKUP_SPARE_BYTES
    if draft.stat().st_dev == home.stat().st_dev:
        needed = limits.HOME_FREE_BYTES_MIN
    copied = entries(home, lambda path: _is_left_out_but_postgres(str(path.relative_to(home))))
    return needed + sum(found.st_size for _, found in copied if stat.S_ISREG(found.st_mode))


def _running(settings: Settings, being: tuple[str, ...] = ("ready",)) -> StackState:
    elsewhere = [
        name for name in ("kafka_bootstrap", "postgres_dsn", "redis_url", "clickhouse_url") if getattr(settings, name)
    ]
    if elsewhere:
        raise StackError(
            f"MILLRACE_{elsewhere[0].upper()} points elsewhere: such a server is backed up by its own means"
        )
    state = read_state(settings.the_home())
    if state is None or not state.running():
        raise StackError("nothing runs here: copy the home as it is, or run 'millrace up' first")
    if state.phase not in being:
        raise StackError(f"the stack is {state.phase}: see 'millrace status', and back it up when it is ready")
    return state


def _copy(settings: Settings, home: Path, draft: Path, on_step: Callable[[str], None]) -> dict[str, Any]:
    database = home / "data" / "postgres", draft / "data" / "postgres"
    everything = TreeCopy(home, draft, _is_left_out)
    with _postgres_backup(settings) as connection:
        first = _one(connection, "backup_start")
        on_step("Postgres")
        TreeCopy(*database, _is_not_of_postgres).copy()
        on_step("everything else")
        everything.copy(except_below=("data/postgres",))
        on_step("Postgres's log")
        newest = _one(connection, "log_newest")
        _copy_wal(*database, first, newest)  # of these only the newest changes any more
        on_step("standing still")
        begun = time.monotonic()
        with frozen(lambda: _running(settings, being=("ready", "degraded"))):
            everything.copy(except_below=("data/postgres",))
            lsn, label, spaces, last = connection.execute(_SQL["backup_stop"].encode()).fetchall()[0]
            _copy_wal(*database, newest, last)
        stood_still_s = round(time.monotonic() - begun, 3)
    (database[1] / "backup_label").write_text(label)
    if spaces:
        raise StackError("Postgres has tablespaces, which a home does not: back it up by its own means")
    made_at = datetime.now(UTC).isoformat(timespec="seconds")
    told = {"made_at": made_at, "millrace": metadata.version("millrace"), "postgres_lsn": lsn}
    return told | {"stood_still_s": stood_still_s}


@contextmanager
def _postgres_backup(settings: Settings) -> Iterator[psycopg.Connection]:
    """A session in which Postgres keeps its log; both end with it, however it ends."""
    dsn = settings.addresses().postgres_superuser_dsn
    try:
        with psycopg.connect(
            dsn, autocommit=True, connect_timeout=sinks_limits.POSTGRES_CONNECT_TIMEOUT_S, application_name=SUPERUSER
        ) as connection:
            connection.execute(f"set statement_timeout = '{limits.BACKUP_WAL_TIMEOUT_S}s'".encode())
            connection.execute(_SQL["log_kept"].encode())
            yield connection
    except psycopg.errors.DuplicateObject:
        raise StackError("another backup of this home is being made: wait until it ends") from None
    except psycopg.Error as error:
        raise StackError(f"Postgres cannot be backed up: {str(error).strip().partition(chr(10))[0]}") from error


def _one(connection: psycopg.Connection, statement: str) -> str:
    found: str = connection.execute(_SQL[statement].encode()).fetchall()[0][0]
    return found


def _copy_wal(source: Path, target: Path, first: str, last: str) -> None:
    folder = target / _WAL
    (folder / "archive_status").mkdir(mode=0o700, parents=True, exist_ok=True)
    names = [p.name for p in (source / _WAL).iterdir() if len(p.name) == len(first) and first <= p.name <= last]
    for name in sorted(names):
        shutil.copy2(source / _WAL / name, folder / name)
    for name in _NOT_OF_POSTGRES:
        if name != _WAL and not name.startswith("postmaster"):
            (target / name).mkdir(mode=0o700, exist_ok=True)


def _is_left_out(name: str) -> bool:
    return any(name == left or name.startswith(f"{left}/") for left in _NOT_OF_HOME)


def _is_left_out_but_postgres(name: str) -> bool:
    return _is_left_out(name) and not name.startswith("data/postgres")


def _is_not_of_postgres(name: str) -> bool:
    first, _, _ = name.partition("/")
    return first in _NOT_OF_POSTGRES or "pgsql_tmp" in name or name.endswith("pg_internal.init")
