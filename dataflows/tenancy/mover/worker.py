"""The mover: one process at a time does, one after the other, whatever waits for it in the database.

All that it does is found again after a kill -9: each step is repeated without harm, and what is done is written where
the next step begins. A session lock keeps a second mover waiting.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, Final

import psycopg
import structlog

from dataflows.tenancy.mover import endings, feeding
from dataflows.tenancy.mover.moves import Moves
from dataflows.tenancy.mover.place import Places
from schemas import limits
from sinks.certificates import CertificateKeys
from sinks.tenancy import secrets_file
from sinks.tenancy.seals import RootKeys

if TYPE_CHECKING:
    from collections.abc import Callable

    from psycopg import Connection

    from dataflows.worker.contract import WorkerPlace

_LOCK: Final = 0x6D6F7665  # "move"
_log: Final = structlog.get_logger(__name__)


class Mover:
    """Works until it is stopped."""

    def __init__(self, place: WorkerPlace) -> None:
        if place.keys is None:
            raise ValueError("the mover needs the folder of the home's private files")
        self._dsn = place.postgres_dsn
        self._name = place.client_id
        self._secrets = secrets_file.ensure(place.keys)
        self._certificates = CertificateKeys(place.keys)
        self._certificates.ensure()
        self._stop = threading.Event()
        self._why_not: str | None = "Postgres is away"

    def run(self) -> None:
        """Does what waits, until ``stop``; a database that is away is waited for."""
        while not self._stop.is_set():
            try:
                with psycopg.connect(
                    self._dsn,
                    autocommit=True,
                    application_name=self._name,
                    connect_timeout=limits.POSTGRES_CONNECT_TIMEOUT_S,
                    options=f"-c statement_timeout={limits.MOVER_STATEMENT_TIMEOUT_MS}",
                ) as connection:
                    self._work(connection)
            except psycopg.OperationalError as error:
                self._why_not = "Postgres is away"
                _log.warning("mover_waits", reason=type(error).__name__)
                self._stop.wait(limits.MOVER_RETRY_S)

    def stop(self) -> None:
        """Ends ``run`` soon."""
        self._stop.set()

    def why_not_ready(self) -> str | None:
        """None while it works, or waits for another mover to end."""
        return self._why_not

    def _work(self, connection: Connection[Any]) -> None:
        self._why_not = None
        while connection.execute("select pg_try_advisory_lock(%s)", (_LOCK,)).fetchone() != (True,):
            if self._stop.wait(limits.MOVER_RETRY_S):
                return
        places = Places(connection, self._dsn, self._secrets)
        moves = Moves(places)
        root_keys = RootKeys(self._secrets)
        steps: tuple[Callable[[int], bool], ...] = (
            lambda now: feeding.provision(places, now),
            lambda _: feeding.bring(places),
            moves.further,
            lambda now: endings.export(places, root_keys, now),
            lambda now: endings.delete(places, self._certificates, now),
            lambda now: endings.certify_shredded(places, self._certificates, now),
        )
        idle_ms = limits.MOVER_IDLE_MS
        try:
            while not self._stop.is_set():
                done = [step(time.time_ns() // 1_000) for step in steps]
                idle_ms = (
                    limits.MOVER_IDLE_MS if any(done) or moves.are_open else min(2 * idle_ms, limits.MOVER_IDLE_MAX_MS)
                )
                if not any(done):
                    self._stop.wait(idle_ms / 1_000)
        finally:
            places.close()


def build(place: WorkerPlace) -> Mover:
    """One process of it."""
    return Mover(place)
