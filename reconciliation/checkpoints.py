"""Recovery checkpoints: where a projection stood, under which scenario, and how to go on from there.

The fields are the spec's (spec 1, section 6). ``checkpoints_list`` is what GET /v1/recovery_checkpoints reads. A
recovery is proved when reconciliation finds no gap: a check of all invariants says so of every checkpoint before it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, cast

import psycopg
from psycopg.rows import dict_row

from schemas.errors import NotFound
from sinks import limits
from sinks.clickhouse.plans import Fence
from sinks.postgres.sql_files import queries
from sinks.streams.intake import Position

if TYPE_CHECKING:
    from datetime import datetime

    from reconciliation.contract.checked_service import CheckedService

SQL: Final = queries("reconciliation", "checkpoints.sql")
RETRY_POLICY: Final = {
    "identity": "same",
    "backoff_first_ms": limits.SINK_BACKOFF_FIRST_MS,
    "backoff_max_ms": limits.SINK_BACKOFF_MAX_MS,
}

Status = Literal["pending", "clean", "gaps"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A named position to recover from."""

    name: str
    scenario: str
    operation_id: str
    projection_checkpoint: list[dict[str, Any]]  # {"topic", "partition", "offset", "seq"}
    owner: str
    aggregate_key: str | None = None
    last_durable_version: int | None = None
    reconciliation_status: Status = "pending"


def checkpoint_write(connection: psycopg.Connection, checkpoint: Checkpoint) -> None:
    """Writes a new checkpoint. Raises ValueError when the name is taken: a checkpoint is never moved."""
    try:
        with connection.transaction():
            connection.execute(
                SQL["checkpoint_insert"].encode(),
                {
                    "name": checkpoint.name,
                    "scenario": checkpoint.scenario,
                    "operation_id": checkpoint.operation_id,
                    "aggregate_key": checkpoint.aggregate_key,
                    "last_durable_version": checkpoint.last_durable_version,
                    "projection_checkpoint": json.dumps(checkpoint.projection_checkpoint),
                    "retry_policy": json.dumps(RETRY_POLICY),
                    "reconciliation_status": checkpoint.reconciliation_status,
                    "owner": checkpoint.owner,
                },
            )
    except psycopg.errors.UniqueViolation as error:
        raise ValueError(f"there is a checkpoint {checkpoint.name!r} already; choose another name") from error
    except psycopg.errors.CheckViolation as error:
        raise ValueError("a checkpoint's name has 1 to 128 characters") from error


def checkpoints_list(
    connection: psycopg.Connection, *, limit: int, before: tuple[datetime, str] | None = None
) -> list[dict[str, Any]]:
    """A page of checkpoints, newest first; ``before`` is (created_at, name) of the last one seen."""
    created_at, name = before or (None, None)
    parameters = {"limit": limit, "created_at": created_at, "name": name}
    with connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(SQL["checkpoints_page"].encode(), parameters).fetchall()


def checkpoint_read(connection: psycopg.Connection, name: str) -> dict[str, Any]:
    """One checkpoint. Raises errors.NotFound."""
    with connection.cursor(row_factory=dict_row) as cursor:
        row = cursor.execute(SQL["checkpoint_read"].encode(), {"name": name}).fetchone()
    if row is None:
        raise NotFound(f"no checkpoint {name!r}; see 'millrace checkpoints list'")
    return row


def database_time(connection: psycopg.Connection) -> datetime:
    """The time by which checkpoints are dated."""
    ((now,),) = connection.execute(SQL["database_time"].encode()).fetchall()
    return cast("datetime", now)


def checkpoints_judge(connection: psycopg.Connection, *, begun_at: datetime, gaps: int) -> list[str]:
    """The names of checkpoints that a check of all invariants, begun at that ``database_time``, decides on.

    No gap proves what was recovered before it; with gaps it is not proved, until a later check finds none. What is
    proved stays so.
    """
    status: Status = "gaps" if gaps else "clean"
    with connection.transaction():
        rows = connection.execute(SQL["checkpoints_judge"].encode(), {"status": status, "begun_at": begun_at})
        return sorted(name for (name,) in rows.fetchall())


def checkpoint_positions(checkpoint: dict[str, Any], topic: str) -> dict[int, Position]:
    """The positions of a topic in a checkpoint."""
    return {
        place["partition"]: Position(place["offset"], place["seq"])
        for place in checkpoint["projection_checkpoint"]
        if place["topic"] == topic
    }


def sink_place(connection: psycopg.Connection, checked: CheckedService) -> list[dict[str, Any]]:
    """Where ClickHouse stands now, as a checkpoint keeps it: every partition, also one without events so far."""
    topic, sink = checked.events_topic, checked.sink
    if sink is None:
        return []
    positions = Fence(connection, sink=sink.name, topic=topic, owner_id="").positions(range(checked.partitions))
    return [
        {"topic": topic, "partition": p, "offset": at.next_offset, "seq": at.last_seq} for p, at in positions.items()
    ]
