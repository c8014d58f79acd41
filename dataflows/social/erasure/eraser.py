"""Takes away what a user left, in bounded steps, then looks for it as anybody could, and certifies that it is gone.

Nobody has seen anything of the user since the commit that began this. A step that was done finds nothing; so a worker
that dies is followed by one that goes on. The certificate is signed when the crawler found nothing, and never before.
"""

from __future__ import annotations

import secrets
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import httpx
import psycopg
import structlog
from redis.exceptions import RedisError

from dataflows.social.config import SocialConfig
from dataflows.social.erasure.crawler import Crawler
from dataflows.social.erasure.erased_before import ErasedBefore
from dataflows.social.fanout.spread import Spread
from dataflows.social.media.origin_looks import looking_client
from dataflows.worker.commands import CommandSender, command_about
from dataflows.worker.contract import WorkerPlace
from schemas.errors import Unavailable
from schemas.rendering import timestamp
from schemas.social import limits
from schemas.social.own_data_operations import ERASER
from sinks.certificates import CertificateKeys
from sinks.objects.media_objects import media_objects
from sinks.postgres import database_clock
from sinks.postgres.lasting_session import LastingSession
from sinks.postgres.sql_files import queries
from sinks.redis.homes import HomeWriter

SQL: Final = queries("dataflows.social.erasure", "eraser.sql")
_STEPS: Final = (
    "take_key",
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
    "take_usage",
    "waiting_settled",
    "take_waiting",
)
_log = structlog.get_logger(__name__)


class Eraser:
    """One process of it."""

    def __init__(self, place: WorkerPlace) -> None:
        if place.keys is None:
            raise Unavailable("There is no folder of keys to certify with.")
        self._media = place.of_service(SocialConfig).media
        self._objects = media_objects(self._media)
        self._certificates = CertificateKeys(place.keys)
        self._sender = CommandSender(place)
        self._homes = HomeWriter(place.of_service(SocialConfig).homes_url)
        self._erased = ErasedBefore(place.keys)
        self._session = LastingSession("eraser", place.postgres_dsn)
        self._forgotten: set[str] = set()  # whose posts are in no home any more
        self._looked: dict[str, str] = {}  # behind which of its media an erasure goes on
        self._told: dict[str, float] = {}  # when a certificate was sent that the owner has not recorded yet

    def run(self) -> None:
        """Erases until ``stop``; what is away is waited for."""
        with looking_client() as http:
            self._session.run(lambda connection: self._follow(connection, http))

    def stop(self) -> None:
        """Ends ``run`` after the step under way."""
        self._session.stop()

    def why_not_ready(self) -> str | None:
        """None while it works."""
        return self._session.why_away

    def _follow(self, connection: psycopg.Connection[Any], http: httpx.Client) -> None:
        crawler = Crawler(connection, http, self._media, self._objects, self._homes)
        self._erased.connected()
        self._forgotten.clear()  # in another database it has posts again, maybe
        self._looked.clear()  # and media
        place: dict[str, Any] = {"at": 0, "after": ""}
        while not self._session.is_stopped:
            self._erased.again(connection)
            given = place | {"limit": limits.PROPAGATION_AT_ONCE}
            rows = connection.execute(SQL["erasures_running"], given).fetchall()
            has_more = False
            for user_id, erasure_id, age_s, _ in rows:
                if not crawler.can_prove(age_s):
                    continue  # nobody sees anything of it meanwhile
                if time.monotonic() - self._told.get(erasure_id, -limits.MEDIA_SWEEP_S) >= limits.MEDIA_SWEEP_S:
                    has_more |= self._erase(connection, crawler, user_id, erasure_id)
            if len(rows) == limits.PROPAGATION_AT_ONCE:
                place = {"at": rows[-1][-1], "after": rows[-1][0]}
                continue
            place = {"at": 0, "after": ""}
            if not has_more:
                self._session.pause(limits.PROPAGATION_POLL_S)

    def _erase(self, connection: psycopg.Connection[Any], crawler: Crawler, user_id: str, erasure_id: str) -> bool:
        """One turn; True where it has more to do at once."""
        is_noted = self._erased.note(user_id)  # what cannot be noted is taken away all the same
        counts: dict[str, int] = {}
        try:
            after = self._looked.get(erasure_id, "")
            if not after:
                self._take(connection, user_id)
                if self._count(connection, "scans_left", {"user_id": user_id}):
                    return False  # one may write yet what would be looked for in vain
            reachable, last = self._media_left(connection, crawler, user_id, after)
            if not reachable and last is not None:  # who has many media keeps nobody waiting
                self._looked[erasure_id] = last
                return True
            if not reachable:
                reachable, counts = self._rest_left(connection, crawler, user_id, erasure_id)
        # a statement that took too long is this erasure's alone: others have their turn
        except (httpx.HTTPError, RedisError, OSError, Unavailable, psycopg.errors.QueryCanceled) as error:
            _log.warning("erasure_not_proved", erasure=erasure_id, kind=type(error).__name__)
            return False
        if reachable:
            _log.warning("erasure_found_something", erasure=erasure_id, reachable=reachable)
            return False
        if is_noted:
            self._certify(connection, user_id, erasure_id, counts)
        return False

    def _rest_left(
        self, connection: psycopg.Connection[Any], crawler: Crawler, user_id: str, erasure_id: str
    ) -> tuple[int, dict[str, int]]:
        """What is left when no medium is, as ``Crawler.rest`` has it; if anything is, media are looked for anew."""
        if erasure_id in self._looked:  # long ago: whatever came meanwhile
            self._take(connection, user_id)
        reachable, counts = crawler.rest(user_id)
        if reachable:
            self._looked.pop(erasure_id, None)
        return reachable, counts

    def _certify(
        self, connection: psycopg.Connection[Any], user_id: str, erasure_id: str, counts: dict[str, int]
    ) -> None:
        document = {
            "certificate_id": f"ce_{secrets.token_hex(12)}",
            "kind": "erasure",
            "erasure_id": erasure_id,
            "user_id": user_id,
            "issued_at": timestamp(database_clock.now_us(connection)),
            "counts": counts,
            "reachable": 0,
        }
        try:
            _, jws = self._certificates.sign(document)
        except Unavailable as error:
            _log.warning("erasure_not_certified", erasure=erasure_id, reason=error.public)
            return
        payload = {"erasure_id": erasure_id, "jws": jws, "reachable": 0}
        command = command_about(ERASER, "certify_erasure", erasure_id, f"user:{user_id}", payload)
        if reason := self._sender.why_not_sent([command]):
            _log.warning("erasure_not_told", erasure=erasure_id, reason=reason)
            return
        self._told[erasure_id] = time.monotonic()
        self._looked.pop(erasure_id, None)

    def _take(self, connection: psycopg.Connection[Any], user_id: str) -> None:
        """Every step until it finds nothing; edges under the locks of both of their users."""
        given: dict[str, Any] = {"user_id": user_id, "limit": limits.ERASURE_ROWS, "stub": limits.ERASED_ANSWER_BYTES}
        for step in _STEPS:
            while self._count(connection, step, given) and not self._session.is_stopped:
                pass
        if user_id not in self._forgotten:  # before its edges end, which say whose homes these are
            Spread(connection, self._homes).forget_all_of(user_id)
            self._forgotten.add(user_id)
        while self._takes_follows(connection, given) and not self._session.is_stopped:
            pass
        self._homes.drop([user_id])

    def _media_left(
        self, connection: psycopg.Connection[Any], crawler: Crawler, user_id: str, after: str
    ) -> tuple[int, str | None]:
        """What is left of the next media when their bytes are taken away, as ``Crawler.media`` has it.

        At first under the names that they are known by, all at once; where anything is found, whatever it is called.
        """
        given = {"user_id": user_id, "after": after, "media": limits.ERASURE_MEDIA}
        rows = connection.execute(SQL["media_of_user"], given).fetchall()
        at_once = limits.ERASURE_MEDIA_AT_ONCE
        with ThreadPoolExecutor(at_once) as pool:
            list(pool.map(self._objects.forget_named, [rows[n::at_once] for n in range(at_once)]))
            reachable, last = crawler.media(user_id, after)
            if not reachable:
                return 0, last
            list(pool.map(lambda one: self._objects.forget(*one[:2]), rows))
        return crawler.media(user_id, after)

    def _takes_follows(self, connection: psycopg.Connection[Any], given: dict[str, Any]) -> int:
        with connection.transaction():
            locked = [user for (user,) in connection.execute(SQL["follows_lock"], given).fetchall()]
            return self._count(connection, "take_follows", given | {"others": locked})

    @staticmethod
    def _count(connection: psycopg.Connection[Any], step: str, given: dict[str, Any]) -> int:
        row = connection.execute(SQL[step], given | {"now": database_clock.now_us(connection)}).fetchone()
        return int(row[0]) if row else 0


def build(place: WorkerPlace) -> Eraser:
    """One process of it."""
    return Eraser(place)
