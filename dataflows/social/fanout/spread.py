"""What events do to homes. Each step may be repeated: after a kill the same events are spread again, for nothing.

Edges and posts are read anew for every batch, so a late event of what ended meanwhile does nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import psycopg

from schemas.records import Event
from schemas.social import limits
from sinks.postgres.sql_files import queries
from sinks.redis.homes import HomeWriter

_SQL: Final = queries("dataflows.social.fanout", "fanout.sql")
_SHOWN: Final = frozenset({"post_published", "post_edited", "post_reposted"})
_ENDED: Final = frozenset({"unfollowed", "blocked"})
_MOVING: Final = _ENDED | {"post_deleted", "followed", "follow_accepted"}  # likes and the like pass by


class Spread:
    """Writes homes by what Postgres says. Raises psycopg's and redis' errors: then the events are spread again."""

    def __init__(self, connection: psycopg.Connection, homes: HomeWriter) -> None:
        self._connection = connection
        self._homes = homes

    def events(self, events: Iterable[Event]) -> None:
        """All that these events do to homes, in their order; what several in a row bring is brought together."""
        shown: dict[str, dict[str, None]] = {}  # by who publishes or reposts
        for event in events:
            user = event.scope.partition(":")[2]
            if event.body["kind"] in _SHOWN and event.body["pushed"]:
                shown.setdefault(user, {})[str(event.body["post_id"])] = None
            elif event.body["kind"] in _MOVING:
                self._push(shown)
                shown = {}
                self._other(user, event)
        self._push(shown)

    def _other(self, user: str, event: Event) -> None:
        kind, target = str(event.body["kind"]), event.body["target_id"]
        if kind == "post_deleted":
            self._forget(str(event.body["post_id"]))
        elif kind == "followed" and event.body["state"] == "active":
            self._backfill(user, str(target), event.version)
        elif kind == "follow_accepted":
            self._backfill(str(target), user, event.version)
        elif kind in _ENDED:
            self._homes.drop([user, str(target)] if kind == "blocked" else [user])

    def _push(self, shown: dict[str, dict[str, None]]) -> None:
        """One look for all posts, then each author's followers once, whatever it published."""
        if not shown:
            return
        ids = [post_id for posts in shown.values() for post_id in posts]
        found = {post_id: (at, kept_by) for post_id, at, kept_by in self._rows("posts_of", ids=ids)}
        places = {
            user: [(found[one][0], one) for one in posts if one in found and found[one][1] != user]
            for user, posts in shown.items()
        }
        for followers in self._followers([user for user, posts in places.items() if posts]):
            self._homes.push([(each, places[user]) for user, each in followers])

    def _forget(self, post_id: str) -> None:
        """Out of so many homes, for others wait: in the rest it lies unseen until newer posts take its place."""
        left = limits.FORGOTTEN_HOMES_MAX
        for followers in self._followers([who for (who,) in self._rows("who_had", post_id=post_id, count=left)]):
            homes = [follower for _, each in followers for follower in each][:left]
            self._homes.forget(homes, post_id)
            left -= len(homes)
            if left == 0:
                break
        count = taken = limits.FORGOTTEN_NOTIFICATIONS
        while taken == count:
            ((taken,),) = self._rows("notifications_forget", post_id=post_id, count=count)

    def forget_all_of(self, user: str) -> None:
        """The end of homes that may hold any post of a user whose posts have ended: their readers build them anew."""
        for followers in self._followers([who for (who,) in self._rows("who_had_any_of", user_id=user)]):
            for _, each in followers:
                self._homes.drop(each)

    def _backfill(self, follower: str, followee: str, version: int) -> None:
        """The newest posts for an edge of this version, into the home that was there before the edge was read.

        An edge of another version has a task of its own. Where it ends after it was read, its home does, too: however
        late a process goes on that stood still here, it writes into no home that was built since.
        """
        building = self._homes.building_of(follower)
        if building is None:  # its reader finds these posts
            return
        ((is_following,),) = self._rows("is_following", user_id=follower, followee=followee, version=version)
        if is_following:
            newest = self._rows("newest_of", user_id=followee, count=limits.BACKFILL_POSTS_MAX)
            self._homes.fill(follower, building, [(created_at, post_id) for created_at, post_id in newest])

    def _followers(self, users: list[str]) -> Iterator[list[tuple[str, list[str]]]]:
        """All who follow each of these, a bounded number of them at once."""
        count = limits.FANOUT_CHUNK_FOLLOWERS
        for n in range(0, len(users), limits.FANOUT_AUTHORS_AT_ONCE):
            left = [(user, "") for user in users[n : n + limits.FANOUT_AUTHORS_AT_ONCE]]
            while left:
                found = self._rows(
                    "followers_after", users=[user for user, _ in left], after=[after for _, after in left], count=count
                )
                if found:
                    yield [(user, each) for user, each in found]
                left = [(user, each[-1]) for user, each in found if len(each) == count]

    def _rows(self, name: str, **parameters: Any) -> list[tuple[Any, ...]]:
        return self._connection.execute(_SQL[name].encode(), parameters).fetchall()
