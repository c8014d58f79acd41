"""What events do to homes. Each step may be repeated: after a kill the same events are spread again, for nothing.

Edges and posts are read anew for every batch, so a late event of what ended meanwhile does nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import psycopg

from dataflows.owner import fail_points
from dataflows.social.fanout.counting import SQL as COUNTING
from dataflows.social.fanout.counting import Work
from dataflows.social.fanout.waiting import Task, Waiting, posts_into_homes
from schemas.records import Event
from schemas.social import limits
from sinks.postgres.sql_files import queries
from sinks.redis.homes import HomeWriter, Place

_SQL: Final = queries("dataflows.social.fanout", "fanout.sql")
_SHOWN: Final = frozenset({"post_published", "post_edited", "post_reposted"})
_ENDED: Final = frozenset({"unfollowed", "blocked"})
_MOVING: Final = _ENDED | {"post_deleted", "followed", "follow_accepted"}  # likes and the like pass by


def is_pushed(event: Event) -> bool:
    """Whether it shows a post that fan-out writes into homes."""
    return event.body["kind"] in _SHOWN and bool(event.body["pushed"])


def _user_of(event: Event) -> str:
    return event.scope.partition(":")[2]


class Spread:
    """Writes homes by what Postgres says. Raises psycopg's and redis' errors: then the events are spread again."""

    def __init__(self, connection: psycopg.Connection, homes: HomeWriter) -> None:
        self._connection = connection
        self._homes = homes
        self._waiting = Waiting(connection)

    def events(self, events: Iterable[Event]) -> Work:
        """What these events do to homes. At once: posts into homes that were read of late, and the ends of homes.

        All else waits (``rest``): homes that nobody read of late, what an author publishes beside very much, posts of
        who is followed from now on, deleted posts. All events were committed before, so their order is nobody's matter.
        """
        shown: dict[str, dict[str, None]] = {}  # by who publishes or reposts
        moving: list[Event] = []
        pushes = pulls = 0
        deliveries, shed = self._homes.deliveries, self._waiting.homes_shed
        for event in events:
            if is_pushed(event):
                pushes += 1
                shown.setdefault(_user_of(event), {})[str(event.body["post_id"])] = None
            elif event.body["kind"] in _SHOWN:
                pulls += 1
            elif event.body["kind"] in _MOVING:
                moving.append(event)
        self._push(shown)
        for event in moving:
            self._other(_user_of(event), event)
        done = self._homes.deliveries - deliveries, self._waiting.homes_shed - shed
        return Work(pushes, pulls, *done)

    def rest(self) -> bool:
        """A bounded part of what waits, posts before all else. False where nothing is left that this process may do."""
        with self._connection.transaction():
            tasks, deliveries = self._waiting.next(), self._homes.deliveries
            if tasks:
                fail_points.reach("fanout_before_turn")
            for task in tasks:
                if task.kind == "posts":
                    self._push_late(task)
                elif task.kind == "edge":
                    self._backfill(task.user_id, task.target_id, task.version)
                else:
                    self._forget(task.target_id)
                fail_points.reach("fanout_in_turn")
            self._waiting.done(tasks)
            if late := self._homes.deliveries - deliveries:
                self._connection.execute(COUNTING["count_late"].encode(), {"deliveries": late})
        self._waiting.measure()
        return bool(tasks)

    def _other(self, user: str, event: Event) -> None:
        kind, target = str(event.body["kind"]), str(event.body["target_id"])
        if kind == "post_deleted":
            post_id = str(event.body["post_id"])
            if not self._waiting.put(Task("ended", user, post_id)):
                self._forget(post_id)  # what is told of it must go, however much waits
        elif kind == "followed" and event.body["state"] == "active":
            self._put(Task("edge", user, target, event.version, [user]))
        elif kind == "follow_accepted":
            self._put(Task("edge", target, user, event.version, [target]))
        elif kind in _ENDED:
            self._homes.drop([user, target] if kind == "blocked" else [user])

    def _put(self, task: Task) -> None:
        """Puts off; where too much waits its homes end, and their readers build them from Postgres."""
        if not self._waiting.put(task):
            self._homes.drop(task.homes)
            self._waiting.shed(task)

    def _push(self, shown: dict[str, dict[str, None]]) -> None:
        """One look for all posts, then each author's followers once, whatever it published."""
        places = self._places(shown)
        if not places:
            return
        most = limits.FANOUT_POSTS_AT_ONCE
        for followers in self._followers(list(places)):
            now = [(each, places[user][-most:]) for user, each in followers]
            late = self._homes.push(now, seen_s=limits.FANOUT_SEEN_S)
            for n, homes in late:
                self._put_off(followers[n][0], homes, now[n][1])
            for user, each in followers:
                self._put_off(user, each, places[user][:-most])

    def _put_off(self, user: str, homes: Sequence[str], posts: Sequence[Place]) -> None:
        if posts:
            for task in posts_into_homes(user, homes, [post_id for _, post_id in posts]):
                self._put(task)

    def _push_late(self, task: Task) -> None:
        """Into the homes of those who still follow: others' may have been built anew since it was put off."""
        places = self._places({task.user_id: dict.fromkeys(task.post_ids)})
        homes = self._rows("still_follow", user_id=task.user_id, homes=list(task.homes)) if places else []
        self._homes.push([([home for (home,) in homes], posts) for posts in places.values()])

    def _places(self, shown: dict[str, dict[str, None]]) -> dict[str, list[Place]]:
        """The posts of each that are still there for others, with their times; nobody who has none."""
        if not shown:
            return {}
        ids = [post_id for posts in shown.values() for post_id in posts]
        found = {post_id: (at, kept_by) for post_id, at, kept_by in self._rows("posts_of", ids=ids)}
        places = {
            user: [(found[one][0], one) for one in posts if one in found and found[one][1] != user]
            for user, posts in shown.items()
        }
        return {user: posts for user, posts in places.items() if posts}

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
