"""What leases have spent, in a file that outlives the process: one slot for every lease that is not yet accounted for.

A report is cumulative: the newest one says all there is, so a lost, repeated or late one does no harm. A slot holds two
reports by turns, each with a checksum: a process that is killed while it writes leaves the one before. What was spent
since the newest report of a lease that was still open is in the ring of decisions. Source: reference limiter 2.6.
"""

from __future__ import annotations

import mmap
import struct
from collections import deque
from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np
import xxhash
from msgspec import Struct

from limiter.ring import ALLOWED, SLOT_SHIFT, left_behind
from schemas import limits

if TYPE_CHECKING:
    from pathlib import Path

_HALF: Final = struct.Struct("<QH")  # checksum, bytes of the report
_HALF_BYTES: Final = 384
_SLOT_BYTES: Final = 2 * _HALF_BYTES
_encode: Final = msgspec.msgpack.Encoder().encode


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


class LeaseBook:
    """The slots of one process. Slot 0 means no lease."""

    def __init__(self, path: Path, slots: int = limits.LIMIT_LEASE_SLOTS) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._new = path.with_suffix(".new")
        with self._new.open("w+b") as file:
            file.truncate((slots + 1) * _SLOT_BYTES)
            self._map = mmap.mmap(file.fileno(), 0)
        self._free = deque(range(1, slots + 1))  # round and round: a slot is not used again soon

    def begin(self) -> None:
        """Takes the place of the book before, all at once: call it when what that one held is in this one."""
        self._new.replace(self._path)

    @property
    def has_room(self) -> bool:
        """A slot is free."""
        return bool(self._free)

    def take(self) -> int:
        """A free slot, or 0 when there is none."""
        return self._free.popleft() if self._free else 0

    def write(self, slot: int, report: LeaseReport) -> None:
        """The newest report of a lease. Raises ValueError for one that is too large for a slot."""
        body = _encode(report)
        if len(body) > _HALF_BYTES - _HALF.size:
            raise ValueError("a lease report is too large for its slot")
        at = slot * _SLOT_BYTES + report.seq % 2 * _HALF_BYTES
        self._map[at + _HALF.size : at + _HALF.size + len(body)] = body
        _HALF.pack_into(self._map, at, xxhash.xxh3_64_intdigest(body), len(body))

    def give_back(self, slot: int) -> None:
        """The lease is accounted for elsewhere."""
        self._map[slot * _SLOT_BYTES : (slot + 1) * _SLOT_BYTES] = bytes(_SLOT_BYTES)
        self._free.append(slot)

    def close(self) -> None:
        """The file stays."""
        self._map.close()


def reports_left_behind(book: Path, ring: Path) -> list[LeaseReport]:
    """Final reports of all leases that a process which ended had not accounted for, spent to the last decision."""
    found = _newest_of_slots(book)
    if not found:
        return []
    first, records = left_behind(ring)
    numbers = np.arange(first, first + len(records))
    slots = records["flags"] >> SLOT_SHIFT
    allowed = records["flags"] & ALLOWED != 0
    for slot, report in found.items():
        mine = (slots == slot) & (numbers >= report.counted)
        passed = mine & allowed
        if not report.closed:  # the cost of a closed one is whole
            report.allowed_cost = min(report.granted, report.allowed_cost + int(records["cost"][passed].sum()))
        report.allowed_n += int(np.count_nonzero(passed))
        report.denied_n += int(np.count_nonzero(mine & ~allowed))
        report.counted = limits.LIMIT_RING_NUMBER_MAX
        report.closed = True
        report.seq += 1
    return list(found.values())


def _newest_of_slots(path: Path) -> dict[int, LeaseReport]:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return {}
    found: dict[int, LeaseReport] = {}
    starts = np.frombuffer(data[: len(data) // _HALF_BYTES * _HALF_BYTES], np.uint8).reshape(-1, _HALF_BYTES)
    for half in np.flatnonzero(starts[:, : _HALF.size].any(axis=1)).tolist():
        at = half * _HALF_BYTES
        checksum, size = _HALF.unpack_from(data, at)
        body = data[at + _HALF.size : at + _HALF.size + size]
        if xxhash.xxh3_64_intdigest(body) != checksum:
            continue
        report, slot = decode(body), half // 2
        if slot not in found or found[slot].seq < report.seq:
            found[slot] = report
    return found
