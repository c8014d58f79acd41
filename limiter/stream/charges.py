"""What was charged out of leases under identities: told to everybody, because another gateway may have charged it too.

Lossless: a block that Kafka did not take is sent again, up to a bound of charges; past it the newest are lost and
counted. What a killed process had not flushed, the next one reads from the ring. A charge is known by its lease and its
identity, so what is sent twice is counted once. Nothing here waits, and no decision does work for it.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Struct

from limiter.policy.keys import key_hash
from limiter.spending.ring import SLOT_SHIFT, Hashes, Records
from limiter.stream.columns import Numbering, joined, packed_list
from limiter.stream.lease_book import partition_of
from schemas.limiter import limits
from schemas.limiter.topics import LEASES_PARTITIONS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from limiter.spending.ring import LeftBehind
    from limiter.stream.lease_book import LeaseReport, ReportSink

CHARGE_TYPE: Final = np.dtype(
    [
        ("identity", "<u8"),  # XXH64 of the request's identity, seeded with that of its limit key
        ("at", "<u8"),  # microseconds since the epoch, by the gateway
        ("key", "<u8"),  # XXH64 of the limit key; 0: another charge of the same decision stands for it
        ("lease", "<u4"),  # index into the leases of the block
        ("cost", "<u4"),
    ]
)
_encode: Final = msgspec.msgpack.Encoder().encode
_SLOT_BYTES: Final = 4


class ChargedLease(NamedTuple):
    """Out of what was charged."""

    lease_id: str
    key_hash: str  # of its bucket


class LeasesBySlot:
    """Which lease each slot of a book is of, and where its charges go: looked up for many charges at once."""

    def __init__(self, slots: int) -> None:
        self.names = [b""] * (slots + 1)  # encoded once, not with every block
        self.homes = np.full(slots + 1, -1, np.int8)  # partitions; -1: of no lease

    def put(self, slot: int, report: LeaseReport) -> None:
        """It is of this lease from now on."""
        self.names[slot] = _encode(ChargedLease(report.lease_id, report.key_hash))
        self.homes[slot] = partition_of(report.key_hash)

    def named(self, slots: bytes) -> msgspec.Raw:
        """The list of the leases of these slots (uint32)."""
        return msgspec.Raw(packed_list(len(slots) // _SLOT_BYTES, joined(self.names, slots)))


class ChargeBlock(Struct, frozen=True, array_like=True):
    """Charges of one gateway on the buckets of one partition."""

    leases: list[ChargedLease]
    charges: bytes  # of CHARGE_TYPE

    def columns(self) -> npt.NDArray[np.void]:
        """The charges. Raises ValueError when they are none, or of a lease that the block does not name."""
        found = np.frombuffer(self.charges, CHARGE_TYPE)
        if len(found) and int(found["lease"].max()) >= len(self.leases):
            raise ValueError("a charge names no lease of its block")
        return found


decode: Final = msgspec.msgpack.Decoder(ChargeBlock).decode
_Waiting = tuple[int, int, bytes, int]  # number, partition, block, charges in it


class Charges:
    """The charges of one gateway process on their way to Kafka."""

    def __init__(self, sink: ReportSink, unsent_max: int = limits.LIMIT_CHARGES_UNSENT_MAX) -> None:
        self._sink = sink
        self._unsent_max = unsent_max
        self._numbering = Numbering()
        self._waiting: deque[_Waiting] = deque()
        self._open: dict[int, int] = {}  # blocks that are not safe, in their order, with their charges
        self._held = 0  # charges in them
        self.made = 0  # blocks
        self.sent = 0  # charges in blocks that are safe
        self.gap = 0  # charges that were lost

    @property
    def under_way(self) -> int:
        """Blocks that are not safe."""
        return len(self._open)

    @property
    def safe(self) -> int:
        """All blocks before this number are safe, or lost."""
        return next(iter(self._open), self.made)

    def take(self, records: Records, identities: Hashes, keys: npt.NDArray[np.uint64], leases: LeasesBySlot) -> None:
        """Takes what was charged under identities in these records; ``keys``: by row. What is of no lease is lost."""
        for at in range(0, len(records), limits.LIMIT_CHARGES_BLOCK_MAX):
            some = slice(at, at + limits.LIMIT_CHARGES_BLOCK_MAX)
            homes = leases.homes
            parts, lost = self._numbering.charged(records[some], identities[some], keys, homes, LEASES_PARTITIONS)
            self.gap += lost
            for home, (charges, slots) in enumerate(parts):
                if charges:
                    self._add(home, charges, slots, leases)

    def recover(self, left: LeftBehind, slots: Mapping[int, LeaseReport], keys: Sequence[str]) -> None:
        """Takes what a process that ended had not flushed. A record is of the lease that had its slot by its number."""
        known = np.flatnonzero(left.records["row"] < len(keys))
        records, identities, numbers = left.records[known], left.identities[known], left.first + known
        slot_of = records["flags"] >> SLOT_SHIFT
        leases = LeasesBySlot(int(slot_of.max(initial=0)))
        since = np.zeros(len(leases.homes), np.int64)
        for slot, report in slots.items():
            if slot < len(since):
                leases.put(slot, report)
                since[slot] = report.counted
        mine = numbers >= since[slot_of]
        self.take(records[mine], identities[mine], np.array([key_hash(key) for key in keys], np.uint64), leases)
        self.flush()

    def flush(self) -> None:
        """Sends what waits; what cannot be sent waits on."""
        self._sink.poll()
        while self._waiting:
            number, home, block, count = self._waiting[0]
            if not self._sink.send(home, block, partial(self._told, number, home, block, count)):
                return
            self._waiting.popleft()

    def _add(self, home: int, charges: bytes, slots: bytes, leases: LeasesBySlot) -> None:
        count = len(charges) // CHARGE_TYPE.itemsize
        if self._held + count > self._unsent_max:
            self.gap += count
            return
        block = _encode((leases.named(slots), charges))  # a ChargeBlock
        self._waiting.append((self.made, home, block, count))
        self._open[self.made] = count
        self._held += count
        self.made += 1

    def _told(self, number: int, home: int, block: bytes, count: int, has_arrived: bool) -> None:
        if not has_arrived:
            self._waiting.append((number, home, block, count))
        elif number in self._open:
            del self._open[number]
            self._held -= count
            self.sent += count
