"""Handles a batch that fails: retries it once, then bisects it, then parks the one command that fails.

The partition goes on; the parked command's aggregate refuses work until an operator retries or discards it.
Lost ownership, a database that is away and a broken invariant are never hidden: they stop the owner or the partition.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Sequence
from typing import Final

import psycopg
import structlog

from dataflows import limits
from dataflows.owner import fail_points
from dataflows.owner.batch import CommittedBatch, PartitionBatch, Record, Reply
from dataflows.owner.partition.leases import SQL, Lease
from dataflows.owner.transaction.commit import Committer, Share, claim_statement
from schemas.errors import Fenced, InvariantViolation, OwnershipLost
from schemas.records import Command

_REASON_LENGTH_MAX: Final = 2_000
_PARKED_BODY: Final = b'{"code":"parked","detail":"The command failed unexpectedly and waits for an operator."}'
_NOT_PARKABLE: Final = (OwnershipLost, InvariantViolation, psycopg.OperationalError, psycopg.InterfaceError)
_PROGRAM_LIMITS: Final = "54"  # class of SQLSTATE: a row is too large for Postgres; the database is not away
log = structlog.get_logger()


def committed_together(committer: Committer, shares: Sequence[Share]) -> list[CommittedBatch]:
    """Commits a round and returns what may be published; empty when its partitions must be tried one by one.

    Raises errors that stop the owner unchanged.
    """
    if any(record.fault for share in shares for record in share.batch.records):
        return []
    try:
        return committer.commit_round(shares)
    except (Fenced, InvariantViolation, psycopg.errors.DeadlockDetected) as error:  # it comes again with its partition
        log.warning("round_divided", partitions=[share.lease.partition for share in shares], error=repr(error))
    except Exception as error:  # an error that one command provokes must not stop the other partitions
        if _stops(error):
            raise
        log.warning("round_divided", partitions=[share.lease.partition for share in shares], error=repr(error))
    return []


def commit_or_park(
    committer: Committer, lease: Lease, batch: PartitionBatch, published_seq: int
) -> Iterator[CommittedBatch]:
    """Commits every record of the batch in order, or parks it; yields what may be published after each commit.

    Raises OwnershipLost, InvariantViolation and psycopg.OperationalError unchanged, unless a command provoked them.
    """
    if any(record.fault for record in batch.records):
        yield from _split_at_faults(committer, lease, batch, published_seq)
        return
    error: Exception | None = None
    for _ in range(1 + limits.OWNER_RETRY_MAX):
        try:
            committed = committer.commit(lease, batch, published_seq)
        except psycopg.errors.DeadlockDetected as failure:  # an OperationalError, but one that a retry settles
            error = failure
        except Exception as failure:  # an error that a command provokes must not stop its partition
            if _stops(failure):
                raise
            error = failure
        else:
            yield committed
            return
    if len(batch.records) > 1:
        log.warning("batch_bisected", partition=batch.partition, records=len(batch.records), error=repr(error))
        middle = len(batch.records) // 2
        for half in (batch.records[:middle], batch.records[middle:]):
            yield from commit_or_park(
                committer, lease, PartitionBatch(batch.partition, half, batch.epoch, left=batch.left), published_seq
            )
        return
    yield _park(committer, lease, batch, batch.records[0], _reason(error), published_seq)


def _stops(error: Exception) -> bool:
    """Whether the owner or the database failed. A row that is too large for an index is a command's failure."""
    is_of_a_command = isinstance(error, psycopg.Error) and (error.sqlstate or "").startswith(_PROGRAM_LIMITS)
    return isinstance(error, _NOT_PARKABLE) and not is_of_a_command


def _split_at_faults(
    committer: Committer, lease: Lease, batch: PartitionBatch, published_seq: int
) -> Iterator[CommittedBatch]:
    run: list[Record] = []
    for record in batch.records:
        if record.fault is None:
            run.append(record)
            continue
        if run:
            yield from commit_or_park(
                committer, lease, PartitionBatch(batch.partition, run, batch.epoch, left=batch.left), published_seq
            )
            run = []
        yield _park(committer, lease, batch, record, f"{record.fault.code}: {record.fault.public}", published_seq)
    if run:
        last = PartitionBatch(batch.partition, run, batch.epoch, left=batch.left)
        yield from commit_or_park(committer, lease, last, published_seq)


def _reason(error: Exception | None) -> str:
    return "".join(traceback.format_exception_only(error)).strip()[:_REASON_LENGTH_MAX].replace("\x00", "")


def _park(
    committer: Committer, lease: Lease, batch: PartitionBatch, record: Record, reason: str, published_seq: int
) -> CommittedBatch:
    """In one transaction moves the claim past the record and keeps the record as it came."""
    service, command = committer.service, record.command
    place = {"topic": service.commands_topic, "partition": lease.partition, "offset": record.offset}
    with committer.connection.transaction():
        alone = PartitionBatch(lease.partition, [record], lease.epoch, left=batch.left)
        share = Share(lease, alone, published_seq, lease.decided_at)
        claim = committer.connection.execute(*claim_statement(service.commands_topic, [share])).fetchone()
        if claim is None:
            raise Fenced(partition=lease.partition, epoch=lease.epoch)
        committer.connection.execute(
            SQL["dead_letter_insert"],
            {
                **place,
                "aggregate_key": command.aggregate_key if command else None,
                "merchant_id": command.scope if command else None,
                "request_id": command.request_id if command else None,
                "reason": reason,
                "record": record.value,
            },
        )
        if command:
            committer.connection.execute(
                SQL["parked_aggregate_insert"],
                {**place, "aggregate_key": command.aggregate_key, "reason": reason},
            )
    lease.decided([record])
    log.error(
        "record_parked",
        topic=service.commands_topic,
        partition=lease.partition,
        offset=record.offset,
        reason=reason,
    )
    fail_points.reach("after_park_before_publish")
    return CommittedBatch(
        partition=lease.partition, epoch=lease.epoch, commands=1, parked=1, replies=_parked_reply(command)
    )


def _parked_reply(command: Command | None) -> list[Reply]:
    if command is None or not command.is_awaited:
        return []
    return [Reply(command.reply_to, command.reply_id, "parked", replayed=False, body=_PARKED_BODY)]
