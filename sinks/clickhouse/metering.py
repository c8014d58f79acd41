"""What was metered: dimension, subject and quantity, as a service says of each of its committed events.

An event is durable in the commit of what it tells, so its usage is too, and no other write is needed. Usage reaches
ClickHouse as every row of an event does: exactly once, replayable, and the same for ever. If a service metered by
anything but the event, a replay would bill something else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from clickhouse_connect.driver.exceptions import ClickHouseError

from schemas.errors import Unavailable
from schemas.records import Event
from sinks.clickhouse.tables import Row, Table

if TYPE_CHECKING:
    from clickhouse_connect.driver.client import Client


class Metered(NamedTuple):
    """Usage by one event; a dimension and subject once for each event."""

    dimension: str
    subject: str  # the merchant or tenant who used it; of people nobody in particular
    quantity: int


Meter = Callable[[Event], Sequence[Metered]]  # pure
_PREFIX: Final = "metered_"
_DEFINITION: Final = """
create table if not exists {table} (
    kafka_partition UInt16,
    seq             UInt64,
    dimension       LowCardinality(String),
    subject         String,
    quantity        UInt64,
    occurred_at     DateTime64(6, 'UTC') CODEC(Delta, ZSTD),
    index seq_range seq type minmax granularity 1
) engine = ReplacingMergeTree
partition by toYYYYMM(occurred_at)
order by (subject, dimension, kafka_partition, seq)
settings non_replicated_deduplication_window = 10000;
"""
_USAGE: Final = (
    "select dimension, sum(quantity) from {table} final where subject = {{subject:String}} group by dimension"
)


def metered_table(service: str) -> Table:
    """Where the usage of a service is kept."""
    columns = ("kafka_partition", "seq", "dimension", "subject", "quantity", "occurred_at")
    name = f"{_PREFIX}{service}"
    return Table(name=name, columns=columns, row_key=("dimension", "subject"), month_of="occurred_at")


def definition(table: Table) -> tuple[str, str]:
    """Name and text of the file that defines it."""
    return f"{table.name}.sql", _DEFINITION.format(table=table.name)


def rows_of(meter: Meter, partition: int, event: Event) -> list[Row]:
    """The usage by one event, in the order of the columns."""
    return [(partition, event.seq, *used, event.occurred_at) for used in meter(event)]


def usage(client: Client, service: str, subject: str) -> dict[str, int]:
    """What somebody has used of a service so far, by dimension. Raises errors.Unavailable."""
    query = _USAGE.format(table=metered_table(service).name)
    try:
        found: Any = client.query(query, parameters={"subject": subject}).result_rows
    except (ClickHouseError, OSError) as error:
        raise Unavailable(f"ClickHouse does not answer: {str(error)[:200]}") from error
    return {dimension: int(quantity) for dimension, quantity in found}
