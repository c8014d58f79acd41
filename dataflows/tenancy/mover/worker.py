"""The mover: one process at a time does, one after the other, whatever waits for it in the database.

All that it does is found again after a kill -9: each step is repeated without harm, and what is done is written where
the next step begins. A session lock keeps a second mover waiting.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from dataflows.tenancy.mover import endings, feeding
from dataflows.tenancy.mover.certifying import Certifying
from dataflows.tenancy.mover.draining import Draining
from dataflows.tenancy.mover.feeding import SQL
from dataflows.tenancy.mover.leasing import Leasing
from dataflows.tenancy.mover.measuring import Measuring
from dataflows.tenancy.mover.moves import Moves
from dataflows.tenancy.mover.resealing import Resealing
from dataflows.tenancy.mover.shredding import Shredding
from dataflows.tenancy.mover.tenant_rows import Places
from dataflows.tenancy.mover.wrapping import Wrapping
from schemas.tenancy import limits
from sinks.certificates import CertificateKeys
from sinks.postgres import database_clock
from sinks.postgres.lasting_session import LastingSession
from sinks.tenancy import secrets_file
from sinks.tenancy.root_keys import RootKeys
from sinks.tenancy.shredded import Shredded

if TYPE_CHECKING:
    from collections.abc import Callable

    from psycopg import Connection

    from dataflows.worker.contract import WorkerPlace

_LOCK: Final = 0x6D6F7665  # "move"
_SECOND_US: Final = 1_000_000


def session(dsn: str) -> LastingSession:
    """A mover's: one that stands still leaves its work to the next."""
    return LastingSession(
        "tenancy-mover",
        dsn,
        statement_timeout_ms=limits.MOVER_STATEMENT_TIMEOUT_MS,
        held_ms=limits.MOVER_HELD_MS,
        idle_ms=limits.MOVER_IDLE_SESSION_MS,
    )


class Mover:
    """Works until it is stopped."""

    def __init__(self, place: WorkerPlace) -> None:
        if place.keys is None:
            raise ValueError("the mover needs the folder of the home's private files")
        self._dsn, self._instance = place.postgres_dsn, place.client_id
        self._secrets = secrets_file.read(place.keys)
        self._certificates = CertificateKeys(place.keys)
        self._shredded = Shredded(place.keys)
        self._session = session(self._dsn)

    def run(self) -> None:
        """Does what waits, until ``stop``; a database that is away is waited for."""
        self._session.run(self._work)

    def stop(self) -> None:
        """Ends ``run`` soon."""
        self._session.stop()

    def why_not_ready(self) -> str | None:
        """None while it works, or waits for another mover to end."""
        return self._session.why_away

    def _work(self, connection: Connection[Any]) -> None:
        while connection.execute("select pg_try_advisory_lock(%s)", (_LOCK,)).fetchone() != (True,):
            if self._session.pause(limits.MOVER_RETRY_S):
                return
        places = Places(connection, self._dsn, self._secrets)
        clock = database_clock.Running(connection)
        moves = Moves(places, clock.now_us)
        root_keys = RootKeys(self._secrets)
        shredding, wrapping = Shredding(places, self._shredded), Wrapping(places, root_keys)
        measuring, certifying = Measuring(places), Certifying(places, self._certificates, self._shredded)
        draining = Draining(places)
        leasing = Leasing(self._dsn, self._instance)
        resealing = Resealing(places, root_keys, leasing.lease)
        always = (shredding.further, wrapping.further, measuring.further, resealing.further)
        steps: tuple[Callable[[int], bool], ...] = (
            lambda _: measuring.make(),
            lambda now: feeding.provision(places, now),
            lambda _: feeding.bring(places),
            draining.further,
            lambda _: moves.further(),
            lambda now: endings.export(places, root_keys, leasing.lease, now),
            lambda now: endings.delete(places, self._certificates, self._shredded, now),
            certifying.further,
        )
        idle_ms = limits.MOVER_IDLE_MS
        leasing.start(connection)
        try:
            while not self._session.is_stopped:
                done = []
                if something_waits := _something_waits(connection):
                    clock.ask()  # once for a round
                    done = [step(clock.now_us()) for step in steps]
                else:
                    certifying.nothing_waits()
                done += [step(clock.now_us()) for step in always]
                is_busy = any(done) or (something_waits and moves.are_open)
                idle_ms = limits.MOVER_IDLE_MS if is_busy else min(2 * idle_ms, limits.MOVER_IDLE_MAX_MS)
                if not any(done):
                    self._session.pause(idle_ms / 1_000)
        finally:
            places.close()
            leasing.stop(connection)


def _something_waits(connection: Connection[Any]) -> bool:
    """False only where no step would find anything to do."""
    asked = {"certified_after_us": limits.SHRED_CERTIFIED_AFTER_S * _SECOND_US}
    return connection.execute(SQL["anything_waits"].encode(), asked).fetchone() != (False,)


def build(place: WorkerPlace) -> Mover:
    """One process of it."""
    return Mover(place)
