"""The sink's memory in Postgres: who may feed ClickHouse, how far it is, and the block that comes next.

A plan is durable before its insert and names the exact records; position and plan advance in one transaction. If this
were wrong, a crash would lose or double rows. Every write names the epoch, so two sinks at once cannot both write.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from schemas import errors
from sinks import limits
from sinks.clickhouse.ranges import Range
from sinks.postgres import arrays
from sinks.postgres.sql_files import queries
from sinks.streams.intake import Position

if TYPE_CHECKING:
    from collections.abc import Callable

    import psycopg

_SQL: Final = queries("sinks.clickhouse", "queries.sql")


class LetGo(errors.OwnershipLost):
    """An operator's swap asked for the sink; it goes on when the swap is done."""

    code = "let_go"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is about to be inserted: the exact records, their digest, and the token under which ClickHouse knows it."""

    plan_id: int
    token: str
    sha256: bytes
    rows: dict[str, int]
    ranges: tuple[Range, ...]


class Fence:
    """The right to feed ClickHouse, held by one process; its methods raise errors.Fenced once it is lost.

    Over a connection that commits each statement by itself.
    """

    def __init__(self, connection: psycopg.Connection, *, sink: str, topic: str, owner_id: str) -> None:
        self.sink = sink
        self.topic = topic
        self.owner_id = owner_id
        self.epoch = 0
        self._connection = connection

    def ensure(self) -> None:
        """Makes the row of a sink that nobody has held so far."""
        self._run("fence_ensure")

    def claim(self) -> bool:
        """Takes the sink if nobody holds it; True when it is ours now."""
        row = self._run("fence_claim").fetchone()
        if row:
            self.epoch = row[0]
        return row is not None

    def request(self) -> None:
        """Asks the holder to let go; only a swap does so."""
        self._run("fence_request")

    def hold(self) -> None:
        """Renews the lease, in a transaction of its own. Raises errors.Fenced, or LetGo when a swap waits."""
        self._hold()

    def hold_through(self) -> None:
        """Renews the lease within work that must be finished even though a swap waits. Raises errors.Fenced."""
        self._hold(may_let_go=False)

    def release(self) -> None:
        """Gives the sink up after a drain."""
        self._run("fence_release")

    def positions(self, partitions: range) -> dict[int, Position]:
        """What ClickHouse holds of every partition."""
        known = {p: Position(offset, seq) for p, offset, seq in self._run("positions_read").fetchall()}
        return {p: known.get(p) or Position() for p in partitions}

    def in_other_topic(self, partitions: range, topic_id: str) -> list[int]:
        """The partitions that were read in a topic of this name that is gone. Raises errors.Fenced."""
        with self._connection.transaction():
            self._hold()
            rows = self._run("topic_seen", partitions=list(partitions), topic_id=topic_id).fetchall()
        return [partition for partition, seen in rows if seen != topic_id]

    def last_plan_id(self) -> int:
        """The number of the newest plan."""
        return int(self._row("plan_last")[0])

    def open_plan(self) -> Plan | None:
        """The plan whose insert was not confirmed, if there is one."""
        row = self._run("plan_open").fetchone()
        if row is None:
            return None
        plan_id, token, sha256, rows = row
        found = self._run("plan_ranges", plan_id=plan_id).fetchall()
        ranges = tuple(
            Range(partition=p, first_offset=first, last_offset=last, first_seq=first_seq, last_seq=last_seq)
            for p, first, last, first_seq, last_seq in found
        )
        return Plan(plan_id=plan_id, token=token, sha256=bytes(sha256), rows=rows, ranges=ranges)

    def write_plan(self, plan: Plan) -> None:
        """Makes the plan durable before its insert. Raises errors.Fenced or LetGo, and then there is no plan."""
        ranges = plan.ranges
        with self._connection.transaction():
            self._hold()
            self._run(
                "plan_insert",
                plan_id=plan.plan_id,
                token=plan.token,
                sha256=plan.sha256,
                rows=json.dumps(plan.rows),
            )
            self._run(
                "plan_ranges_insert",
                plan_id=plan.plan_id,
                partitions=arrays.int_array(r.partition for r in ranges),
                first_offsets=arrays.int_array(r.first_offset for r in ranges),
                last_offsets=arrays.int_array(r.last_offset for r in ranges),
                first_seqs=arrays.int_array(r.first_seq for r in ranges),
                last_seqs=arrays.int_array(r.last_seq for r in ranges),
            )

    def mark_inserted(self, plan: Plan, beside: Callable[[int], None] = lambda _: None) -> None:
        """Confirms the insert and advances the positions in one transaction, and what is beside them in the same.

        Raises errors.Fenced.
        """
        with self._connection.transaction():
            self._hold(may_let_go=False)  # the block is in: confirming it comes before letting go
            marked = self._run("plan_mark", plan_id=plan.plan_id).fetchall()
            advanced = self._run("positions_advance", plan_id=plan.plan_id).fetchall()
            if len(marked) != 1 or len(advanced) != len(plan.ranges):
                raise errors.InvariantViolation(
                    f"plan {plan.plan_id} does not begin where the sink stands", ranges=plan.ranges
                )
            beside(plan.plan_id)
            if plan.plan_id % limits.SINK_PLANS_PRUNE_EVERY == 0:
                self._run("plans_prune", plan_id=plan.plan_id - limits.SINK_PLANS_KEPT)

    def write_checkpoint(self, name: str, scenario: str, operation_id: str, positions: dict[int, Position]) -> None:
        """Leaves a recovery checkpoint of this name, unless there is one."""
        place = [
            {"topic": self.topic, "partition": p, "offset": at.next_offset, "seq": at.last_seq}
            for p, at in sorted(positions.items())
        ]
        policy = {
            "identity": "same",
            "backoff_first_ms": limits.SINK_BACKOFF_FIRST_MS,
            "backoff_max_ms": limits.SINK_BACKOFF_MAX_MS,
        }
        self._run(
            "checkpoint_insert",
            name=name,
            scenario=scenario,
            operation_id=operation_id,
            positions=json.dumps(place),
            retry_policy=json.dumps(policy),
            status="pending",
            owner=self.owner_id,
        )

    def _hold(self, *, may_let_go: bool = True) -> None:
        row = self._run("fence_hold").fetchone()
        if row is None:
            raise errors.Fenced("another process feeds ClickHouse now")
        if row[0] and may_let_go:
            raise LetGo

    def _row(self, query: str) -> tuple[Any, ...]:
        row: tuple[Any, ...] | None = self._run(query).fetchone()
        if row is None:
            raise errors.InvariantViolation(f"the query {query} returned no row")
        return row

    def _run(self, query: str, **parameters: object) -> psycopg.Cursor[tuple[Any, ...]]:
        fixed = {
            "sink": self.sink,
            "topic": self.topic,
            "owner_id": self.owner_id,
            "epoch": self.epoch,
            "lease_ms": limits.SINK_LEASE_MS,
        }
        return self._connection.execute(_SQL[query].encode(), {**fixed, **parameters})
