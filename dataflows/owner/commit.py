"""The one transaction of the platform: a batch of commands is committed once or not at all.

The spec's order (1, section 3) in two round trips. The caller was authenticated at ingress (step 1).
  round trip 1  claim: compare-and-set on (epoch, next_offset)     fenced owners end here
                step 2  look up prior results by identity
                step 3  read the aggregates
  in memory     step 4  compute next states, postings, events      (fold.py, the service's domain)
  round trip 2  step 5  compare-and-set the aggregates against the versions read
                step 6  store the idempotency results
                step 7  append the events to the outbox
                        COMMIT
  afterwards    step 8  return results and events                  (publisher.py), never before the commit
"""

from __future__ import annotations

import time
from typing import Final

import psycopg

from dataflows.owner import fail_points
from dataflows.owner.batch import CommittedBatch, PartitionBatch, Published, Record, Statement
from dataflows.owner.fold import Fold, Folded, Known
from dataflows.owner.leases import SQL, Lease, Leases
from dataflows.owner.service import Workspace
from schemas.errors import CasMiss, Fenced, UnbalancedPosting
from schemas.records import Command
from sinks.postgres import arrays
from sinks.postgres.owner_connection import OwnerConnection
from sinks.postgres.round_trip import RoundTrips

_UNBALANCED: Final = "LE002"


class Committer:
    """Commits batches over one connection."""

    def __init__(self, connection: OwnerConnection, leases: Leases) -> None:
        self.connection = connection
        self._trips = RoundTrips(connection)
        self.leases = leases
        self.service = leases.service

    def commit(self, lease: Lease, batch: PartitionBatch, published_seq: int) -> CommittedBatch:
        """Commits the batch once or not at all; what it returns may be published.

        Raises Fenced when another owner has the partition, UnbalancedPosting and CasMiss as InvariantViolation, and
        psycopg errors; after any of them nothing of the batch is in the database.
        """
        fail_points.reach("before_claim")
        try:
            folded, workspace, decided_at = self._transaction(lease, batch, published_seq)
        except psycopg.Error as error:
            self._roll_back()
            raise _translated(error) from error
        except BaseException:
            self._roll_back()
            raise
        workspace.committed()
        lease.last_seq += len(folded.events)
        lease.next_offset = batch.records[-1].offset + 1
        lease.decided_at = decided_at
        lease.published_seq = max(lease.published_seq, published_seq)
        fail_points.reach("after_commit_before_publish")
        return CommittedBatch(
            partition=batch.partition,
            epoch=lease.epoch,
            commands=len(batch.records),
            events=[Published(event.seq, event.key, event.payload) for event in folded.events],
            replies=folded.replies,
        )

    def _transaction(self, lease: Lease, batch: PartitionBatch, published_seq: int) -> tuple[Folded, Workspace, int]:
        now = lease.time_of_batch(time.time_ns() // 1_000)
        decided_at = now + len(batch.records) - 1  # every command has a time of its own
        commands = [r.command for r in batch.records if r.command is not None]
        keys = list(dict.fromkeys(c.aggregate_key for c in commands))
        reads = [
            self._claim(lease, batch.records, published_seq, decided_at),
            _identities_read(commands),
            (SQL["parked_read"], (arrays.text_array(keys) if keys else "{}",)),
            *(lease.state.reads(keys, commands) if keys else []),
        ]
        claimed, identities, parked, *aggregates = self._trips.run([("begin", None), *reads])[1:]
        if not claimed:
            raise Fenced(partition=lease.partition, epoch=lease.epoch)
        fail_points.reach("after_claim")
        workspace = lease.state.begin(aggregates)
        fold = Fold(
            self.service,
            lease.partition,
            lease.last_seq,
            {(row[0], row[1]): Known(row[2], row[3], row[4]) for row in identities},
            {row[0] for row in parked},
            workspace,
        )
        folded = fold.run(batch.records, now)
        fail_points.reach("after_decide")
        writes = [*workspace.writes(), *self._results(lease, folded, now)]
        self._trips.run([*writes, ("commit", None)], before_last=lambda: fail_points.reach("before_commit"))
        return folded, workspace, decided_at

    def _claim(self, lease: Lease, records: list[Record], published_seq: int, decided_at: int) -> Statement:
        return SQL["partition_claim"], {
            "topic": self.service.commands_topic,
            "partition": lease.partition,
            "epoch": lease.epoch,
            "first_offset": records[0].offset,
            "next_offset": records[-1].offset + 1,
            "published_seq": published_seq,
            "decided_at": decided_at,
            "leader_epoch": records[-1].leader_epoch,
        }

    def _results(self, lease: Lease, folded: Folded, now: int) -> list[Statement]:
        statements: list[Statement] = []
        if folded.identities:
            statements.append(_identities_insert(self.service.commands_topic, lease.partition, folded, now))
        if folded.events:
            statements.append(_outbox_insert(self.service.events_topic, lease.partition, folded))
        return statements

    def _roll_back(self) -> None:
        """Leaves the session without a transaction; a broken connection is found broken by the next batch."""
        if not self.connection.closed and not self.connection.broken:
            try:
                self.connection.execute("rollback")
            except psycopg.Error:
                self.connection.close()


def _identities_read(commands: list[Command]) -> Statement:
    if not commands:
        return SQL["identities_read"], ("{}", "{}")
    return SQL["identities_read"], (
        arrays.text_array([c.scope for c in commands]),
        arrays.text_array([c.idempotency_key for c in commands]),
    )


def _identities_insert(topic: str, partition: int, folded: Folded, now: int) -> Statement:
    rows = sorted(folded.identities, key=lambda row: (row.command.scope, row.command.idempotency_key))
    commands = [row.command for row in rows]
    blob, starts, lengths = arrays.bytes_column([row.response for row in rows])
    return SQL["identities_insert"], (
        topic,
        partition,
        now,
        blob,
        b"".join([c.request_hash for c in commands]),
        arrays.text_array([c.scope for c in commands]),
        arrays.text_array([c.idempotency_key for c in commands]),
        starts,
        lengths,
        arrays.text_array([row.status for row in rows]),
        arrays.text_array([c.operation for c in commands]),
        arrays.text_array([c.request_id for c in commands]),
        arrays.text_array([c.aggregate_key for c in commands]),
        arrays.text_array([row.event_id for row in rows]),
        arrays.Bigints([row.offset for row in rows]),
    )


def _outbox_insert(topic: str, partition: int, folded: Folded) -> Statement:
    events = folded.events
    blob, starts, lengths = arrays.bytes_column([e.payload for e in events])
    return SQL["outbox_insert"], (
        topic,
        partition,
        blob,
        arrays.Bigints([e.seq for e in events]),
        arrays.text_array([e.event_id for e in events]),
        arrays.text_array([e.key for e in events]),
        arrays.Bigints([e.version for e in events]),
        arrays.text_array([e.scope for e in events]),
        starts,
        lengths,
        arrays.Bigints([e.occurred_at for e in events]),
    )


def _translated(error: psycopg.Error) -> Exception:
    """Our own error for what the database refused on our behalf; the rest as it came."""
    if isinstance(error, psycopg.errors.DivisionByZero):
        return CasMiss()
    if error.sqlstate == _UNBALANCED:
        return UnbalancedPosting()
    return error
