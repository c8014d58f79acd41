"""Looks whether a decision has arrived where its object is shown: what is still there, or nothing.

Posts are shown by one rule alone, so each consumer is asked by that rule; the media origin, and each cache in front of
it, is asked over HTTP, with the URLs that were good before, signed ones too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

import httpx
import psycopg
from msgspec import Struct

from dataflows.social.media.caches import MediaCaches
from dataflows.social.media.origin_looks import first_shown, urls_of
from schemas import limits
from schemas.social import limits as social_limits
from schemas.social.media_origin import MediaOrigin
from sinks.postgres import database_clock
from sinks.postgres.sql_files import queries

SQL: Final = queries("dataflows.social.moderation", "looks.sql")
ORIGIN: Final = "media_origin"


class Due(Struct):
    """One consumer of one decision that has to be looked at."""

    decision_id: str
    consumer: str
    object_id: str
    effect: str
    attempts: int
    is_superseded: bool
    author_id: str
    age_s: float  # of the decision


class Looks:
    """Asks the consumers. ``seen`` raises psycopg.Error and httpx.HTTPError when one does not answer."""

    def __init__(self, connection: psycopg.Connection[Any], http: httpx.Client, origin: MediaOrigin) -> None:
        self._connection = connection
        self._http = http
        self._origin = origin
        self._caches = MediaCaches(http, origin)
        self._by_consumer: dict[str, Callable[[Due], str]] = {
            "posts": self._readable,
            "homes": self._readable,
            "search": self._found,
            "notifications": self._notified,
            ORIGIN: self._served,
        }

    def seen(self, due: Due) -> str:
        """What is still there that the decision takes away; "" when there is nothing."""
        if due.consumer in self._caches.edges:
            return self._kept(due.consumer, due.object_id, due.age_s)
        look = self._by_consumer.get(due.consumer)
        if look is None or (due.is_superseded and due.consumer != ORIGIN):
            return ""  # a cache that was taken away; or another decision is in force, and is looked at itself
        return look(due)

    def _posts(self, due: Due) -> list[str]:
        given = {"object_id": due.object_id, "limit": social_limits.PROPAGATION_MEDIA_MAX}
        return [row[0] for row in self._connection.execute(SQL["posts_of_object"], given).fetchall()]

    def _count(self, name: str, **given: Any) -> int:
        row = self._connection.execute(SQL[name], given).fetchone()
        return int(row[0]) if row else 0

    def _readable(self, due: Due) -> str:
        if due.effect != "remove" or due.object_id.startswith("md_"):
            return ""
        posts, readers = self._posts(due), social_limits.PROPAGATION_READERS
        count = self._count("posts_readable", posts=posts, author_id=due.author_id, readers=readers) if posts else 0
        return f"{count} readers" if count else ""

    def _found(self, due: Due) -> str:
        is_of_post = due.effect == "limit" or not due.object_id.startswith("md_")  # which stays without its medium
        if due.effect not in ("remove", "limit") or not is_of_post:
            return ""
        posts = self._posts(due)
        count = self._count("posts_found", posts=posts) if posts else 0
        return f"{count} posts" if count else ""

    def _notified(self, due: Due) -> str:
        if due.effect != "remove" or due.object_id.startswith("md_"):
            return ""
        posts = self._posts(due)
        count = self._count("notified_readable", posts=posts, author_id=due.author_id) if posts else 0
        return f"{count} notifications" if count else ""

    @property
    def edges(self) -> Sequence[str]:
        """The caches in front of the origin: each is a consumer of every decision."""
        return list(self._caches.edges)

    def _served(self, due: Due) -> str:
        """By the origin itself, past its caches."""
        return self._shown(due.object_id, self._origin.uploads_url)[0]

    def kept(self, object_id: str, age_s: float) -> str:
        """What any cache may still have of what a change of this age hid."""
        return next(filter(None, (self._kept(edge, object_id, age_s) for edge in self._caches.edges)), "")

    def _kept(self, edge: str, object_id: str, age_s: float) -> str:
        """A cache is purged before it is looked at, and believed when no fetch from before the change can reach it."""
        self._caches.purge_edge(edge, object_id)
        seen, media = self._shown(object_id, self._caches.edges[edge])
        if not seen and media and self._caches.may_fill(age_s):
            return f"{media[0]} may be on its way into a cache"
        return seen

    def _shown(self, object_id: str, url: str) -> tuple[str, list[str]]:
        """What answers at this address of an object's media, and all of these.

        Every older URL is asked for, and, where they are hidden, the present ones too.
        """
        place, media = replace(self._origin, url=url), list[str]()
        given = {"object_id": object_id, "limit": social_limits.PROPAGATION_MEDIA_MAX}
        signed_until = database_clock.now_s(self._connection) + limits.MEDIA_VIEW_TTL_S
        for media_id, version, is_served, names in self._connection.execute(SQL["media_of_object"], given).fetchall():
            media.append(media_id)
            newest = version - 1 if is_served else version
            shown = first_shown(self._http, urls_of(place, media_id, newest, names, signed_until))
            if shown is not None:
                return f"{media_id} under version {shown}", media
        return "", media
