"""What fan-out puts off: rows of Postgres, so that a kill loses none of it, and no more of them than are soon done."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import psycopg
from prometheus_client import Counter, Gauge

from schemas.social import limits
from sinks.postgres.sql_files import queries

_SQL: Final = queries("dataflows.social.fanout", "waiting.sql")
# High for long: fan-out is behind, and readers that come back see new posts late. Give it more processes.
_WAITING: Final = Gauge("millrace_social_fanout_waiting_deliveries", "Entries of homes that are put off")
# Rising: more is published than fan-out can write; readers of these homes build them from Postgres.
_SHED: Final = Counter("millrace_social_fanout_shed", "Homes that ended as too much waited", ["kind"])


class Task(NamedTuple):
    """Something put off, of this user: posts into homes, an edge's newest posts, a post that ended."""

    kind: str
    user_id: str
    target_id: str = ""
    version: int = 0
    homes: Sequence[str] = ()
    post_ids: Sequence[str] = ()
    task_id: int = 0

    @property
    def deliveries(self) -> int:
        """Entries of homes, at most."""
        if self.kind == "posts":
            return len(self.homes) * len(self.post_ids)
        return limits.BACKFILL_POSTS_MAX if self.kind == "edge" else 1


class Waiting:
    """The rows, as one process has them. Every method raises psycopg's errors."""

    def __init__(self, connection: psycopg.Connection) -> None:
        self._connection = connection
        self.homes_shed = 0

    def put(self, task: Task) -> bool:
        """Whether it waits now, and is durable, or concerns a user who is erased; False where too much waits."""
        given = {"most": limits.FANOUT_WAITING_DELIVERIES_MAX, "deliveries": task.deliveries}
        named = {**task._asdict(), "homes": list(task.homes), "post_ids": list(task.post_ids)}
        ((is_put,),) = self._rows("waiting_put", **given, **named)
        return bool(is_put)

    def shed(self, task: Task) -> None:
        """Counts the homes that end instead."""
        self.homes_shed += len(task.homes)
        _SHED.labels(task.kind).inc(max(1, len(task.homes)))

    def next(self) -> list[Task]:
        """The next ones, this process's until its transaction ends."""
        return [Task(*row) for row in self._rows("waiting_next", count=limits.FANOUT_TASKS_AT_ONCE)]

    def done(self, tasks: Sequence[Task]) -> None:
        """Takes these away."""
        self._connection.execute(_SQL["waiting_done"].encode(), {"tasks": [task.task_id for task in tasks]})

    def measure(self) -> None:
        """Tells how much waits."""
        ((deliveries,),) = self._rows("waiting_deliveries")
        _WAITING.set(deliveries)

    def _rows(self, name: str, **given: Any) -> list[tuple[Any, ...]]:
        return self._connection.execute(_SQL[name].encode(), given).fetchall()


def posts_into_homes(user_id: str, homes: Sequence[str], post_ids: Sequence[str]) -> list[Task]:
    """Tasks of a size that others can wait for."""
    homes_at_once = max(1, limits.FANOUT_TASK_DELIVERIES // max(1, len(post_ids)))
    posts_at_once = max(1, limits.FANOUT_TASK_DELIVERIES // max(1, min(len(homes), homes_at_once)))
    return [
        Task("posts", user_id, homes=homes[n : n + homes_at_once], post_ids=post_ids[m : m + posts_at_once])
        for n in range(0, len(homes), homes_at_once)
        for m in range(0, len(post_ids), posts_at_once)
    ]
