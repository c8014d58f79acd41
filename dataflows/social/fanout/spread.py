"""What one event does to homes. Each step may be repeated: after a kill the same event is spread again, for nothing.

Edges and posts are read anew for every event, so a late event of what ended meanwhile does nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import psycopg

from schemas import limits
from schemas.records import Event
from sinks.postgres.sql_files import queries
from sinks.redis.homes import HomeWriter

_SQL: Final = queries("dataflows.social.fanout", "fanout.sql")
_SHOWN: Final = frozenset({"post_published", "post_edited", "post_reposted"})
_ENDED: Final = frozenset({"unfollowed", "blocked"})


class Spread:
    """Writes homes by what Postgres says. Raises psycopg's and redis' errors: then the event is spread again."""

    def __init__(self, connection: psycopg.Connection, homes: HomeWriter) -> None:
        self._connection = connection
        self._homes = homes

    def event(self, event: Event) -> None:
        """All that this event does to homes."""
        body: dict[str, Any] = event.body
        user = event.scope.partition(":")[2]
        kind, target = str(body["kind"]), body["target_id"]
        if kind in _SHOWN and body["pushed"]:
            self._push(user, str(body["post_id"]))
        elif kind == "post_deleted":
            self._forget(str(body["post_id"]))
        elif kind == "followed" and body["state"] == "active":
            self._backfill(user, str(target))
        elif kind == "follow_accepted":
            self._backfill(str(target), user)
        elif kind in _ENDED:
            self._homes.drop([user, str(target)] if kind == "blocked" else [user])

    def _push(self, user: str, post_id: str) -> None:
        found = self._rows("post_of", post_id=post_id)
        if not found:
            return
        for followers in self._followers([user]):
            self._homes.push(followers, [(found[0][0], post_id)])

    def _forget(self, post_id: str) -> None:
        for followers in self._followers([who for (who,) in self._rows("who_had", post_id=post_id)]):
            self._homes.forget(followers, post_id)
        self._connection.execute(_SQL["notifications_forget"].encode(), {"post_id": post_id})

    def _backfill(self, follower: str, followee: str) -> None:
        ((is_following,),) = self._rows("is_following", user_id=follower, followee=followee)
        if is_following:
            newest = self._rows("newest_of", user_id=followee, count=limits.BACKFILL_POSTS_MAX)
            self._homes.push([follower], [(created_at, post_id) for created_at, post_id in newest])

    def _followers(self, users: list[str]) -> Iterator[list[str]]:
        """All who follow one of these, in chunks."""
        after = ""
        while True:
            rows = self._rows("followers_after", users=users, after=after, count=limits.FANOUT_CHUNK_FOLLOWERS)
            if rows:
                yield [follower for (follower,) in rows]
            if len(rows) < limits.FANOUT_CHUNK_FOLLOWERS:
                return
            after = rows[-1][0]

    def _rows(self, name: str, **parameters: Any) -> list[tuple[Any, ...]]:
        return self._connection.execute(_SQL[name].encode(), parameters).fetchall()
