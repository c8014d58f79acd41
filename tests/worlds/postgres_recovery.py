"""A Postgres that was killed and recovers for as long as a test wants: a real server, and its own refusals."""

from __future__ import annotations

import os
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

import psycopg

from compose.stack.unprivileged import unprivileged
from tests.eventually import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from compose.settings.settings import Settings

_RECOVERS = ("the database system is starting up", "the database system is not accepting connections")


@contextmanager
def recovering(settings: Settings) -> Iterator[None]:
    """Kills the stack's Postgres. It is started again, and takes nobody's connection until the block is over.

    A server with ``standby.signal`` replays its log until it is promoted. Without hot standby it serves nobody then.
    """
    data, dsn = settings.the_home().data("postgres"), settings.addresses().postgres_superuser_dsn
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("alter system set hot_standby = off")
    _make(data / "standby.signal")
    killed = _postmaster(data)
    os.kill(killed, signal.SIGKILL)
    try:
        eventually(lambda: _said(dsn).endswith(_RECOVERS) or None, what="Postgres recovers")
        yield
    finally:
        _make(data / "promote")
        os.kill(_postmaster(data), signal.SIGUSR1)
        eventually(lambda: _said(dsn) == "", what="Postgres serves again")


def _postmaster(data: Path) -> int:
    return int((data / "postmaster.pid").read_text().split("\n", 1)[0])


def _make(file: Path) -> None:
    file.touch()
    unprivileged(file.parent).own(file)


def _said(dsn: str) -> str:
    """Why it refuses; nothing when it serves."""
    try:
        with psycopg.connect(dsn, connect_timeout=5):
            return ""
    except psycopg.OperationalError as error:
        return str(error).strip().partition("\n")[0]
