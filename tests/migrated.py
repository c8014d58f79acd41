"""Databases of a test's own, empty and migrated: cloned from one that was migrated once on each server."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

import psycopg
from psycopg import sql

from sinks.postgres.migrate import migrate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from compose.settings import Settings

_TEMPLATE = "migrated"


def in_database(dsn: str, name: str) -> str:
    """The DSN of another database of the same server."""
    return urlunsplit(urlsplit(dsn)._replace(path=f"/{name}"))


@contextmanager
def fresh_database(settings: Settings, name: str) -> Iterator[str]:
    """The database until the end of the block; the superuser's DSN of it."""
    superuser = settings.addresses().postgres_superuser_dsn
    with psycopg.connect(superuser, autocommit=True) as connection:
        if not connection.execute("select 1 from pg_database where datname = %s", (_TEMPLATE,)).fetchone():
            _make_template(connection, settings)
        _run(connection, "create database {} template {}", name, _TEMPLATE)
    try:
        yield in_database(superuser, name)
    finally:
        with psycopg.connect(superuser, autocommit=True) as connection:
            _run(connection, "drop database {} with (force)", name)


def _make_template(connection: psycopg.Connection, settings: Settings) -> None:
    """It gets its name when it is whole: nothing is cloned from half of it."""
    unfinished = f"{_TEMPLATE}_unfinished"
    _run(connection, "drop database if exists {}", unfinished)
    _run(connection, "create database {}", unfinished)
    migrate(in_database(settings.addresses().postgres_superuser_dsn, unfinished), settings.role_passwords())
    _run(connection, "alter database {} rename to {}", unfinished, _TEMPLATE)


def _run(connection: psycopg.Connection, statement: str, *names: str) -> None:
    connection.execute(sql.SQL(statement).format(*map(sql.Identifier, names)))
