"""Looks for what a user left by every way that shows anything: tables, the rule of who sees a post, files, URLs.

Homes too, which hold ids alone. ClickHouse is not asked: no row there has a user, a name or a text.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import httpx
import psycopg

from dataflows.social.media.caches import MediaCaches
from dataflows.social.media.origin_looks import first_shown, urls_of
from schemas import limits
from schemas.social import limits as social_limits
from schemas.social.media_origin import MediaOrigin
from sinks.objects.media_objects import MediaObjects
from sinks.postgres import database_clock
from sinks.postgres.sql_files import queries
from sinks.redis.homes import HomeWriter

SQL: Final = queries("dataflows.social.erasure", "eraser.sql")


class Crawler:
    """Asks everything again; what it counts was found now. Raises psycopg.Error, httpx.HTTPError and RedisError."""

    def __init__(
        self,
        connection: psycopg.Connection[Any],
        http: httpx.Client,
        origin: MediaOrigin,
        objects: MediaObjects,
        homes: HomeWriter,
    ) -> None:
        self._connection = connection
        self._http = http
        self._origin = origin
        self._objects = objects
        self._homes = homes
        self._caches = MediaCaches(http, origin)

    def can_prove(self, age_s: float) -> bool:
        """Whether nothing from before an erasure of this age can still be on its way into a cache."""
        return not self._caches.may_fill(age_s)

    def media(self, user_id: str, after: str) -> tuple[int, str | None]:
        """How many of the next media can be reached, and behind which one it goes on; None where there are no more.

        Caches know a copy of anybody's media by its owner, too: purged twice, they had none left of any of them.
        """
        given = {"user_id": user_id, "after": after, "media": social_limits.ERASURE_MEDIA}
        rows = self._connection.execute(SQL["media_urls"], given).fetchall()
        signed_until = database_clock.now_s(self._connection) + limits.MEDIA_VIEW_TTL_S
        self._caches.purge(user_id)
        copies = self._caches.purge(user_id)
        whole = {row[0] for row in rows[: social_limits.ERASURE_MEDIA_WHOLE] if not after}

        def reachable(row: tuple[str, str, int, list[str]]) -> int:
            media_id, sha256, newest, names = row
            # of the first ones every URL; of the rest of very many the one that is decided apart
            urls = urls_of(self._origin, media_id, newest, names, signed_until, is_every_one=media_id in whole)
            return self._objects.holds(media_id, sha256) + (first_shown(self._http, urls) is not None)

        with ThreadPoolExecutor(social_limits.ERASURE_MEDIA_AT_ONCE) as pool:
            found = sum(pool.map(reachable, rows))
        return copies + found, rows[-1][0] if len(rows) == social_limits.ERASURE_MEDIA else None

    def rest(self, user_id: str) -> tuple[int, dict[str, int]]:
        """How much can be reached in tables and homes, and how much was taken away."""
        given = {"user_id": user_id, "stub": social_limits.ERASED_ANSWER_BYTES}
        row = self._connection.execute(SQL["left_over"], given).fetchone()
        if row is None:
            return 1, {}
        reachable, posts, media, edges = row
        return int(reachable) + self._homes.are_there([user_id]), {"posts": posts, "media": media, "edges": edges}
