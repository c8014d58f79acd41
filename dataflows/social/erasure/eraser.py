"""Takes away what a user left, in bounded steps, then looks for it as anybody could, and certifies that it is gone.

Nobody has seen anything of the user since the commit that began this. A step that was done finds nothing; so a worker
that dies is followed by one that goes on. The certificate is signed when the crawler found nothing, and never before.
"""

from __future__ import annotations

import secrets
import threading
import time
from datetime import UTC, datetime
from typing import Any, Final

import httpx
import psycopg
import structlog
from confluent_kafka import Producer
from redis.exceptions import RedisError

from dataflows.owner import fail_points
from dataflows.social.erasure.crawler import Crawler
from dataflows.social.worker_commands import worker_command
from dataflows.worker.contract import WorkerPlace
from schemas import limits
from schemas.errors import Unavailable
from schemas.social.own_data_operations import ERASER
from sinks.certificates import CertificateKeys
from sinks.kafka.delivery import command_letter, why_not_delivered
from sinks.objects.media_objects import MediaObjects
from sinks.postgres.sql_files import queries
from sinks.redis.homes import HomeWriter

SQL: Final = queries("dataflows.social.erasure", "eraser.sql")
_STEPS: Final = (
    "take_posts",
    "take_media",
    "take_blocks",
    "take_mutes",
    "take_reactions",
    "take_notifications",
    "take_reports",
    "take_appeals",
    "take_exports",
    "take_answers",
)
_STUB_BYTES: Final = 40  # of an answer that says nothing
_log = structlog.get_logger(__name__)


class Eraser:
    """One process of it."""

    def __init__(self, place: WorkerPlace) -> None:
        if place.keys is None:
            raise Unavailable("There is no folder of keys to certify with.")
        self._place = place
        self._objects = MediaObjects(place.media.folder)
        self._certificates = CertificateKeys(place.keys)
        self._certificates.ensure()
        self._producer = Producer(place.kafka.producer(place.client_id))
        self._homes = HomeWriter(place.redis_url)
        self._stop = threading.Event()
        self._away: str | None = "Postgres was not asked yet"
        self._told: dict[str, float] = {}  # when a certificate was sent that the owner has not recorded yet

    def run(self) -> None:
        """Erases until ``stop``; what is away is waited for."""
        with httpx.Client(timeout=limits.PROPAGATION_FETCH_S, trust_env=False) as http:
            while not self._stop.is_set():
                try:
                    self._follow(http)
                except psycopg.Error as error:
                    self._away = "Postgres is away"
                    _log.warning("erasure_round_failed", kind=type(error).__name__)
                    self._stop.wait(1)

    def stop(self) -> None:
        """Ends ``run`` after the step under way."""
        self._stop.set()

    def why_not_ready(self) -> str | None:
        """None while it works."""
        return self._away

    def _follow(self, http: httpx.Client) -> None:
        options = f"-c statement_timeout={int(limits.ROUND_TIMEOUT_S * 1_000)} -c application_name=millrace-eraser"
        with psycopg.connect(
            self._place.postgres_dsn,
            autocommit=True,
            connect_timeout=limits.POSTGRES_CONNECT_TIMEOUT_S,
            options=options,
        ) as connection:
            crawler = Crawler(connection, http, self._place.media, self._objects)
            while not self._stop.is_set():
                rows = connection.execute(SQL["erasures_running"], {"limit": limits.PROPAGATION_AT_ONCE}).fetchall()
                self._away = None
                for user_id, erasure_id, _ in rows:
                    if time.monotonic() - self._told.get(erasure_id, -limits.MEDIA_SWEEP_S) >= limits.MEDIA_SWEEP_S:
                        self._erase(connection, crawler, user_id, erasure_id)
                self._stop.wait(limits.PROPAGATION_POLL_S)

    def _erase(self, connection: psycopg.Connection[Any], crawler: Crawler, user_id: str, erasure_id: str) -> None:
        self._take(connection, user_id)
        try:
            self._homes.drop([user_id])
            reachable, counts = crawler.crawl(user_id)
        except (httpx.HTTPError, RedisError, OSError, Unavailable) as error:
            _log.warning("erasure_not_proved", erasure=erasure_id, kind=type(error).__name__)
            return
        if reachable:
            _log.warning("erasure_found_something", erasure=erasure_id, reachable=reachable)
            return
        document = {
            "certificate_id": f"ce_{secrets.token_hex(12)}",
            "kind": "erasure",
            "erasure_id": erasure_id,
            "user_id": user_id,
            "issued_at": datetime.now(UTC).isoformat().replace("+00:00", "Z"),
            "counts": counts,
            "reachable": 0,
        }
        _, jws = self._certificates.sign(document)
        payload = {"erasure_id": erasure_id, "jws": jws, "reachable": 0}
        command = worker_command(ERASER, "certify_erasure", erasure_id, f"user:{user_id}", payload)
        if reason := why_not_delivered(self._place.kafka, self._producer, [command_letter(self._place.kafka, command)]):
            _log.warning("erasure_not_told", erasure=erasure_id, reason=reason)
            return
        fail_points.reach("worker_after_send")
        self._told[erasure_id] = time.monotonic()

    def _take(self, connection: psycopg.Connection[Any], user_id: str) -> None:
        """Every step until it finds nothing; edges under the locks of both of their users."""
        given: dict[str, Any] = {"user_id": user_id, "limit": limits.ERASURE_ROWS, "stub": _STUB_BYTES}
        for step in _STEPS:
            while self._count(connection, step, given) and not self._stop.is_set():
                pass
        with connection.transaction():
            connection.execute(SQL["follows_lock"], given)
            self._count(connection, "take_follows", given)
        for media_id, sha256, _, _ in connection.execute(SQL["media_of_user"], given).fetchall():
            self._objects.forget(media_id, sha256)

    @staticmethod
    def _count(connection: psycopg.Connection[Any], step: str, given: dict[str, Any]) -> int:
        row = connection.execute(SQL[step], given | {"now": time.time_ns() // 1_000}).fetchone()
        return int(row[0]) if row else 0


def build(place: WorkerPlace) -> Eraser:
    """One process of it."""
    return Eraser(place)
