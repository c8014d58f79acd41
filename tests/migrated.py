"""Databases of a test's own, empty and migrated: cloned from one that was migrated once in the run."""

from __future__ import annotations

import uuid
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit, urlunsplit

import psycopg
from psycopg import sql

from sinks.postgres.migrate import files, migrate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from compose.settings.settings import Settings

_TEMPLATE: Final = "migrated"


def in_database(dsn: str, name: str) -> str:
    """The DSN of another database of the same server."""
    return urlunsplit(urlsplit(dsn)._replace(path=f"/{name}"))


def make_template(settings: Settings) -> None:
    """The cluster's own database and the one that others are cloned from have every table."""
    superuser = settings.addresses().postgres_superuser_dsn
    migrate(superuser, settings.role_passwords())
    clone_database(superuser, _TEMPLATE, urlsplit(superuser).path.strip("/"))


def clone_database(superuser: str, name: str, template: str = _TEMPLATE) -> str:
    """Makes a database and returns the superuser's DSN of it. Nobody drops it: the run's folder is removed whole."""
    with psycopg.connect(in_database(superuser, "postgres"), autocommit=True) as connection:
        # files are copied, not logged page by page: a third of the CPU, and no wait where fsync is off
        clone = sql.SQL("create database {} template {} strategy file_copy")
        connection.execute(clone.format(sql.Identifier(name), sql.Identifier(template)))
    return in_database(superuser, name)


@contextmanager
def database_before(superuser: str, first: str) -> Iterator[psycopg.Connection[Any]]:
    """A database of the release whose last migration came before this file; ``upgrade`` brings the others."""
    name = f"before_{uuid.uuid4().hex[:10]}"
    with psycopg.connect(superuser, autocommit=True) as connection:
        connection.execute(sql.SQL("create database {} template template0").format(sql.Identifier(name)))
    with psycopg.connect(in_database(superuser, name), autocommit=True) as connection:
        for file, text in files():
            if file < first:
                connection.execute(text.encode())
        yield connection


def upgrade(connection: psycopg.Connection[Any], first: str) -> None:
    """This migration and all after it."""
    for file, text in files():
        if file >= first:
            connection.execute(text.encode())
