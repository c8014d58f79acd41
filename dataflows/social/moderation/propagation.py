"""Looks after every decision until it has arrived everywhere; there is no last attempt. Ends decisions in time.

What was seen is a row for each consumer, so a worker that dies loses nothing: the next one looks again.
"""

from __future__ import annotations

import threading
import time
from datetime import datetime
from typing import Any, Final

import httpx
import psycopg
import structlog
from confluent_kafka import Producer

from dataflows.social.moderation.looks import SQL, Due, Looks
from dataflows.social.worker_commands import worker_command
from dataflows.worker.contract import WorkerPlace
from schemas import limits
from schemas.social.moderation_operations import PROPAGATION, case_named
from sinks.kafka.delivery import command_letter, why_not_delivered

_AWAY: Final = "no answer"
_log = structlog.get_logger(__name__)


class Propagation:
    """One process of it."""

    def __init__(self, place: WorkerPlace) -> None:
        self._place = place
        self._producer = Producer(place.kafka.producer(place.client_id))
        self._stop = threading.Event()
        self._away: str | None = "Postgres was not asked yet"
        self._swept = 0.0

    def run(self) -> None:
        """Looks until ``stop``; a database that is away is waited for."""
        with httpx.Client(timeout=limits.PROPAGATION_FETCH_S, trust_env=False) as http:
            while not self._stop.is_set():
                try:
                    self._follow(http)
                except psycopg.Error as error:
                    self._away = "Postgres is away"
                    _log.warning("propagation_round_failed", kind=type(error).__name__)
                    self._stop.wait(1)

    def stop(self) -> None:
        """Ends ``run`` after the look under way."""
        self._stop.set()

    def why_not_ready(self) -> str | None:
        """None while it looks."""
        return self._away

    def _follow(self, http: httpx.Client) -> None:
        options = f"-c statement_timeout={int(limits.ROUND_TIMEOUT_S * 1_000)} -c application_name=millrace-propagation"
        with psycopg.connect(
            self._place.postgres_dsn,
            autocommit=True,
            connect_timeout=limits.POSTGRES_CONNECT_TIMEOUT_S,
            options=options,
        ) as connection:
            looks = Looks(connection, http, self._place.media)
            while not self._stop.is_set():
                rows = connection.execute(SQL["propagation_due"], {"limit": limits.PROPAGATION_AT_ONCE}).fetchall()
                self._away = None
                for row in rows:
                    self._look(connection, looks, Due(*row))
                if time.monotonic() - self._swept > limits.MEDIA_SWEEP_S:
                    self._end(connection)
                    self._swept = time.monotonic()
                if not rows:
                    self._stop.wait(limits.PROPAGATION_POLL_S)

    def _look(self, connection: psycopg.Connection[Any], looks: Looks, due: Due) -> None:
        try:
            seen = looks.seen(due)
        except httpx.HTTPError:
            seen = _AWAY
        wait_s = min(limits.PROPAGATION_RETRY_MAX_S, 0.5 * 2 ** min(due.attempts, 10))
        given = {"decision_id": due.decision_id, "consumer": due.consumer, "seen": seen, "wait_s": wait_s}
        connection.execute(SQL["propagation_seen"], given)
        if seen:
            _log.warning("decision_not_arrived", decision=due.decision_id, consumer=due.consumer, tries=due.attempts)

    def _end(self, connection: psycopg.Connection[Any]) -> None:
        """Decisions whose time is over, each by a command of one identity."""
        rows = connection.execute(SQL["decisions_over"], {"limit": limits.MEDIA_SWEEP_MAX}).fetchall()
        over = [one for one, ends in rows if datetime.fromisoformat(ends).timestamp() < time.time()]
        if not over:
            return
        letters = [
            command_letter(
                self._place.kafka,
                worker_command(PROPAGATION, "expire_decision", one, case_named(one), {"decision_id": one}),
            )
            for one in over
        ]
        if reason := why_not_delivered(self._place.kafka, self._producer, letters):
            _log.warning("ends_not_told", reason=reason)


def build(place: WorkerPlace) -> Propagation:
    """One process of it."""
    return Propagation(place)
