"""Looks after every decision until it has arrived everywhere; there is no last attempt. Ends decisions in time.

Whatever else hides media (visibility, a private account, a deletion, an erasure) it purges from caches, and looks.

What was seen is a row for each consumer, so a worker that dies loses nothing: the next one looks again.
"""

from __future__ import annotations

import time
from datetime import datetime
from typing import Any, Final

import httpx
import psycopg
import structlog
from msgspec import structs
from prometheus_client import Histogram

from dataflows.social.config import SocialConfig
from dataflows.social.media.origin_looks import looking_client
from dataflows.social.moderation.looks import ORIGIN, SQL, Due, Looks
from dataflows.worker.commands import CommandSender, command_about
from dataflows.worker.contract import WorkerPlace
from schemas.records import Command
from schemas.social import limits
from schemas.social.moderation_operations import PROPAGATION, case_named
from sinks.postgres import database_clock
from sinks.postgres.lasting_session import LastingSession

_AWAY: Final = "no answer"
#: of one look, which is made again later: a statement that takes too long keeps no other decision waiting
_NO_ANSWER: Final = (httpx.HTTPError, psycopg.errors.QueryCanceled)
_MINUTE_S: Final = 60
_ARRIVED_S: Final = Histogram(
    "millrace_social_propagation_seconds",
    "From a decision to the look that saw it arrived at this consumer",
    ["consumer"],
    buckets=limits.PROPAGATION_SECONDS_TOLD,
)
_log = structlog.get_logger(__name__)


class Propagation:
    """One process of it."""

    def __init__(self, place: WorkerPlace) -> None:
        self._place = place
        self._sender = CommandSender(place)
        self._session = LastingSession("propagation", place.postgres_dsn)
        self._swept = 0.0

    def run(self) -> None:
        """Looks until ``stop``; a database that is away is waited for."""
        with looking_client() as http:
            self._session.run(lambda connection: self._follow(connection, http))

    def stop(self) -> None:
        """Ends ``run`` after the look under way."""
        self._session.stop()

    def why_not_ready(self) -> str | None:
        """None while it looks."""
        return self._session.why_away

    def _follow(self, connection: psycopg.Connection[Any], http: httpx.Client) -> None:
        looks = Looks(connection, http, self._place.of_service(SocialConfig).media)
        while not self._session.is_stopped:
            found = connection.execute(SQL["propagation_waits"]).fetchone() != (False,)
            if found:
                rows = connection.execute(SQL["propagation_due"], {"limit": limits.PROPAGATION_AT_ONCE}).fetchall()
                for row in rows:
                    self._look(connection, looks, Due(*row))
                found = bool(rows + self._hide(connection, looks))
            if time.monotonic() - self._swept > limits.MEDIA_SWEEP_S:
                self._end(connection)
                self._swept = time.monotonic()
            if not found:
                self._session.pause(limits.PROPAGATION_POLL_S)

    def _look(self, connection: psycopg.Connection[Any], looks: Looks, due: Due) -> None:
        if due.consumer == ORIGIN:
            self._look_at_edges(connection, looks, due)
        try:
            seen = looks.seen(due)
        except _NO_ANSWER:
            seen = _AWAY
        wait_s = _wait_s(due.attempts)
        given = {"decision_id": due.decision_id, "consumer": due.consumer, "seen": seen, "wait_s": wait_s}
        connection.execute(SQL["propagation_seen"], given)
        if seen:
            _log.warning("decision_not_arrived", decision=due.decision_id, consumer=due.consumer, tries=due.attempts)
        else:
            _ARRIVED_S.labels(due.consumer).observe(due.age_s)

    def _look_at_edges(self, connection: psycopg.Connection[Any], looks: Looks, due: Due) -> None:
        """Caches have rows before the origin can be seen to have obeyed: so nothing is verified without them."""
        given = {"decision_id": due.decision_id, "consumer": ORIGIN, "edges": looks.edges}
        for (edge,) in connection.execute(SQL["propagation_edges"], given).fetchall():
            self._look(connection, looks, structs.replace(due, consumer=edge, attempts=0))

    def _hide(self, connection: psycopg.Connection[Any], looks: Looks) -> list[tuple[Any, ...]]:
        """Purges what was hidden, again until no cache can have it; what there was to look at."""
        rows = connection.execute(SQL["hidden_due"], {"limit": limits.PROPAGATION_AT_ONCE}).fetchall()
        for object_id, attempts, hidden_at, age_s in rows:
            try:
                seen = looks.kept(object_id, age_s)
            except _NO_ANSWER:
                seen = _AWAY
            given = {"object_id": object_id, "hidden_at": hidden_at, "seen": seen, "wait_s": _wait_s(attempts)}
            connection.execute(SQL["hidden_seen" if seen else "hidden_gone"], given)
        return rows

    def _end(self, connection: psycopg.Connection[Any]) -> None:
        """Decisions whose time is over, each by a command of one identity a minute: an owner's clock may be behind."""
        try:
            rows = connection.execute(SQL["decisions_over"], {"limit": limits.MEDIA_SWEEP_MAX}).fetchall()
            now_s = database_clock.now_s(connection)
        except _NO_ANSWER:
            _log.warning("ends_not_looked_at")
            return
        over_s = {one: now_s - int(datetime.fromisoformat(ends).timestamp()) for one, ends in rows}
        ends = [_end_of(one, over // _MINUTE_S) for one, over in over_s.items() if over > 0]
        if reason := self._sender.why_not_sent(ends):
            _log.warning("ends_not_told", reason=reason)


def _end_of(decision_id: str, minutes: int) -> Command:
    about = f"{decision_id}:{minutes}"
    return command_about(PROPAGATION, "expire_decision", about, case_named(decision_id), {"decision_id": decision_id})


def _wait_s(attempts: int) -> float:
    """Until the next look at one thing."""
    return float(min(limits.PROPAGATION_RETRY_MAX_S, 0.5 * 2 ** min(attempts, 10)))


def build(place: WorkerPlace) -> Propagation:
    """One process of it."""
    return Propagation(place)
