"""What leases have spent, in a file that outlives the process: one slot for every lease that is not yet accounted for.

A report is cumulative: the newest one says all there is, so a lost, repeated or late one does no harm. A slot holds two
reports by turns, each with a checksum: a process that is killed while it writes leaves the one before. What decisions
add to open leases stands apart, in counters of all slots: they are written whole, by turns too, and one number says
which of the two is good and how far the ring is counted in it. The rest is in the ring. Source: reference limiter 2.6.
"""

from __future__ import annotations

import struct
from collections import deque
from typing import TYPE_CHECKING, Final, Protocol

import msgspec
import numpy as np
import xxhash
from msgspec import Struct

from limiter.spending.mapped_file import mapped_file
from limiter.spending.ring import ALLOWED, SLOT_SHIFT, left_behind
from limiter.stream.columns import count_leases, write_stale
from schemas.limiter import limits
from schemas.limiter.topics import LEASES_PARTITIONS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import numpy.typing as npt

    from limiter.spending.ring import Records

    Counters = npt.NDArray[np.int64]

_FORMAT: Final = b"rlbook02"
_HEAD: Final = struct.Struct("<8sQ")  # name of the format, slots
_STATE: Final = struct.Struct("<Q")  # decisions counted, times two, and which half of the counters is good
_STATE_AT: Final = _HEAD.size
_COUNTERS_AT: Final = 64
COST, ALLOWED_N, DENIED_N = 0, 1, 2  # the columns of counters
_COLUMNS: Final = 3
_HALF: Final = struct.Struct("<QH")  # checksum, bytes of the report
_HALF_BYTES: Final = 384
_SLOT_BYTES: Final = 2 * _HALF_BYTES
_NEXT_PROCESS: Final = 2**32  # more than the reports of one lease by one process
_encode: Final = msgspec.msgpack.Encoder().encode


class ReportSink(Protocol):
    """Where reports go."""

    def poll(self) -> None:
        """Says of messages that they arrived, or did not."""

    def send(self, partition: int, message: bytes, told: Callable[[bool], None]) -> bool:
        """Takes a message without waiting; False when there is no room. ``told`` says later whether it arrived."""
        ...


class LeaseReport(Struct, array_like=True, kw_only=True):
    """Grant and cumulative spend of one lease. ``closed``: it is spent no more, and the figures are final."""

    lease_id: str
    key_hash: str  # of the bucket; names its keys at the store
    policy_id: str
    policy_version: int
    epoch: int
    terms: bytes  # of the policy, as the script reads them: enough to settle the lease
    granted: int
    ends_at_us: int  # not spent after it
    allowed_cost: int = 0
    allowed_n: int = 0
    denied_n: int = 0
    seq: int = 0
    closed: bool = False
    settled: bool = False  # the store was told, by the gateway
    counted: int = 0  # decisions of the ring before this number are in it
    shard: str = ""  # whose store granted it; gateways before this field do not say so

    @property
    def unreported_max(self) -> int:
        """The most that was spent and that nobody knows of, when the gateway's host is gone."""
        return min(unreported_max(self.granted), self.granted - self.allowed_cost)


decode: Final = msgspec.msgpack.Decoder(LeaseReport).decode
decode_reports: Final = msgspec.msgpack.Decoder(list[LeaseReport]).decode
encode_reports: Final = _encode


def unreported_max(granted: int) -> int:
    """How much of a lease may be spent before Kafka has acknowledged a report of it."""
    return -(-granted // limits.LIMIT_LEASE_UNREPORTED_SHARE)


def partition_of(key_hash: str) -> int:
    """All leases of a bucket are in one partition."""
    return int(key_hash[-8:], 16) % LEASES_PARTITIONS


class LeaseBook:
    """The slots of one process. Slot 0 means no lease."""

    def __init__(self, path: Path, slots: int = limits.LIMIT_LEASE_SLOTS) -> None:
        self._path = path
        self._new = path.with_name(f"{path.name}.new")
        self._slots_at = _COUNTERS_AT + 2 * _counters_bytes(slots)
        self._map = mapped_file(self._new, self._slots_at + (slots + 1) * _SLOT_BYTES)
        _HEAD.pack_into(self._map, 0, _FORMAT, slots)
        self._free = deque(range(1, slots + 1))  # round and round: a slot is not used again soon
        self.counters = np.zeros((_COLUMNS, slots + 1), np.int64)  # what the ring said of every slot
        self._half = 0
        self._stale = np.zeros((2, slots + 1), np.bool_)  # in which half what the file says of a slot is old

    def take_over(self) -> None:
        """Takes the place of the book before, all at once: call it when what that one held is in this one."""
        self._new.replace(self._path)

    @property
    def has_room(self) -> bool:
        """A slot is free."""
        return bool(self._free)

    def take(self) -> int:
        """A free slot, or 0 when there is none."""
        return self._free.popleft() if self._free else 0

    def write(self, slot: int, report: LeaseReport, turn: int) -> None:
        """The newest report of a lease, beside that of the turn before. Raises ValueError when it is too large."""
        body = _encode(report)
        if len(body) > _HALF_BYTES - _HALF.size:
            raise ValueError("a lease report is too large for its slot")
        at = self._slots_at + slot * _SLOT_BYTES + turn % 2 * _HALF_BYTES
        self._map[at + _HALF.size : at + _HALF.size + len(body)] = body
        _HALF.pack_into(self._map, at, xxhash.xxh3_64_intdigest(body), len(body))

    def count(self, records: Records, due_at: npt.NDArray[np.int64]) -> set[int]:
        """Adds decisions to the counters of their slots; gives those whose cost is due."""
        return count_leases(records, self.counters, due_at, self._stale)

    def spent(self, slot: int, cost: int) -> None:
        """So much of its lease is spent, whatever was counted."""
        self.counters[COST, slot] = cost
        self._stale[:, slot] = True

    def write_counters(self, counted: int) -> None:
        """All counters, with the ring counted up to this number; those before are good until these are written."""
        self._half = 1 - self._half
        at = _COUNTERS_AT + self._half * self.counters.nbytes
        write_stale(self.counters, self._stale[self._half], memoryview(self._map)[at : at + self.counters.nbytes])
        _STATE.pack_into(self._map, _STATE_AT, counted * 2 + self._half)

    def give_back(self, slot: int) -> None:
        """The lease is accounted for elsewhere."""
        at = self._slots_at + slot * _SLOT_BYTES
        self._map[at : at + _SLOT_BYTES] = bytes(_SLOT_BYTES)
        self.counters[:, slot] = 0
        self._stale[:, slot] = True
        self._free.append(slot)

    def close(self) -> None:
        """The file stays."""
        self._map.close()


def slots_left_behind(book: Path) -> dict[int, LeaseReport]:
    """What a process that ended had in its slots: the lease of every record of its ring from ``counted`` on."""
    try:
        data = book.read_bytes()
    except FileNotFoundError:
        return {}
    if len(data) < _COUNTERS_AT or not data.startswith(_FORMAT):
        return {}
    return _newest_of_slots(data, _COUNTERS_AT + 2 * _counters_bytes(_HEAD.unpack_from(data)[1]))


def reports_left_behind(book: Path, ring: Path) -> list[LeaseReport]:
    """Final reports of all leases that a process which ended had not accounted for, spent to the last decision."""
    try:
        data = book.read_bytes()
    except FileNotFoundError:
        return []
    if len(data) < _COUNTERS_AT or not data.startswith(_FORMAT):
        return []
    slots_n = _HEAD.unpack_from(data)[1]
    found = _newest_of_slots(data, _COUNTERS_AT + 2 * _counters_bytes(slots_n))
    (state,) = _STATE.unpack_from(data, _STATE_AT)
    counted, at = state // 2, _COUNTERS_AT + state % 2 * _counters_bytes(slots_n)
    counters = np.frombuffer(data, np.int64, _COLUMNS * (slots_n + 1), at).reshape(_COLUMNS, -1)
    first, records, _ = left_behind(ring)
    numbers = np.arange(first, first + len(records))
    slots = records["flags"] >> SLOT_SHIFT
    allowed = records["flags"] & ALLOWED != 0
    for slot, report in found.items():
        if counted > report.counted:  # otherwise they are of the lease that had the slot before
            report.counted = counted
            report.allowed_n += int(counters[ALLOWED_N, slot])
            report.denied_n += int(counters[DENIED_N, slot])
            report.allowed_cost += 0 if report.closed else int(counters[COST, slot])
        mine = (slots == slot) & (numbers >= report.counted)
        passed = mine & allowed
        if not report.closed:  # the cost of a closed one is whole
            report.allowed_cost = min(report.granted, report.allowed_cost + int(records["cost"][passed].sum()))
        report.allowed_n += int(np.count_nonzero(passed))
        report.denied_n += int(np.count_nonzero(mine & ~allowed))
        report.counted = limits.LIMIT_RING_NUMBER_MAX
        report.closed = True
        report.seq += _NEXT_PROCESS
    return list(found.values())


def _counters_bytes(slots: int) -> int:
    return _COLUMNS * (slots + 1) * 8


def _newest_of_slots(data: bytes, slots_at: int) -> dict[int, LeaseReport]:
    found: dict[int, LeaseReport] = {}
    starts = np.frombuffer(data, np.uint8, offset=slots_at).reshape(-1, _HALF_BYTES)
    for half in np.flatnonzero(starts[:, : _HALF.size].any(axis=1)).tolist():
        at = slots_at + half * _HALF_BYTES
        checksum, size = _HALF.unpack_from(data, at)
        body = data[at + _HALF.size : at + _HALF.size + size]
        if xxhash.xxh3_64_intdigest(body) != checksum:
            continue
        report, slot = decode(body), half // 2
        if slot not in found or found[slot].seq < report.seq:
            found[slot] = report
    return found
