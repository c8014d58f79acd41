"""Counts what fan-out did for events, each once, whatever is killed and repeated; no post and no user is named."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import psycopg

from schemas.records import Event
from sinks.postgres.sql_files import queries
from sinks.streams.positions import Taken

SQL: Final = queries("dataflows.social.fanout", "counting.sql")
_SECOND_US: Final = 1_000_000


class Work(NamedTuple):
    """What was done for some events. ``delay_us``: from the commit of each pushed one until it was in homes, in sum."""

    pushes: int = 0
    pulls: int = 0
    deliveries: int = 0
    shed: int = 0
    delay_us: int = 0

    def told(self) -> dict[str, list[Any]]:
        """As columns."""
        quantities = [self.pushes, self.pulls, self.deliveries, self.shed]
        return {
            "subjects": ["pushes", "pulls", "deliveries", "shed"],
            "quantities": quantities,
            "took": [self.delay_us, 0, 0, 0],
        }


def delays_us(events: Sequence[Event]) -> int:
    """How long ago these were committed, in sum; a clock that is behind tells none."""
    now = time.time_ns() // 1_000
    return sum(max(0, now - event.occurred_at) for event in events)


class Counting:
    """The counts of one follower of the events. Every method raises psycopg's errors."""

    def __init__(self, connection: psycopg.Connection, follower: str) -> None:
        self._connection = connection
        self._follower = follower

    def known(self, taken: Sequence[Taken]) -> dict[int, int]:
        """The last counted event of each of these partitions; 0 where none is."""
        partitions = [one.partition for one in taken]
        given = {"follower": self._follower, "partitions": partitions}
        rows = self._connection.execute(SQL["counted"].encode(), given).fetchall()
        return dict.fromkeys(partitions, 0) | dict(rows)

    def add(self, taken: Sequence[Taken], known: dict[int, int], work: Work) -> None:
        """The work for what is behind ``known``; where another process has counted any of it, its counts stand."""
        given = {
            "follower": self._follower,
            "partitions": [one.partition for one in taken],
            "seqs_before": [known[one.partition] for one in taken],
            "seqs": [max(known[one.partition], one.position.last_seq) for one in taken],
        }
        self._connection.execute(SQL["count"].encode(), given | work.told())
