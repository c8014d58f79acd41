"""One owner process and its lanes. A driver only decides which thread calls what; the work is done here."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from dataflows import limits
from dataflows.owner import clock
from dataflows.owner.batch import CommittedBatch, PartitionBatch
from dataflows.owner.collector import collect_rarely
from dataflows.owner.metrics import (
    BATCH_COMMANDS,
    COMMANDS_COMMITTED,
    COMMIT_SECONDS,
    PARKED_RECORDS,
)
from dataflows.owner.partition.leases import Leases
from dataflows.owner.publisher import MarkTimer, Publisher
from dataflows.owner.reading.reader import Reader
from dataflows.owner.senders import Keys, Senders
from dataflows.owner.service import OwnedService
from dataflows.owner.transaction.commit import Committer, Share
from dataflows.owner.transaction.parking import commit_or_park, committed_together
from dataflows.owner.transaction.size import TransactionSize
from schemas.errors import Fenced, InvariantViolation, OwnershipLost
from sinks.kafka.connection import KafkaConnection
from sinks.postgres.owner_connection import OwnerConnection, connect


class OwnerProcess:
    """Connections, leases, reader, publisher and lanes of one run; made again after every failure."""

    def __init__(
        self,
        kafka: KafkaConnection,
        dsn: str,
        service: OwnedService,
        owner_id: str,
        group: str,
        stop: threading.Event,
        keys: Keys,
        size: TransactionSize | None = None,
    ) -> None:
        self.stop = stop
        self.size = size or TransactionSize()
        self.large = threading.Lock()  # of the lane that decides a large round
        self.leases = Leases(service, owner_id)
        self._reader_connection = connect(dsn, f"{owner_id}-reader")
        self.publisher = Publisher(kafka, service, owner_id)
        self.reader = Reader(kafka, self._reader_connection, self.leases, self.publisher, group, Senders(keys), stop)
        self.marks = MarkTimer()
        self.lanes = [Lane(self, connect(dsn, f"{owner_id}-{n}")) for n in range(limits.OWNER_LANES)]
        self.failure: BaseException | None = None  # the first error of a lane; the other lanes end because of it

    def run(self, turn: Callable[[Lane], None]) -> None:
        """Joins the consumer group and turns every lane until all have drained. Raises the first error of a lane.

        Raises ClockOff before it joins.

        The calling thread turns the first lane; each further lane has a thread of its own.
        """
        collect_rarely()
        clock.compare_with(self._reader_connection)
        self.reader.start()
        threads = [
            threading.Thread(target=self._turn, args=(turn, lane), name=f"owner-lane-{n}", daemon=True)
            for n, lane in enumerate(self.lanes[1:], start=1)
        ]
        for thread in threads:
            thread.start()
        self._turn(turn, self.lanes[0])
        for thread in threads:
            thread.join()
        if self.failure is not None:
            raise self.failure

    def _turn(self, turn: Callable[[Lane], None], lane: Lane) -> None:
        try:
            turn(lane)
        except BaseException as error:  # noqa: BLE001 - raised by run, when no lane is at work any more
            if self.failure is None:
                self.failure = error
            self.reader.stop_reading()  # the other lanes may rest for long
        finally:
            lane.rests()

    def standing_still(self) -> dict[int, str]:
        """Our partitions that are not served, with the reasons; the others go on."""
        halted = dict.fromkeys(self.leases.halted, "halted, see 'millrace partitions list'")
        refused = {p: f"Kafka refuses its events: {reason}" for p, reason in self.publisher.refusals().items()}
        return refused | halted

    def hanging(self) -> str | None:
        """The reason if this owner hangs though nothing failed; None while its lanes turn."""
        silent_s = max(lane.silent_s() for lane in self.lanes)
        return None if silent_s < limits.OWNER_LANE_SILENT_MAX_S else f"a lane has not turned for {silent_s:.0f} s"

    def close(self) -> None:
        """Leaves the group and closes everything; the next owner sends again what Kafka has not acknowledged."""
        try:
            self.reader.close()
        finally:
            self.publisher.close()
            for lane in self.lanes:
                lane.connection.close()
            self._reader_connection.close()


class Lane:
    """Works on one round at a time, over its own connection: at most one batch of each partition, in one transaction.

    While Postgres works for one lane, another lane decides. A partition is in one lane at a time, from the take of its
    batch until its results are published, so its commands are decided in the order of their offsets.
    """

    def __init__(self, process: OwnerProcess, connection: OwnerConnection) -> None:
        self.connection = connection
        self._process = process
        self._leases = process.leases
        self._reader = process.reader
        self._rounds = process.reader.rounds
        self._publisher = process.publisher
        self._size = process.size
        self._committer = Committer(connection, process.leases, process.size, self._turns, process.large)
        self._turned_at: float | None = None  # None while the lane may rest
        self._marks = process.marks

    def _turns(self) -> None:
        self._turned_at = time.monotonic()

    def rests(self) -> None:
        """Notes that the lane has ended or waits for Kafka, for which there is no bound."""
        self._turned_at = None

    def silent_s(self) -> float:
        """For how long it has not turned though it should. Any thread may ask."""
        turned_at = self._turned_at
        return 0.0 if turned_at is None else time.monotonic() - turned_at

    def finished(self) -> bool:
        """True after a drain that was asked for: the only regular end. Raises when another lane has failed."""
        if self._process.failure is not None:
            raise OtherLaneFailed
        if self._process.stop.is_set():
            self._reader.stop_reading()
        return self._reader.drained

    def next_round(self) -> list[PartitionBatch]:
        """The next batches to commit together, maybe none; stores published positions meanwhile."""
        self._turns()
        self._publisher.serve()
        wait_ms = limits.PUBLISH_MARK_INTERVAL_MS if self._is_behind() else limits.OWNER_LANE_REST_MS
        batches = self._reader.next_round(wait_ms / 1_000)
        if not batches:  # a transaction in work locks the rows of its partitions
            idle = [lease for lease in self._leases.all() if lease.partition not in self._rounds.taken]
            self._marks.run(self.connection, idle, self._publisher, self._leases.mark)
        return batches

    def _is_behind(self) -> bool:
        """Whether acknowledgements are missing or positions not stored: then no lane may wait for long."""
        return self._publisher.backlog() > 0 or any(
            self._publisher.published_seq(lease.partition) > lease.published_seq for lease in self._leases.all()
        )

    def commit(self, batches: list[PartitionBatch]) -> list[CommittedBatch]:
        """Commits a round, in pieces if a record must be parked; every piece must be published, in order.

        Raises Fenced only while we hold the lease.
        """
        pieces: list[CommittedBatch] = []
        try:
            shares = [share for batch in batches if (share := self._share(batch)) is not None]
            with COMMIT_SECONDS.time():
                self._commit(shares, pieces)
        except BaseException:
            for batch in batches:
                self._leases.forget(batch.partition)  # before the partition is free: no lane may commit what follows
                self._rounds.done(batch.partition)
            raise
        last = {piece.partition: piece for piece in pieces}
        for batch in batches:
            if batch.partition in last:
                last[batch.partition].closes = True
            else:
                self._rounds.done(batch.partition)
        return pieces

    def _share(self, batch: PartitionBatch) -> Share | None:
        """The share of a batch; None if its lease is over, since the present owner reads it again."""
        lease = self._leases.get(batch.partition)
        if lease is None or batch.epoch != lease.epoch:
            return None
        if batch.begins_at != lease.next_offset:  # an earlier one has failed
            raise OwnershipLost("What was read does not follow what was committed; the owner starts over.")
        return Share(lease, batch, self._publisher.published_seq(batch.partition))

    def _commit(self, shares: list[Share], pieces: list[CommittedBatch]) -> None:
        """Commits all together; after a failure each alone, so that only the failed one is fenced, parked or halted.

        In smaller pieces if recent transactions took too long.
        """
        is_one = len(shares) > 1 and self._size.takes(sum(len(share.batch.records) for share in shares))
        if is_one and (committed := committed_together(self._committer, shares)):
            _count(*committed)
            pieces += committed
            return
        fenced: Fenced | None = None
        for share in shares:
            try:
                for batch in self._size.pieces(share.batch):
                    for piece in commit_or_park(self._committer, share.lease, batch, share.published_seq):
                        _count(piece)
                        pieces.append(piece)
            except Fenced as error:
                if self._leases.get(share.lease.partition) is not None:
                    fenced = error  # raised when the others are committed
            except InvariantViolation as error:
                self._halt(share.lease.partition, error)
        if fenced is not None:
            raise fenced

    def _halt(self, partition: int, error: InvariantViolation) -> None:
        """Stops this partition for every owner until an operator clears it; the others go on."""
        lease = self._leases.get(partition)
        if lease is not None:
            self._leases.halt(self.connection, lease, error)

    def publish(self, batch: CommittedBatch) -> None:
        """Sends what a commit returned; the last piece of a batch frees its partition for any lane."""
        self.rests()
        try:
            self._publisher.publish(batch)
            if batch.parked:
                self._publisher.publish_dead_letters(self.connection, batch.partition)
        finally:
            if batch.closes:
                self._rounds.done(batch.partition)
            self._turns()

    def step(self) -> None:
        """One turn of the plain loop."""
        if batches := self.next_round():
            for committed in self.commit(batches):
                self.publish(committed)


class OtherLaneFailed(Exception):
    """Another lane of this owner has failed; this one ends so that the owner can start over."""


def _count(*committed: CommittedBatch) -> None:
    """Counts what one transaction committed."""
    commands = sum(piece.commands for piece in committed)
    parked = sum(piece.parked for piece in committed)
    COMMANDS_COMMITTED.inc(commands - parked)
    PARKED_RECORDS.inc(parked)
    BATCH_COMMANDS.observe(commands)
