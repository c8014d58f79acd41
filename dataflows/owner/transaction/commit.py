"""The one transaction of the platform: a round of batches, one of each partition, is committed once or not at all.

The spec's order (1, section 3) in two round trips. The caller was authenticated at ingress (step 1).
  round trip 1  claim: compare-and-set on (epoch, next_offset) of each partition; fenced owners end here
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
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Final

import psycopg
from msgspec import Struct

from dataflows import limits
from dataflows.owner import clock, fail_points
from dataflows.owner.batch import CommittedBatch, NoisyCaller, PartitionBatch, Published, Record, Statement
from dataflows.owner.metrics import REFUSED_RECORDS
from dataflows.owner.partition.leases import SQL, Lease, Leases
from dataflows.owner.service import Workspace
from dataflows.owner.transaction.fold import Fold, Folded, Known, NewIdentity, OutboxRow
from dataflows.owner.transaction.joining import joined
from dataflows.owner.transaction.retried import Retried, asked_for
from dataflows.owner.transaction.size import TransactionSize
from schemas import stored_event
from schemas.errors import CasMiss, Fenced, UnbalancedPosting
from schemas.records import Command
from sinks.postgres.arrays import Bigints, Blobs, Integers, Texts, Times
from sinks.postgres.copied import Copy, by_copy, copied
from sinks.postgres.owner_connection import OwnerConnection
from sinks.postgres.round_trip import RoundTrips, Rows

_UNBALANCED: Final = "LE002"


class Share(Struct):
    """What a round has of one partition."""

    lease: Lease
    batch: PartitionBatch
    published_seq: int  # that this commit stores
    now: int = 0  # the time of its first command, when it is decided

    @property
    def decided_at(self) -> int:
        """The time of its last command; every command has a time of its own."""
        return self.now + len(self.batch.records) - 1


class Committer:
    """Commits rounds over one connection; ``begins`` is told of every transaction.

    ``large`` is held while a round of many commands is decided. Two that decided at once would only share the
    interpreter, and then wait for Postgres at the same time.
    """

    def __init__(
        self,
        connection: OwnerConnection,
        leases: Leases,
        size: TransactionSize | None = None,
        begins: Callable[[], object] = lambda: None,
        large: AbstractContextManager[object] | None = None,
    ) -> None:
        self.connection = connection
        self._size = size or TransactionSize()
        self._begins = begins
        self._large = large or nullcontext()
        self._trips = RoundTrips(connection)
        self.leases = leases
        self.service = leases.service

    def commit(self, lease: Lease, batch: PartitionBatch, published_seq: int) -> CommittedBatch:
        """A round of one partition."""
        return self.commit_round([Share(lease, batch, published_seq)])[0]

    def commit_round(self, shares: Sequence[Share]) -> list[CommittedBatch]:
        """Commits batches of different partitions, all once or none; what it returns may be published.

        Raises Fenced when another owner has one of the partitions, ClockOff, UnbalancedPosting and CasMiss as
        InvariantViolation, and psycopg errors; after any of them nothing of the round is in the database.
        """
        self._begins()
        fail_points.reach("before_claim")
        records, began = sum(len(share.batch.records) for share in shares), time.monotonic()
        try:
            decided = self._transaction(sorted(shares, key=lambda share: share.lease.partition))
        except psycopg.Error as error:
            self._size.failed(records, time.monotonic() - began)
            self._roll_back()
            raise _translated(error) from error
        except BaseException:
            self._roll_back()
            raise
        self._size.committed(records)
        for share, folded, workspace in decided:
            workspace.committed()
            lease = share.lease
            lease.last_seq += len(folded.events)
            lease.decided(share.batch.records)
            lease.decided_at = share.decided_at
            lease.published_seq = max(lease.published_seq, share.published_seq)
            lease.claimed_at_s = time.monotonic()
            for record in folded.refused:
                REFUSED_RECORDS.labels(record.refused).inc()
        fail_points.reach("after_commit_before_publish")
        return [
            CommittedBatch(
                partition=share.lease.partition,
                epoch=share.lease.epoch,
                commands=len(share.batch.records),
                events=[Published(event.seq, event.key, event.payload) for event in folded.events],
                replies=folded.replies,
            )
            for share, folded, _ in decided
        ]

    def _transaction(self, shares: Sequence[Share]) -> list[tuple[Share, Folded, Workspace]]:
        now_us = clock.now_us()
        for share in shares:
            share.now = share.lease.time_of_batch(now_us)
        commands = [[r.command for r in share.batch.records if r.command is not None] for share in shares]
        keys = [list(dict.fromkeys(c.aggregate_key for c in mine)) for mine in commands]
        reads, places = joined(
            [share.lease.state.reads(k, c) if k else [] for share, k, c in zip(shares, keys, commands, strict=True)]
        )
        claim = claim_statement(self.service.commands_topic, shares)
        ours = [claim, *(_known_reads(commands, keys) if any(keys) else ())]
        again = asked_for((r for share in shares for r in share.batch.records), self.service.commands_topic)
        _, claimed, *rows = self._trips.run([("begin", None), *ours, *again, *reads])
        _require_all(shares, claimed)
        clock.compare(now_us, claimed[0][1])
        fail_points.reach("after_claim")
        is_large = sum(map(len, commands)) >= limits.ROUND_MESSAGES_ENOUGH
        with self._large if is_large else nullcontext():
            decided, writes = self._decided(shares, places, rows, again=bool(again))
        fail_points.reach("before_commit")
        self._trips.write([*writes, ("commit", None)])
        return decided

    def _decided(
        self, shares: Sequence[Share], places: Sequence[Sequence[int]], rows: Sequence[Rows], *, again: bool
    ) -> tuple[list[tuple[Share, Folded, Workspace]], list[Statement | Copy]]:
        """What is decided, and what it writes. ``rows``: what the first round trip read of the commands."""
        identities, parked, *found = rows or ([], [])
        known = {(row[0], row[1]): Known(row[2], row[3], row[4], row[5]) for row in identities}
        parked_keys = {row[0] for row in parked}
        retried = Retried(found.pop(0) if again else ())
        decided = []
        for share, mine in zip(shares, places, strict=True):
            workspace = share.lease.state.begin([found[n] for n in mine])
            # What one partition of the round stores is known to the next: an identity may be used in both.
            place = (share.lease.partition, share.lease.last_seq)
            fold = Fold(self.service, *place, known, parked_keys, workspace, retried)
            decided.append((share, fold.run(share.batch.records, share.now), workspace))
        fail_points.reach("after_decide")
        writes, _ = joined([workspace.writes() for _, _, workspace in decided])
        writes += self._results([(share, folded) for share, folded, _ in decided])
        return decided, by_copy(writes)

    def _results(self, decided: Sequence[tuple[Share, Folded]]) -> list[Statement]:
        statements: list[Statement] = []
        identities = [(row, share) for share, folded in decided for row in folded.identities]
        if identities:
            statements.append(_identities_insert(self.service.commands_topic, identities))
        events = [(row, share.lease.partition) for share, folded in decided for row in folded.events]
        if events:
            statements.append(_outbox_insert(self.service.events_topic, self.service.dictionary, events))
        statements += [
            _refused_insert(self.service.commands_topic, share.lease.partition, folded.refused)
            for share, folded in decided
            if folded.refused
        ]
        if noisy := [(share, one) for share, _ in decided for one in share.batch.noisy]:
            statements.append(_noisy_upsert(self.service.commands_topic, noisy))
        return statements

    def _roll_back(self) -> None:
        """Leaves the session without a transaction; a broken connection is found broken by the next round."""
        if not self.connection.closed and not self.connection.broken:
            try:
                self.connection.execute("rollback")
            except psycopg.Error:
                self.connection.close()


def claim_statement(topic: str, shares: Sequence[Share]) -> Statement:
    """The claim of these partitions; a partition whose row is not returned is fenced."""
    after = [share.lease.progress.after(share.batch.records) for share in shares]
    return SQL["partitions_claim"], (
        Integers([share.lease.partition for share in shares]),
        Bigints([share.lease.epoch for share in shares]),
        Bigints([share.batch.begins_at for share in shares]),
        Bigints([progress.next_offset for progress in after]),
        Bigints([share.published_seq for share in shares]),
        Times([share.decided_at for share in shares]),
        Integers([-1 if progress.leader_epoch is None else progress.leader_epoch for progress in after]),
        Texts([progress.ahead_text for progress in after]),
        topic,
    )


def _require_all(shares: Sequence[Share], claimed: Rows) -> None:
    """Raises Fenced for the first partition that somebody else has."""
    partitions = {row[0] for row in claimed}
    for share in shares:
        if share.lease.partition not in partitions:
            raise Fenced(partition=share.lease.partition, epoch=share.lease.epoch)


def _known_reads(commands: Sequence[Sequence[Command]], keys: Sequence[Sequence[str]]) -> tuple[Statement, Statement]:
    asked = [command for mine in commands for command in mine]
    identities = (Texts([c.scope for c in asked]), Texts([c.idempotency_key for c in asked]))
    return (
        (SQL["identities_read"], identities),
        (SQL["parked_read"], (Texts([key for mine in keys for key in mine]),)),
    )


def _identities_insert(topic: str, identities: Sequence[tuple[NewIdentity, Share]]) -> Statement:
    ordered = sorted(identities, key=lambda one: (one[0].command.scope, one[0].command.idempotency_key))
    rows = [row for row, _ in ordered]
    commands = [row.command for row in rows]
    return copied(SQL["identities_insert"]), (
        topic,
        Texts([c.scope for c in commands]),
        Texts([c.idempotency_key for c in commands]),
        Blobs([c.request_hash for c in commands]),
        Blobs([row.response for row in rows]),
        Texts([row.status for row in rows]),
        Texts([c.operation for c in commands]),
        Texts([c.request_id for c in commands]),
        Texts([c.aggregate_key for c in commands]),
        Texts([row.event_id for row in rows]),
        Integers([share.lease.partition for _, share in ordered]),
        Bigints([row.offset for row in rows]),
        Times([share.now for _, share in ordered]),
        Texts([row.sender for row in rows]),
    )


def _refused_insert(topic: str, partition: int, refused: list[Record]) -> Statement:
    kept = refused[: limits.REFUSED_RECORDS_KEPT_MAX]
    return SQL["records_refused_insert"], {
        "topic": topic,
        "partition": partition,
        "offsets": Bigints([r.offset for r in kept]),
        "reasons": Texts([f"{r.refused}: sent by {r.sender or 'nobody known'}" for r in kept]),
        # of a command that could be read, keep only the place: it may hold a card number, which is stored nowhere
        "records": Blobs([r.value[: limits.REFUSED_RECORD_BYTES_MAX] if r.command is None else b"" for r in kept]),
        "kept_max": limits.REFUSED_RECORDS_KEPT_MAX,
    }


def _noisy_upsert(topic: str, noisy: Sequence[tuple[Share, NoisyCaller]]) -> Statement:
    ordered = sorted(noisy, key=lambda one: (one[1].caller, one[0].lease.partition))
    return SQL["noisy_upsert"], {
        "topic": topic,
        "callers": [one.caller for _, one in ordered],
        "partitions": [share.lease.partition for share, _ in ordered],
        "shares": [round(100 * one.share) for _, one in ordered],
        "left": [one.left for _, one in ordered],
        "again_s": limits.NOISE_AGAIN_S,
        "move_windows": limits.NOISE_MOVE_WINDOWS,
    }


def _outbox_insert(topic: str, dictionary: int, events: Sequence[tuple[OutboxRow, int]]) -> Statement:
    rows = [row for row, _ in events]
    return copied(SQL["outbox_insert"]), (
        topic,
        Integers([partition for _, partition in events]),
        Bigints([row.seq for row in rows]),
        Texts([row.event_id for row in rows]),
        Texts([row.key for row in rows]),
        Bigints([row.version for row in rows]),
        Texts([row.scope for row in rows]),
        Blobs(stored_event.kept([row.payload for row in rows], dictionary)),
        Times([row.occurred_at for row in rows]),
    )


def _translated(error: psycopg.Error) -> Exception:
    """Our own error for what a rule in the database refused; every other error as it came."""
    if isinstance(error, psycopg.errors.DivisionByZero):
        return CasMiss()
    if error.sqlstate == _UNBALANCED:
        return UnbalancedPosting()
    return error
