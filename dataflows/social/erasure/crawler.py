"""Looks for what a user left by every way that shows anything: tables, the one rule of who sees a post, files, URLs."""

from __future__ import annotations

from typing import Any, Final

import httpx
import psycopg

from dataflows.social.media.caches import MediaCaches
from dataflows.social.media.origin_looks import shown_version
from schemas import limits
from schemas.media_origin import MediaOrigin
from schemas.social import limits as social_limits
from sinks.objects.media_objects import MediaObjects
from sinks.postgres import database_clock
from sinks.postgres.sql_files import queries

SQL: Final = queries("dataflows.social.erasure", "eraser.sql")


class Crawler:
    """Asks everything again; what it counts was found now. Raises psycopg.Error and httpx.HTTPError."""

    def __init__(
        self, connection: psycopg.Connection[Any], http: httpx.Client, origin: MediaOrigin, objects: MediaObjects
    ) -> None:
        self._connection = connection
        self._http = http
        self._origin = origin
        self._objects = objects
        self._caches = MediaCaches(http, origin)

    def can_prove(self, age_s: float) -> bool:
        """Whether nothing from before an erasure of this age can still be on its way into a cache."""
        return not self._caches.may_fill(age_s)

    def media(self, user_id: str, after: str) -> tuple[int, str | None]:
        """How many of the next media can be reached, and behind which one it goes on; None where there are no more."""
        given = {"user_id": user_id, "after": after, "media": social_limits.ERASURE_MEDIA}
        rows = self._connection.execute(SQL["media_urls"], given).fetchall()
        reachable, signed_until = 0, database_clock.now_s(self._connection) + limits.MEDIA_VIEW_TTL_S
        for media_id, sha256, newest, names in rows:
            self._caches.purge(media_id)
            shown = shown_version(self._http, self._origin, media_id, newest, names, signed_until)
            reachable += self._objects.holds(media_id, sha256) + (shown is not None)
        return reachable, rows[-1][0] if len(rows) == social_limits.ERASURE_MEDIA else None

    def rest(self, user_id: str) -> tuple[int, dict[str, int]]:
        """How much can be reached in tables, and how much was taken away."""
        row = self._connection.execute(SQL["left_over"], {"user_id": user_id}).fetchone()
        if row is None:
            return 1, {}
        reachable, posts, media, edges = row
        return int(reachable), {"posts": posts, "media": media, "edges": edges}
