"""A session of one thread that outlasts its connections: what is away is waited for, and the work begins again."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Final

import psycopg
import structlog

from sinks import limits
from sinks.postgres.session import Session, not_held

if TYPE_CHECKING:
    from collections.abc import Callable

_ROUND_TIMEOUT_MS: Final = int(limits.ROUND_TIMEOUT_S * 1_000)
_log: Final = structlog.get_logger(__name__)


class LastingSession:
    """Runs work on an autocommit connection until ``stop``, which any thread may call.

    Work that raises psycopg.Error is logged and begun again on a new connection after ``retry_s``. No statement lasts
    longer than ``statement_timeout_ms``. Where the process stands still, Postgres ends the session after ``held_ms``
    in a transaction, and outside of one after ``idle_ms`` (0 = never): what it held is somebody else's then.
    """

    def __init__(
        self,
        name: str,
        dsn: str,
        *,
        statement_timeout_ms: int = _ROUND_TIMEOUT_MS,
        held_ms: int = limits.IDLE_IN_TRANSACTION_TIMEOUT_MS,
        idle_ms: int = 0,
        retry_s: float = limits.SESSION_RETRY_S,
    ) -> None:
        self.why_away: str | None = "Postgres was not asked yet"  # None while it answers
        self._name = name
        self._dsn = dsn
        bounds = f"{not_held(held_ms)} -c idle_session_timeout={idle_ms} -c statement_timeout={statement_timeout_ms}"
        self._options = f"{bounds} -c application_name=millrace-{name}"
        self._retry_s = retry_s
        self._stop = threading.Event()

    @property
    def is_stopped(self) -> bool:
        """The work should end."""
        return self._stop.is_set()

    def stop(self) -> None:
        """Ends a pause at once, and the work when it next asks."""
        self._stop.set()

    def pause(self, pause_s: float) -> bool:
        """Waits; True when it was stopped meanwhile."""
        return self._stop.wait(pause_s)

    def run(self, work: Callable[[psycopg.Connection[Any]], None]) -> None:
        """Calls ``work`` with a connection, again and again, until ``stop``."""
        while not self.is_stopped:
            try:
                with self._connected() as connection:
                    self.why_away = None
                    work(connection)
            except psycopg.Error as error:
                is_away = isinstance(error, psycopg.OperationalError)
                self.why_away = "Postgres is away" if is_away else f"Postgres refuses: {type(error).__name__}"
                reason = str(error).partition("\n")[0]
                _log.warning("session_broken", session=self._name, kind=type(error).__name__, reason=reason)
                self.pause(self._retry_s)

    def _connected(self) -> psycopg.Connection[Any]:
        return Session.connect(
            self._dsn, autocommit=True, connect_timeout=limits.POSTGRES_CONNECT_TIMEOUT_S, options=self._options
        )
