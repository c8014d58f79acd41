"""A migration waits for a busy table without stopping everybody who comes after it."""

from __future__ import annotations

import threading
import uuid
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit, urlunsplit

import psycopg
import pytest
from psycopg import sql

from compose.stack.home import Home
from sinks import limits
from sinks.postgres import migrate
from tests import run_folder
from tests.eventually import eventually, patient
from tests.integration.operator_shell import Operator
from tests.migrated import clone_database

if TYPE_CHECKING:
    from tests.servers import World

pytestmark = pytest.mark.servers

NEXT = ("9999_next.sql", "create table of_next (id integer); alter table payment_intent add column of_next integer;")
_WAITS = "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"


@pytest.fixture
def dsn(stack: World, monkeypatch: pytest.MonkeyPatch) -> str:
    """A migrated database, to which a release brings one more file."""
    files = [*migrate.files(), NEXT]
    monkeypatch.setattr(migrate, "files", lambda: files)
    return clone_database(stack.addresses.postgres_superuser_dsn, f"busy_{uuid.uuid4().hex[:10]}")


def test_who_reads_a_table_meanwhile_is_served(stack: World, dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A report holds the table for long: the migration steps back again and again, and is applied when it can be."""
    monkeypatch.setattr(limits, "MIGRATION_LOCK_TIMEOUT_MS", 300)
    applied: list[str] = []
    passwords = stack.settings.role_passwords()
    migrating = threading.Thread(target=lambda: applied.extend(migrate.migrate(dsn, passwords)), daemon=True)
    with psycopg.connect(dsn, autocommit=True) as served, psycopg.connect(dsn) as report:
        report.execute("select count(*) from payment_intent")  # its lock stays until it ends
        migrating.start()
        eventually(lambda: served.execute(_WAITS).fetchone() == (1,), what="the migration waits")
        served.execute("set statement_timeout = 5000")
        for _ in range(3):
            assert served.execute("select count(*) from payment_intent").fetchone() == (0,)
        assert applied == []
        report.rollback()
    migrating.join(timeout=patient(30))
    assert applied == [NEXT[0]]
    with psycopg.connect(dsn) as connection:
        assert connection.execute("select count(of_next) from payment_intent").fetchone() == (0,)
        assert connection.execute("select count(*) from of_next").fetchone() == (0,)


def test_what_never_gets_its_table_says_so_and_changes_nothing(
    stack: World, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MIGRATION_LOCK_TIMEOUT_MS", 20)
    monkeypatch.setattr(limits, "MIGRATION_LOCK_TRIES_MAX", 3)
    monkeypatch.setattr(limits, "MIGRATION_LOCK_PAUSE_S", 0.01)
    with psycopg.connect(dsn) as report:
        report.execute("select count(*) from payment_intent")
        with pytest.raises(migrate.NotMigratedError, match=r"9999_next\.sql does not get its tables"):
            migrate.migrate(dsn, stack.settings.role_passwords())
    assert migrate.migrate(dsn, stack.settings.role_passwords()) == [NEXT[0]]


def test_what_an_operator_mends_is_one_line(stack: World) -> None:
    """At a shell: nobody reads a traceback for a file that was edited, or for a server that is away."""
    shell, wrong = Operator.of(stack.settings), "update schema_migration set sha256 = {} where file = '0001_spine.sql'"
    with psycopg.connect(stack.addresses.postgres_superuser_dsn, autocommit=True) as connection:
        row = connection.execute("select sha256 from schema_migration where file = '0001_spine.sql'").fetchone()
        assert row is not None
        connection.execute(wrong.format("'another'").encode())
        edited = shell.run("migrate")
        connection.execute(wrong.format(f"'{row[0]}'").encode())
    told = "millrace: 0001_spine.sql was edited after it was applied; write a new migration instead\n"
    assert (edited.returncode, edited.stderr) == (1, told)
    away = shell.run("migrate", settings={"MILLRACE_POSTGRES_DSN": "postgresql://nobody@127.0.0.1:1/none"})
    assert away.returncode == 1
    assert away.stderr.startswith("millrace: Postgres does not answer: ")
    assert "Traceback" not in away.stderr


def test_no_password_is_in_the_log_of_the_server(stack: World) -> None:
    """Not even when it logs every statement; and each role comes in with its own."""
    passwords, log = stack.settings.role_passwords(), Home(run_folder.FOLDER / "servers").log("postgres")
    dsn, name = stack.addresses.postgres_superuser_dsn, f"logs_{uuid.uuid4().hex[:10]}"
    clone = clone_database(dsn, name)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(sql.SQL("alter database {} set log_statement = 'all'").format(sql.Identifier(name)))
    before = log.stat().st_size
    migrate.migrate(clone, passwords)
    said = log.read_bytes()[before:]
    assert b"alter role" in said
    assert [role for role, password in passwords.items() if password.encode() in said] == []
    where = urlsplit(clone)
    for role, password in passwords.items():
        known = f"{role}:{quote(password, safe='')}@{where.netloc.rpartition('@')[2]}"
        with psycopg.connect(urlunsplit(where._replace(netloc=known))) as connection:
            assert connection.execute("select current_user").fetchone() == (role,)
