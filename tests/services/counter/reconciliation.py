"""Counters as reconciliation sees them: compared with their events, and with ClickHouse and Kafka."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from reconciliation.contract.postgres_table import PostgresTable
from reconciliation.contract.reconciled_service import ReconciledService
from reconciliation.contract.store_comparison import HOUR_US, StoreComparison, Totals, count
from schemas.records import Event
from sinks.postgres.sql_files import queries

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from reconciliation.contract.compare import Row
    from reconciliation.contract.projection import Extent
    from sinks.streams.intake import Accepted

SQL: Final = queries("tests.services.counter", "replay.sql")


class CounterCurrent(PostgresTable):
    """The counters from their events. The live table is the authority: it is compared, never exchanged."""

    name = _table = "counter"
    sql = SQL
    columns: tuple[str, ...] = ("id", "owner", "label", "value", "state", "version")
    key_width = 1

    def apply(self, events: Sequence[Accepted]) -> None:
        newest: dict[str, dict[str, Any]] = {}
        for taken in events:
            event, body = taken.event, dict(taken.event.body)
            state = "closed" if event.event_type == "counter_closed" else "open"
            named = {"id": event.aggregate_key, "partition": taken.partition, "owner": event.scope, "state": state}
            newest[event.aggregate_key] = named | {
                "label": body["label"],
                "value": body["value"],
                "version": event.version,
            }
        rows = msgspec.json.encode(list(newest.values())).decode()
        self._writer.execute(SQL["counters_upsert"].encode(), {"rows": rows})

    def complete(self, extent: Extent, *, from_zero: bool) -> None:
        """An event holds the whole counter."""

    def live_rows(self, extent: Extent) -> Iterator[Row]:
        partitions = list(extent.first_seqs)
        first_seqs = [extent.first_seqs[p] for p in partitions]
        return self._stream(self._snapshot, "counters_live", partitions=partitions, first_seqs=first_seqs)

    def shadow_rows(self, extent: Extent) -> Iterator[Row]:
        del extent
        return self._stream(self._writer, "counters_shadow")


def add_event(totals: Totals, event: Event) -> None:
    count(totals["event", event.occurred_at // HOUR_US, "", ""], event.seq, event.version)


STORES: Final = StoreComparison(
    service="counter", clickhouse=tuple(queries("tests.services.counter", "stores.sql").values()), add_event=add_event
)
RECONCILED: Final = ReconciledService(
    aggregate_version=SQL["aggregate_version"],
    compared_stores={"counter_stores": STORES},
    compared_tables={"counter": CounterCurrent},
)
