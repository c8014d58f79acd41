"""Social posts as reconciliation sees them: invariants in SQL, and their events in three stores."""

from __future__ import annotations

from typing import Final

from reconciliation.contract.reconciled_service import ReconciledService
from reconciliation.contract.store_comparison import HOUR_US, StoreComparison, Totals, count
from schemas.records import Event
from schemas.social.service import SERVICE
from sinks.postgres.sql_files import queries


def add_event(totals: Totals, event: Event) -> None:
    """One event as every store counts it."""
    count(totals["event", event.occurred_at // HOUR_US, "", ""], event.seq, event.version)


STORES: Final = StoreComparison(
    service=SERVICE.name,
    clickhouse=tuple(queries("reconciliation.social", "stores.sql").values()),
    add_event=add_event,
)
MEASURE_END: Final = "select 0, last_seq from social_measured where last_seq > 0"
RECONCILED: Final = ReconciledService(
    aggregate_version=queries("reconciliation.social", "aggregates.sql")["aggregate_version"],
    compared_stores={"social_stores": STORES},
    sink_ends={"social_measures": MEASURE_END},
)
