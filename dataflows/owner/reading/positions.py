"""How far each assigned partition was read, and its next record: every offset once, and none is skipped."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping

from confluent_kafka import Message
from msgspec import Struct

from dataflows import limits
from dataflows.owner.batch import Record
from dataflows.owner.partition.leases import Lease, Leases
from dataflows.owner.partition.next_offset import Place, witness_fault
from dataflows.owner.reading.decoding import record_of
from dataflows.owner.senders import Senders
from schemas.errors import GapInOffsets, InvariantViolation


class _Read(Struct):
    """How far one partition was read under one lease, in the partition's own offsets."""

    lease: Lease
    next_offset: int  # at the take
    began: int  # next_offset, or the command before it, which an earlier lease read
    position: int  # the offset after the last one read
    #: decided by earlier leases when it was taken: the lease's position may pass these before they are read
    ahead: Container[int]
    fault: InvariantViolation | None = None  # why nothing more can be read; what was read is decided before the halt

    @property
    def place(self) -> Place:
        return Place(self.lease.topic_id, self.position - self.lease.offset_base)


class Positions:
    """All assigned partitions that do not stand still. The reading thread uses it."""

    def __init__(self, leases: Leases, senders: Senders) -> None:
        self._leases = leases
        self._senders = senders
        self._read: dict[int, _Read] = {}

    def begin(self, leases: Mapping[int, Lease]) -> dict[int, int]:
        """These were taken. The Kafka offset to read on from, by partition."""
        for partition, lease in leases.items():
            began = lease.next_offset - 1 if lease.has_witness else lease.next_offset
            self._read[partition] = _Read(lease, lease.next_offset, began, began, lease.ahead)
        return self.offsets(leases)

    def offsets(self, partitions: Iterable[int]) -> dict[int, int]:
        """Where Kafka is to read on, of those that do not stand still."""
        return {p: self._read[p].place.offset for p in partitions if p in self._read}

    def places(self) -> dict[int, Place]:
        """Of all in which nothing is wrong."""
        return {p: read.place for p, read in self._read.items() if not read.fault}

    def place(self, partition: int) -> Place | None:
        """None while it stands still."""
        read = self._read.get(partition)
        return read.place if read else None

    def epoch(self, partition: int) -> int:
        """Of the lease under which it is read. Raises KeyError while it stands still."""
        return self._read[partition].lease.epoch

    def found(self, partition: int, fault: InvariantViolation) -> None:
        """Nothing more of it can be read."""
        if read := self._read.get(partition):
            read.fault = fault

    def drop(self, partitions: Iterable[int]) -> None:
        """They are no longer ours."""
        for partition in partitions:
            self._read.pop(partition, None)

    def faulty(self) -> list[tuple[Lease, InvariantViolation]]:
        """Those of ours that cannot be read on, once all that was read of them is decided; they are dropped."""
        found = []
        for partition, read in list(self._read.items()):
            is_ours = self._leases.get(partition) is read.lease
            if read.fault and (not is_ours or read.lease.next_offset >= read.position):
                del self._read[partition]
                if is_ours:
                    found.append((read.lease, read.fault))
        return found

    def next_record(self, message: Message, partition: int, kafka_offset: int) -> Record | None:
        """The next record in order; None for another one, or while nothing of the partition may be read."""
        read = self._readable(partition)
        if read is None:
            return None
        offset = kafka_offset + read.lease.offset_base
        if offset == read.position:
            read.position += 1
            if offset < read.next_offset:
                read.fault = witness_fault(read.lease.place, read.lease.leader_epoch, message.leader_epoch())
                return None
            if offset in read.ahead:
                return None
            return record_of(offset, message, self._senders, self._leases.service, signed_from=read.lease.signed_from)
        if not read.began <= offset < read.position:  # otherwise it is a second delivery under this lease
            shift = read.lease.offset_base  # in Kafka's offsets, where an operator looks for it
            read.fault = GapInOffsets(expected=read.position - shift, found=offset - shift)
        return None

    def may_read(self, partition: int) -> bool:
        """Whether it is ours, and nothing is wrong in it; else what is read of it is read again when it goes on."""
        return self._readable(partition) is not None

    def pass_over(self, partition: int, kafka_end: int, refused: str) -> list[Record]:
        """Refuses what lies between the position and that offset of Kafka, some at a time; empty where nothing does."""
        read = self._readable(partition)
        if read is None:
            return []
        first, shift = read.position, read.lease.offset_base
        end = min(kafka_end + shift, first + limits.BATCH_MESSAGES_MAX)
        read.position = max(first, end)
        passed = range(max(first, read.next_offset), end)
        return [Record(offset, b"", refused=refused) for offset in passed if offset not in read.ahead]

    def _readable(self, partition: int) -> _Read | None:
        read = self._read.get(partition)
        return None if read is None or read.fault or self._leases.get(partition) is not read.lease else read
