"""A function that runs periodically on a connection of its own, beside whatever else a process does."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from sinks import limits
from sinks.postgres.lasting_session import LastingSession

if TYPE_CHECKING:
    from collections.abc import Callable

    import psycopg


class PeriodicTask:
    """A thread that calls ``task`` with an autocommit connection, at once and then every ``every_s``, until ``stop``.

    A run that raises psycopg.Error is logged and repeated on a new connection. No statement lasts longer than
    ROUND_TIMEOUT_S.
    """

    def __init__(self, name: str, dsn: str, task: Callable[[psycopg.Connection[Any]], object], every_s: float) -> None:
        self._session = LastingSession(name, dsn, retry_s=every_s)
        self._task = task
        self._every_s = every_s
        self._thread = threading.Thread(target=self._session.run, args=(self._work,), name=name, daemon=True)

    @property
    def why_away(self) -> str | None:
        """None while Postgres answers."""
        return self._session.why_away

    def start(self) -> None:
        """Returns at once."""
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread within the bound of one statement."""
        self._session.stop()
        self._thread.join(limits.ROUND_TIMEOUT_S)

    def _work(self, connection: psycopg.Connection[Any]) -> None:
        while not self._session.is_stopped:
            self._task(connection)
            self._session.pause(self._every_s)
