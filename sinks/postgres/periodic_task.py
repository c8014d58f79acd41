"""A function that runs periodically on a connection of its own, beside whatever else a process does."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import psycopg
import structlog

from schemas import limits

if TYPE_CHECKING:
    from collections.abc import Callable

_log = structlog.get_logger(__name__)


class PeriodicTask:
    """A thread that calls ``task`` with an autocommit connection, at once and then every ``every_s``, until ``stop``.

    A run that raises psycopg.Error is logged and repeated on a new connection. No statement lasts longer than
    ROUND_TIMEOUT_S.
    """

    def __init__(self, name: str, dsn: str, task: Callable[[psycopg.Connection[Any]], object], every_s: float) -> None:
        self._name = name
        self._dsn = dsn
        self._task = task
        self._every_s = every_s
        self._stop = threading.Event()
        self.is_away = False  # Postgres, in the last run
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Returns at once."""
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread within the bound of one statement."""
        self._stop.set()
        self._thread.join(limits.ROUND_TIMEOUT_S)

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._follow()
            except psycopg.Error as error:
                self.is_away = isinstance(error, psycopg.OperationalError)
                reason = str(error).partition("\n")[0]
                _log.warning("round_failed", rounds=self._name, kind=type(error).__name__, reason=reason)
                self._stop.wait(self._every_s)

    def _follow(self) -> None:
        timeout_ms = int(limits.ROUND_TIMEOUT_S * 1_000)
        options = f"-c statement_timeout={timeout_ms} -c application_name=millrace-{self._name}"
        with psycopg.connect(
            self._dsn, autocommit=True, connect_timeout=limits.POSTGRES_CONNECT_TIMEOUT_S, options=options
        ) as connection:
            while not self._stop.is_set():
                self._task(connection)
                self.is_away = False
                self._stop.wait(self._every_s)
