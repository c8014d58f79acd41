"""Migrations: numbered .sql files, applied once, in order, each in a transaction, under an advisory lock. Forward only.

A change of a live table follows expand/contract: add, fill, switch, and remove in a later release.
"""

from __future__ import annotations

import hashlib
import time
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Final

import psycopg
from psycopg import sql

from schemas.services import FURTHER
from sinks import limits
from sinks.postgres.roles import CREATES_DATABASES, ROLES

_LOCK: Final = 0x6D696C6C  # "mill"


class NotMigratedError(RuntimeError):
    """An operator has to mend something first; the text is one line that says what."""


def migrate(dsn: str, passwords: dict[str, str]) -> list[str]:
    """Brings the database up to date and returns the files applied now; a second run at once waits and does nothing.

    A migration waits for a table for moments only, again and again: a lock that is waited for stops all who come after.
    ``dsn`` is of a role that may create roles; ``passwords`` gives one per role of ROLES. Raises
    NotMigratedError when an applied file was edited afterwards, and for one that does not get its tables.
    """
    with psycopg.connect(dsn, autocommit=True, connect_timeout=limits.POSTGRES_CONNECT_TIMEOUT_S) as connection:
        connection.execute("select pg_advisory_lock(%s)", (_LOCK,))
        try:
            _settle_roles(connection, passwords)
            connection.execute(
                "create table if not exists schema_migration"
                " (file text primary key, sha256 text not null, applied_at timestamptz not null default now())"
            )
            applied: dict[str, str] = dict(connection.execute("select file, sha256 from schema_migration").fetchall())
            return [file for file, text in files() if _apply(connection, file, text, applied)]
        finally:
            connection.execute("select pg_advisory_unlock(%s)", (_LOCK,))


def files() -> list[tuple[str, str]]:
    """Name and text of every migration, in order; those of services in packages of their own come last."""
    found = _files(resources.files("sinks.postgres") / "migrations", "")
    for service in FURTHER:
        found += _files(resources.files(service.home) / "migrations", f"{service.name}/")
    return found


def _files(folder: Traversable, prefix: str) -> list[tuple[str, str]]:
    files = sorted((file for file in folder.iterdir() if file.name.endswith(".sql")), key=lambda file: file.name)
    return [(prefix + file.name, file.read_text()) for file in files]


def _apply(connection: psycopg.Connection, file: str, text: str, applied: dict[str, str]) -> bool:
    digest = hashlib.sha256(text.encode()).hexdigest()
    if file in applied:
        if applied[file] != digest:
            raise NotMigratedError(f"{file} was edited after it was applied; write a new migration instead")
        return False
    for _ in range(limits.MIGRATION_LOCK_TRIES_MAX):
        try:
            with connection.transaction():
                connection.execute(f"set local lock_timeout = {int(limits.MIGRATION_LOCK_TIMEOUT_MS)}".encode())
                connection.execute(text.encode())
                connection.execute("insert into schema_migration (file, sha256) values (%s, %s)", (file, digest))
        except (
            psycopg.errors.LockNotAvailable,
            psycopg.errors.DeadlockDetected,
        ):  # whoever came behind us is served before the next try
            time.sleep(limits.MIGRATION_LOCK_PAUSE_S)
        else:
            return True
    raise NotMigratedError(f"{file} does not get its tables: end what holds them (pg_locks), and migrate again")


def _settle_roles(connection: psycopg.Connection, passwords: dict[str, str]) -> None:
    """Roles are the server's, the lock is the database's: installations that share a server may meet here."""
    for left in reversed(range(limits.POSTGRES_ROLE_TRIES_MAX)):
        try:
            _ensure_roles(connection, passwords)
        except (psycopg.errors.InternalError_, psycopg.errors.UniqueViolation):  # "tuple concurrently updated"
            if not left:
                raise
        else:
            return


def _ensure_roles(connection: psycopg.Connection, passwords: dict[str, str]) -> None:
    existing = {row[0] for row in connection.execute("select rolname from pg_roles").fetchall()}
    database = connection.info.dbname
    with connection.transaction():
        for role in ROLES:
            verb = sql.SQL("alter" if role in existing else "create")
            connection.execute(
                sql.SQL("{} role {} login nosuperuser {} nocreaterole password {}").format(
                    verb,
                    sql.Identifier(role),
                    sql.SQL("createdb" if role in CREATES_DATABASES else "nocreatedb"),
                    sql.Literal(_as_stored(connection, role, passwords[role])),
                )
            )
            connection.execute(
                sql.SQL("grant {} on database {} to {}").format(
                    sql.SQL("connect, create" if role in CREATES_DATABASES else "connect"),
                    sql.Identifier(database),
                    sql.Identifier(role),
                )
            )
        connection.execute("revoke create on schema public from public")


def _as_stored(connection: psycopg.Connection, role: str, password: str) -> str:
    """What the server makes of a password, made here: it logs statements that fail or take long, with what they say."""
    return connection.pgconn.encrypt_password(password.encode(), role.encode()).decode()
