"""What a service gives so that its events are compared between Postgres, ClickHouse and Kafka.

Each store counts per (what, hour since the epoch, currency, kind): rows, and two sums. A kind of count whose name ends
in ``_current`` is not in Kafka, one in ``_version`` is not in Postgres.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from schemas.records import Event

Key = tuple[str, int, str, str]  # what is counted, hour since the epoch, currency, kind
Sums = dict[Key, tuple[int, int, int]]  # rows, and two sums
Totals = defaultdict[Key, list[int]]
HOUR_US: Final = 3_600_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreComparison:
    """One service. The SQL of its invariant is Postgres's side, up to ``seqs`` of ``partitions`` (arrays)."""

    service: str
    #: queries of ClickHouse, up to ``seqs`` by partition
    clickhouse: tuple[str, ...]
    #: counts one event as every store counts it
    add_event: Callable[[Totals, Event], None]
    #: queries that hold only at a position that is Postgres's own end: older versions are not there
    clickhouse_current: tuple[str, ...] = ()
    #: a query of Postgres for events that its side leaves out, and what counts each of these
    decoded: tuple[str, Callable[[Totals, Event], None]] | None = None


def count(total: list[int], first: int = 0, second: int = 0) -> None:
    """Adds one row with its two figures."""
    total[0] += 1
    total[1] += first
    total[2] += second


def totals() -> Totals:
    """Nothing counted yet."""
    return defaultdict(lambda: [0, 0, 0])


def summed(found: Mapping[Key, list[int]]) -> Sums:
    """As it is compared."""
    return {key: (n, a, b) for key, (n, a, b) in found.items()}
