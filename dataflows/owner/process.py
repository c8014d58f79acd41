"""One owner process: what both drivers turn. A driver only decides who calls ``step``; the work is here."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import structlog

from dataflows.owner.batch import CommittedBatch, PartitionBatch
from dataflows.owner.commit import Committer
from dataflows.owner.leases import Leases
from dataflows.owner.metrics import (
    BATCH_COMMANDS,
    COMMANDS_COMMITTED,
    COMMIT_SECONDS,
    INVARIANT_VIOLATED,
    PARKED_RECORDS,
)
from dataflows.owner.parking import commit_or_park
from dataflows.owner.publisher import MarkTimer, Publisher
from dataflows.owner.reader import Reader
from dataflows.owner.service import Service
from schemas import limits
from schemas.errors import Fenced, InvariantViolation
from sinks.kafka.connection import KafkaConnection
from sinks.postgres.owner_connection import connect

log = structlog.get_logger()


class OwnerProcess:
    """Connections, leases, reader and publisher of one run; made again after every failure."""

    def __init__(
        self,
        kafka: KafkaConnection,
        dsn: str,
        service: Service,
        owner_id: str,
        group: str,
        stop: threading.Event,
    ) -> None:
        self.stop = stop
        self.leases = Leases(service, owner_id)
        self._connection = connect(dsn, owner_id)
        self._reader_connection = connect(dsn, f"{owner_id}-reader")
        self.publisher = Publisher(kafka, service, owner_id)
        self.committer = Committer(self._connection, self.leases)
        self.reader = Reader(kafka, self._reader_connection, self.leases, self.publisher, group)
        self._marks = MarkTimer()

    def start(self) -> None:
        """Joins the consumer group."""
        self.reader.start()

    def finished(self) -> bool:
        """True after a drain that was asked for: the only regular end."""
        if self.stop.is_set():
            self.reader.stop_reading()
        return self.reader.drained

    def next_batch(self) -> PartitionBatch | None:
        """The next batch to commit, None when there is none for now; keeps positions moving meanwhile."""
        self.publisher.serve()
        batch = self.reader.next_batch(limits.BATCH_POLL_TIMEOUT_MS / 1_000)
        if batch is None:
            self._marks.run(self._connection, self.leases.all(), self.publisher, self.leases.mark)
        return batch

    def commit(self, batch: PartitionBatch) -> Iterator[CommittedBatch]:
        """Commits one batch, in pieces when a record of it must be parked. Raises Fenced only while we hold the lease."""
        try:
            lease = self.leases.get(batch.partition)
            if lease is None or batch.records[-1].offset < lease.next_offset:
                return  # lost since it was read, or read twice over a hand-over
            with COMMIT_SECONDS.time():
                for committed in commit_or_park(
                    self.committer, lease, batch, self.publisher.published_seq(batch.partition)
                ):
                    _count(committed)
                    yield committed
        except Fenced:
            if self.leases.get(batch.partition) is not None:
                raise
        except InvariantViolation as error:
            self._halt(batch.partition, error)
        finally:
            self.reader.done(batch)

    def _halt(self, partition: int, error: InvariantViolation) -> None:
        """Fail closed: this partition stops for everybody, the others go on, an operator sees it."""
        INVARIANT_VIOLATED.inc()
        log.critical("invariant_violated", partition=partition, code=error.code, context=error.context)
        lease = self.leases.get(partition)
        if lease is not None:
            self.leases.halt(
                self._connection, lease, f"{error.code}: {error.public} {error.context or ''}".strip()
            )

    def publish(self, batch: CommittedBatch) -> None:
        """Sends what a commit allows to send."""
        self.publisher.publish(batch)
        if batch.parked:
            self.publisher.publish_dead_letters(self._connection, batch.partition)

    def step(self) -> None:
        """One turn of the plain loop."""
        batch = self.next_batch()
        if batch is not None:
            for committed in self.commit(batch):
                self.publish(committed)

    def close(self) -> None:
        """Leaves the group and closes everything; what was not acknowledged is sent again by the next owner."""
        try:
            self.reader.close()
        finally:
            self.publisher.close()
            self._connection.close()
            self._reader_connection.close()


def _count(committed: CommittedBatch) -> None:
    COMMANDS_COMMITTED.inc(committed.commands - committed.parked)
    PARKED_RECORDS.inc(committed.parked)
    BATCH_COMMANDS.observe(committed.commands)
