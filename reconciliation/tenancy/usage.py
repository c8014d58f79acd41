"""Usage and invoices computed again: ClickHouse has the events that count, and an invoice follows from its events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from schemas.tenancy.instants import instant
from schemas.tenancy.invoice import InvoicePlace, basis, made
from schemas.tenancy.usage_topic import COUNTED
from sinks.postgres.sql_files import queries

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from clickhouse_connect.driver.client import Client

    from reconciliation.contract.snapshot import Snapshot

_HOUR_US: Final = 3_600_000_000
_SQL: Final = queries("sinks.postgres.queries.tenancy", "invoices.sql")
_FED: Final = (
    "select p.partition, p.last_seq, c.floor_seq from stream_position p join usage_counted c using (partition)"
    " where p.follower = 'tenancy_usage' and p.topic = %(counted)s and p.last_seq > 0 order by p.partition"
)
COUNTED_ENDS: Final = "select partition, last_seq from usage_counted where last_seq > floor_seq"
#: as the invariant asks Postgres. Every column of a row is in the last sum: two rows that swapped something are found.
_CLICKHOUSE: Final = (
    "select kafka_partition, dimension, if({by_hour:Bool}, tenant_id, '') as tenant,"
    " if({by_hour:Bool}, intDiv(toUnixTimestamp64Micro(occurred_at), 3600000000), 0) as hour,"
    " count(), sum(seq), sum(quantity), sum(toUInt128(bitShiftRight(reinterpretAsUInt64(reverse(substring(MD5("
    "concatWithSeparator(char(31), tenant_id, source, event_id, subject, toString(quantity), toString(seq),"
    " toString(toUnixTimestamp64Micro(occurred_at)))), 1, 8))), 4)))"
    " from tenant_usage where seq <= {seqs:Array(UInt64)}[kafka_partition + 1]"
    " and seq > {floors:Array(UInt64)}[kafka_partition + 1]"
    " and dimension = coalesce({dimension:Nullable(String)}, dimension)"
    " group by kafka_partition, dimension, tenant, hour"
)
Place = tuple[int, str, str, int]  # partition, dimension, tenant, hour
Sums = dict[Place, tuple[int, ...]]


def usage_differences(view: Snapshot, client: Client, sql: str) -> Iterator[dict[str, Any]]:
    """The hours of tenants in which the two stores differ: from what Postgres has up to where ClickHouse is fed."""
    rows = list(view.rows(_FED, counted=COUNTED))
    fed = {row["partition"]: row["last_seq"] for row in rows}
    floors = {row["partition"]: row["floor_seq"] for row in rows}
    if not fed:
        return
    for partition, dimension, *_ in _differing(view, client, sql, fed, floors):
        only = {partition: fed.get(partition, 0)}
        named = _differing(view, client, sql, only, floors, by_hour=True, dimension=dimension)
        for (_, _, tenant_id, hour), (ours, theirs) in named.items():
            place = {"partition": partition, "dimension": dimension, "tenant_id": tenant_id}
            yield place | {"hour": instant(hour * _HOUR_US), "postgres": ours, "clickhouse": theirs}


def _differing(
    view: Snapshot, client: Client, sql: str, fed: dict[int, int], floors: dict[int, int], **asked: Any
) -> dict[Place, tuple[Any, Any]]:
    """Where the sums differ, and both; of all dimensions by partition, unless ``asked`` otherwise."""
    asked = {"by_hour": False, "dimension": None} | asked
    ours = _sums(view.tuples(sql, partitions=list(fed), seqs=list(fed.values()), **asked))
    bounds = {
        name: [found.get(partition, 0) for partition in range(max(fed) + 1)]
        for name, found in (("seqs", fed), ("floors", floors))
    }
    theirs = _sums(client.query(_CLICKHOUSE, parameters=bounds | asked).result_rows)
    places = sorted(ours.keys() | theirs.keys())
    return {at: (ours.get(at), theirs.get(at)) for at in places if ours.get(at) != theirs.get(at)}


def _sums(rows: Iterable[Any]) -> Sums:
    return {
        (partition, dimension, tenant, hour): tuple(map(int, sums))
        for partition, dimension, tenant, hour, *sums in rows
    }


def changed_invoices(view: Snapshot, sql: str) -> Iterator[dict[str, Any]]:
    """The invoices that are not what their events, entries and prices make."""
    for row in list(view.rows(sql)):
        place = InvoicePlace(*(row[name] for name in InvoicePlace._fields))
        (terms,) = view.whole(_SQL["run_terms"], **place.asked())
        own, late, entries = (
            view.whole(_SQL[query], **place.asked()) for query in ("used_in_period", "used_late", "entries_taken")
        )
        again = made(basis(place, terms, own, late, entries))
        if (again.document, again.credit_left) != (bytes(row["document"]), row["credit_left"]):
            yield {"tenant_id": row["tenant_id"], "invoice_id": row["invoice_id"], "reason": "it is made otherwise now"}
