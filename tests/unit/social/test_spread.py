"""What fan-out does with a batch of events: posts in a row go together, and never past what moves homes."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

from dataflows.social.fanout import spread, waiting
from dataflows.social.fanout.spread import Spread
from schemas.social import limits


class Servers:
    """Postgres and the store of homes, as far as fan-out asks them; ``done`` is what was written, in order."""

    def __init__(self) -> None:
        self.done: list[Any] = []
        self.deliveries = 0
        self.followers = {"u_a": ["u_1", "u_2", "u_3"], "u_b": ["u_2"]}
        self.gone: set[str] = set()
        self.kept: dict[str, str] = {}  # private posts, and whose they are
        self.reposted: set[str] = set()  # by many, for the same followers
        self.notifications = "nnnnn"
        self.edge = 0  # the version under which the followed is followed; 0: by nobody
        self.building: int | None = 7  # of every home
        self.tasks: list[tuple[Any, ...]] = []
        self.names = {text.encode(): name for name, text in (spread._SQL | waiting._SQL).items()}
        self.transaction = nullcontext

    def waiting_put(self, most: int, **task: Any) -> list[Any]:
        fields = ("kind", "user_id", "target_id", "version", "homes", "post_ids", "task_id")
        self.tasks.append(tuple((task | {"task_id": len(self.tasks)})[field] for field in fields))
        return [(1,)]

    def waiting_next(self, count: int) -> list[Any]:
        return self.tasks

    def waiting_done(self, tasks: list[int]) -> list[Any]:
        self.tasks = [task for task in self.tasks if task[-1] not in tasks]
        return []

    def waiting_deliveries(self) -> list[Any]:
        return [(0,)]

    def execute(self, text: bytes, given: dict[str, Any]) -> Any:
        rows = getattr(self, self.names[text])(**given)
        return SimpleNamespace(fetchall=lambda: rows)

    def posts_of(self, ids: list[str]) -> list[Any]:
        return [(one, int(one[3:]), self.kept.get(one)) for one in ids if one not in self.gone]

    def followers_after(self, users: list[str], after: list[str], count: int) -> list[Any]:
        found = []
        for user, last in zip(users, after, strict=True):
            if each := [one for one in self.followers.get(user, []) if one > last][:count]:
                found.append((user, each))
        return found

    def who_had(self, post_id: str, count: int) -> list[Any]:
        return [("u_a",), *(("u_b",) for _ in range(count) if post_id in self.reposted)]

    def who_had_any_of(self, user_id: str) -> list[Any]:
        return [("u_a",), ("u_b",)]  # who wrote it, and who reposted it

    def notifications_forget(self, post_id: str, count: int) -> list[Any]:
        self.notifications, taken = self.notifications[count:], self.notifications[:count]
        return [(len(taken),)]

    def is_following(self, user_id: str, followee: str, version: int) -> list[Any]:
        return [(self.edge == version,)]

    def newest_of(self, user_id: str, count: int) -> list[Any]:
        return [(9, f"po_{user_id}")]

    def building_of(self, user_id: str) -> int | None:
        return self.building

    def fill(self, user_id: str, building: int, posts: list[Any]) -> None:
        self.done.append(("fill", user_id, building, [post_id for _, post_id in posts]))

    def push(self, pushes: list[Any], seen_s: float | None = None) -> list[Any]:
        self.done += [("push", users, [post_id for _, post_id in posts]) for users, posts in pushes]
        return []

    def forget(self, users: list[str], post_id: str) -> None:
        self.done.append(("forget", users, post_id))

    def drop(self, users: list[str]) -> None:
        self.done.append(("drop", users))


def event(user: str, kind: str, post_id: str | None = None, *, pushed: bool = True, version: int = 1) -> Any:
    body = {"kind": kind, "target_id": "u_1", "state": "active", "post_id": post_id, "pushed": pushed}
    return SimpleNamespace(scope=f"user:{user}", body=body, version=version)


def spread_out(servers: Servers, *events: Any) -> list[Any]:
    fan_out = Spread(servers, servers)  # type: ignore[arg-type] # as far as it asks
    fan_out.events(events)
    while fan_out.rest():
        pass
    return servers.done


def test_what_one_author_publishes_in_a_row_is_written_once_whatever_else_is_told_between() -> None:
    found = spread_out(
        Servers(),
        event("u_a", "post_published", "po_1"),
        event("u_x", "post_liked", "po_1", pushed=False),
        event("u_b", "post_reposted", "po_1"),
        event("u_a", "post_published", "po_2"),
        event("u_a", "post_edited", "po_1"),
        event("u_a", "post_published", "po_3", pushed=False),
    )
    assert found == [("push", ["u_1", "u_2", "u_3"], ["po_1", "po_2"]), ("push", ["u_2"], ["po_1"])]


def test_new_posts_come_before_all_that_moves_homes_whatever_was_told_first() -> None:
    found = spread_out(
        Servers(),
        event("u_b", "post_published", "po_1"),
        event("u_a", "post_deleted", "po_7"),
        event("u_9", "unfollowed"),
        event("u_b", "post_published", "po_2"),
    )
    everybody = ["u_1", "u_2", "u_3"]
    assert found == [("push", ["u_2"], ["po_1", "po_2"]), ("drop", ["u_9"]), ("forget", everybody, "po_7")]


def test_a_deleted_post_that_is_in_too_many_homes_is_taken_out_of_so_many_and_holds_up_no_others(
    monkeypatch: Any,
) -> None:
    """In the others nobody sees it. All that is told of it goes, so much at a time as a statement may take."""
    monkeypatch.setattr(limits, "FANOUT_AUTHORS_AT_ONCE", 1)
    monkeypatch.setattr(limits, "FORGOTTEN_HOMES_MAX", 5)
    monkeypatch.setattr(limits, "FORGOTTEN_NOTIFICATIONS", 2)
    servers = Servers()
    servers.reposted = {"po_1"}
    found = spread_out(servers, event("u_a", "post_deleted", "po_1"), event("u_b", "post_published", "po_2"))
    once = ("forget", ["u_2"], "po_1")
    assert found == [("push", ["u_2"], ["po_2"]), ("forget", ["u_1", "u_2", "u_3"], "po_1"), once, once]
    assert servers.notifications == ""


def test_a_repost_is_written_though_its_author_keeps_the_post_for_now() -> None:
    """Open again, the post is told of by its author alone; meanwhile the read shows it to nobody."""
    servers = Servers()
    servers.kept = {"po_1": "u_a"}
    found = spread_out(servers, event("u_a", "post_published", "po_1"), event("u_b", "post_reposted", "po_1"))
    assert found == [("push", ["u_2"], ["po_1"])]


def test_homes_that_may_hold_a_post_of_who_is_erased_end_in_chunks(monkeypatch: Any) -> None:
    monkeypatch.setattr(limits, "FANOUT_CHUNK_FOLLOWERS", 2)
    servers = Servers()
    Spread(servers, servers).forget_all_of("u_a")  # type: ignore[arg-type] # as far as it asks
    assert servers.done == [("drop", ["u_1", "u_2"]), ("drop", ["u_2"]), ("drop", ["u_3"])]


def test_a_post_that_is_gone_meanwhile_is_written_nowhere_and_many_followers_come_in_chunks(monkeypatch: Any) -> None:
    monkeypatch.setattr(limits, "FANOUT_CHUNK_FOLLOWERS", 2)
    monkeypatch.setattr(limits, "FANOUT_AUTHORS_AT_ONCE", 1)
    servers = Servers()
    servers.gone = {"po_1"}
    found = spread_out(servers, event("u_b", "post_published", "po_1"), event("u_a", "post_published", "po_2"))
    assert found == [("push", ["u_1", "u_2"], ["po_2"]), ("push", ["u_3"], ["po_2"])]


def test_only_the_task_of_an_edge_as_it_is_brings_posts_and_only_into_a_home_that_is_there() -> None:
    """Followed, left, and followed again: what comes late of the first edge does nothing, whoever accepted it."""
    servers = Servers()
    servers.edge = 3
    tasks = [event("u_9", "followed", version=1), event("u_9", "followed", version=3)]
    accepted = [event("u_9", "follow_accepted", version=2), event("u_9", "follow_accepted", version=3)]
    assert spread_out(servers, *tasks, *accepted) == [("fill", "u_9", 7, ["po_u_1"]), ("fill", "u_1", 7, ["po_u_9"])]
    servers.done, servers.building = [], None
    assert spread_out(servers, *tasks, *accepted) == []
