"""What a service gives to reconciliation: invariants that SQL alone cannot decide, and tables that events lead to.

Its invariants in SQL are files in its ``invariants`` folder and are found by themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from clickhouse_connect.driver.client import Client
    from psycopg import Connection

    from reconciliation.contract.projection import ExchangedProjection, Projection
    from reconciliation.contract.snapshot import Snapshot
    from reconciliation.contract.store_comparison import StoreComparison

    #: over the replay's snapshot, a connection that writes, and the topic of its events
    MakeTable = Callable[[Connection, Connection, str], Projection]
    MakeExchangedTable = Callable[[Connection, Connection, str], ExchangedProjection]

Violation = dict[str, Any]


class Outside(Protocol):
    """A record that somebody else keeps, compared with ours."""

    def read_before(self) -> None:
        """Reads it before the snapshot: whatever it holds, the snapshot must know. What fails is told later."""

    def violations(self, view: Snapshot, sql: str, tell: Callable[[str], None]) -> Iterator[Violation]:
        """What differs; ``tell`` notes what was compared. Raises Unavailable when it cannot be read."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconciledService:
    """One service. Keys are ids of invariants whose files say ``source: comparison``, and names of tables."""

    #: SQL of the durable version of the object that is ``%(aggregate_key)s``; no row when it is none of this service
    aggregate_version: str
    computed: Mapping[str, Callable[[Snapshot, str], Iterator[Violation]]] = field(default_factory=dict)
    #: rows of our side beside those of ClickHouse, for what is no event
    analysed: Mapping[str, Callable[[Snapshot, Client, str], Iterator[Violation]]] = field(default_factory=dict)
    #: made for one check, of the addresses of those who keep such records
    outside: Mapping[str, Callable[[Mapping[str, str]], Outside]] = field(default_factory=dict)
    #: its events in Postgres, ClickHouse and Kafka
    compared_stores: Mapping[str, StoreComparison] = field(default_factory=dict)
    #: where the records end that a sink takes from no topic of Kafka, by its name: SQL of partition and seq
    sink_ends: Mapping[str, str] = field(default_factory=dict)
    #: tables that are the authority: compared with what events say, never exchanged
    compared_tables: Mapping[str, MakeTable] = field(default_factory=dict)
    #: tables that are derived: their shadow may take the place of the live one
    exchanged_tables: Mapping[str, MakeExchangedTable] = field(default_factory=dict)
