"""A process of ours on a new database, where Kafka knows the runs before; called as ``compose.services`` is.

Owners and followers of it would halt: to them the database is a copy of an earlier moment than what Kafka was told.
"""

from __future__ import annotations

import runpy
from typing import TYPE_CHECKING

from sinks.streams.newest_events import NewestEvents

if TYPE_CHECKING:
    from collections.abc import Iterable


def compare_nothing() -> None:
    """From now on this process compares no database with the newest events in Kafka."""
    NewestEvents.seqs = _none  # type: ignore[method-assign,assignment]


def _none(_events: NewestEvents, _partitions: Iterable[int]) -> dict[int, int]:
    return {}


if __name__ == "__main__":
    compare_nothing()
    runpy.run_module("compose.services", run_name="__main__", alter_sys=True)
