"""Usage and invoices computed again: ClickHouse has the events that count, and an invoice follows from its events."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

from schemas.tenancy.invoice import InvoicePlace, basis, made
from schemas.tenancy.usage_topic import COUNTED
from sinks.postgres.sql_files import queries

if TYPE_CHECKING:
    from collections.abc import Iterator

    from clickhouse_connect.driver.client import Client

    from reconciliation.contract.snapshot import Snapshot

_SQL: Final = queries("sinks.postgres.queries.tenancy", "invoices.sql")
_FED: Final = (
    "select p.partition, p.last_seq, c.floor_seq from stream_position p join usage_counted c using (partition)"
    " where p.follower = 'tenancy_usage' and p.topic = %(counted)s and p.last_seq > 0 order by p.partition"
)
COUNTED_ENDS: Final = "select partition, last_seq from usage_counted where last_seq > floor_seq"
_CLICKHOUSE: Final = (
    "select kafka_partition, dimension, count(), sum(seq), sum(quantity) from tenant_usage"
    " where seq <= {seqs:Array(UInt64)}[kafka_partition + 1] and seq > {floors:Array(UInt64)}[kafka_partition + 1]"
    " group by kafka_partition, dimension"
)
Sums = dict[tuple[int, str], tuple[int, ...]]


def usage_differences(view: Snapshot, client: Client, sql: str) -> Iterator[dict[str, Any]]:
    """Where the two stores differ, by partition and dimension: from what Postgres has up to where ClickHouse is fed."""
    rows = list(view.rows(_FED, counted=COUNTED))
    fed = {row["partition"]: row["last_seq"] for row in rows}
    floors = {row["partition"]: row["floor_seq"] for row in rows}
    if not fed:
        return
    ours = _sums(view.tuples(sql, partitions=list(fed), seqs=list(fed.values())))
    bounds = {
        name: [found.get(partition, 0) for partition in range(max(fed) + 1)]
        for name, found in (("seqs", fed), ("floors", floors))
    }
    theirs = _sums(client.query(_CLICKHOUSE, parameters=bounds).result_rows)
    for place in sorted(ours.keys() | theirs.keys()):
        if ours.get(place) != theirs.get(place):
            named = dict(zip(("partition", "dimension"), place, strict=True))
            yield named | {"postgres": ours.get(place), "clickhouse": theirs.get(place)}


def _sums(rows: Any) -> Sums:
    found: Sums = defaultdict(tuple)
    for partition, dimension, *sums in rows:
        found[partition, dimension] = tuple(map(int, sums))
    return dict(found)


def changed_invoices(view: Snapshot, sql: str) -> Iterator[dict[str, Any]]:
    """The invoices that are not what their events, entries and prices make."""
    for row in list(view.rows(sql)):
        place = InvoicePlace(*(row[name] for name in InvoicePlace._fields))
        (terms,) = view.tuples(_SQL["run_terms"], **place.asked())
        own, late, entries = (
            list(view.tuples(_SQL[query], **place.asked()))
            for query in ("used_in_period", "used_late", "entries_taken")
        )
        again = made(basis(place, terms, own, late, entries))
        if (again.document, again.credit_left) != (bytes(row["document"]), row["credit_left"]):
            yield {"tenant_id": row["tenant_id"], "invoice_id": row["invoice_id"], "reason": "it is made otherwise now"}
