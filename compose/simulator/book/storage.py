"""The file of the book: how it is opened, and how one of an earlier kind becomes one of today."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Final

from compose.simulator import errors, limits
from compose.simulator.operations.fees import fee_of
from compose.simulator.operations.nouns import provider_ref_for
from compose.simulator.statements import SCHEMA, UPGRADE_AFTER, UPGRADE_BEFORE, UPGRADE_OPERATIONS

if TYPE_CHECKING:
    from pathlib import Path

BOOK_FILE_NAME: Final = "book.sqlite3"
_KIND_OF_TODAY: Final = 3
#: the book of the first kind bears no number
_AFTER: Final = {0: UPGRADE_AFTER, 2: UPGRADE_OPERATIONS}


def book_open(folder: Path) -> sqlite3.Connection:
    """The writer's connection to the book in ``folder``, made if need be. Raises errors.BookUnavailable with advice."""
    path = folder / BOOK_FILE_NAME
    try:
        folder.mkdir(parents=True, exist_ok=True)
        connection = book_connect(path)
        _bring_up_to_date(connection)
    except (OSError, sqlite3.Error) as error:
        raise errors.BookUnavailable(
            f"cannot open the processor's book {path}: {error}; free the disk or move the file away"
        ) from error
    return connection


def book_connect(path: Path) -> sqlite3.Connection:
    """A connection whose commits are on disk when they return. Held by one thread at a time."""
    # The writer's thread is not the one that opened the book; the class promises one user at a time.
    connection = sqlite3.connect(
        path, isolation_level=None, check_same_thread=False, timeout=limits.SIMULATOR_LOCK_WAIT_MS / 1_000
    )
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    return connection


def _bring_up_to_date(connection: sqlite3.Connection) -> None:
    """Whole or not at all: a kill in the middle leaves the book as it was."""
    (kind,) = connection.execute("PRAGMA user_version").fetchone()
    is_new = connection.execute("SELECT count(*) FROM sqlite_schema WHERE name = 'operation'").fetchone()[0] == 0
    if kind == _KIND_OF_TODAY:
        return
    before, after = ("", "") if is_new else (UPGRADE_BEFORE, _AFTER[kind])
    connection.create_function("provider_ref_for", 1, provider_ref_for, deterministic=True)
    connection.create_function("fee_of", 1, fee_of, deterministic=True)
    try:
        connection.executescript(
            f"BEGIN IMMEDIATE; {before} {SCHEMA} {after} PRAGMA user_version = {_KIND_OF_TODAY}; COMMIT;"
        )
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
