"""Decisions in a file in memory: written by one process without waiting, still there when that process is killed.

A record is 24 bytes; the writer goes round and never looks whether a reader has kept up. What a reader missed is
counted as lost. Behind the records lie, where they are wanted, the hashes of identities that leases were charged for;
of a record without one nothing is written there. Records are numbered from the beginning of the ring. After a kill the
next process of the same place reads what was not flushed: records follow one another in time, so an older round begins
where time goes back. Source: reference limiter 3 rule 6.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from limiter.spending.fields import RingFields
from limiter.spending.mapped_file import mapped_file

if TYPE_CHECKING:
    from pathlib import Path

RECORD: Final = struct.Struct("<IIIiQ")  # row of the dictionary, cost, flags, remaining, microseconds since the epoch
RECORD_TYPE: Final = np.dtype([("row", "<u4"), ("cost", "<u4"), ("flags", "<u4"), ("remaining", "<i4"), ("at", "<u8")])
IDENTITY: Final = struct.Struct("<Q")  # a hash, in an array behind the records; good where a record is IDENTIFIED
_HEAD: Final = struct.Struct(
    "<8sQQQQ"
)  # format, records of the ring, flushed and taken before this number, identities?
_HEAD_BYTES: Final = 64
_FORMAT: Final = b"rlring03"
_WITHOUT_IDENTITIES: Final = b"rlring02"  # the format before, which has zero where this one says whether it has them
REMAINING_MAX: Final = 2**31 - 1
ALLOWED: Final = 1  # the lowest bit of the flags
DEGRADED, DUPLICATE, APPROXIMATE = 2, 4, 8
ALSO: Final = 16  # no decision: the record before it is one, and spent of this lease too
SHADOW: Final = 128  # with ALSO: a policy in shadow mode, that of this row, would have refused the decision before it
IDENTIFIED: Final = 64  # charged out of a lease under an identity, whose hash lies beside the record
SLOT_SHIFT: Final = 8  # above the flags: the slot in the book of leases that the decision was made out of, 0 = none
LEFT_OUT: Final = 32  # the policy's sample leaves this decision out: it is summed, and no row of the stream

Records = npt.NDArray[np.void]
Hashes = npt.NDArray[np.uint64]


class LeftBehind(NamedTuple):
    """What a process that was killed had written and not flushed, oldest first."""

    first: int  # the number of the first record
    records: Records
    identities: Hashes  # of each record; empty where none are kept


class Ring(RingFields):
    """One ring of one process. ``at`` is the place of the next record: whoever packs a record moves it on.

    Raises OSError where the disk has no room for it; then everything is as it was.
    """

    __slots__ = ("_flushed", "_new", "_path", "_records", "lost", "taken")

    def __init__(self, path: Path, records: int, *, identities: bool = False) -> None:
        end = _HEAD_BYTES + records * RECORD.size
        size = end + records * IDENTITY.size * identities
        self._path = path
        self._new = path.with_name(f"{path.name}.new")
        self.buffer = mapped_file(self._new, size)
        self.buffer[:] = bytes(size)  # every page is there before the first record needs it: a fault takes microseconds
        self._records = records
        self._flushed = 0  # all records before this number are safe elsewhere
        self.taken = 0  # all records before this number were taken
        self.begin = self.at = _HEAD_BYTES
        self.end = end
        self.identities = end if identities else 0
        self.turns = 0
        self.lost = 0
        self._note()

    def take_over(self) -> None:
        """Takes the place of the ring before: call it when what that one held is known.

        A process before that still stands somewhere keeps its own file.
        """
        self._new.replace(self._path)

    @property
    def written(self) -> int:
        """Records since the beginning."""
        return self.turns * self._records + (self.at - self.begin) // RECORD.size

    @property
    def is_flushed(self) -> bool:
        """True when everything that was written is safe elsewhere."""
        return self._flushed == self.taken == self.written

    def put(self, row: int, cost: int, flags: int, remaining: int, at_us: int, identity: int | None = None) -> None:
        """Writes one record. ``identity``: the hash of what was charged out of a lease, where identities are kept."""
        if identity is not None:
            flags |= IDENTIFIED
            place = (self.at - self.begin) // RECORD.size * IDENTITY.size
            IDENTITY.pack_into(self.buffer, self.identities + place, identity)
        RECORD.pack_into(self.buffer, self.at, row, cost, flags, min(remaining, REMAINING_MAX), at_us)
        self.at += RECORD.size
        if self.at == self.end:
            self.at = self.begin
            self.turns += 1

    def take(self, at_most: int | None = None) -> Records:
        """What was written since the last time, oldest first. What was overwritten before is added to ``lost``.

        ``at_most`` so many, and what belongs to the last decision of them; unless some were overwritten: then all, and
        nothing is left that may be.
        """
        written = self.written
        missed = max(0, written - self.taken - self._records)
        self.lost += missed
        first = (self.taken + missed) % self._records
        count = written - self.taken - missed
        found = np.frombuffer(self.buffer, RECORD_TYPE, self._records, _HEAD_BYTES)
        if at_most is not None and not missed and at_most < count:
            all_of_it, count = count, at_most
            while count < all_of_it and found["flags"][(first + count) % self._records] & ALSO:
                count += 1
        taken = np.concatenate((found[first : first + count], found[: max(0, first + count - self._records)]))
        self.taken += missed + count
        self._note()
        return taken

    def identities_of(self, count: int) -> Hashes:
        """Beside the newest so many records that were taken; only where they are kept."""
        found = np.frombuffer(self.buffer, np.uint64, self._records, self.identities)
        first = (self.taken - count) % self._records
        return np.concatenate((found[first : first + count], found[: max(0, first + count - self._records)]))

    def flushed(self) -> None:
        """What was taken is safe elsewhere: a restart does not read it again."""
        self._flushed = self.taken
        self._note()

    def _note(self) -> None:
        _HEAD.pack_into(self.buffer, 0, _FORMAT, self._records, self._flushed, self.taken, self.identities > 0)

    def close(self) -> None:
        """The file stays."""
        self.buffer.close()


def left_behind(path: Path) -> LeftBehind:
    """What the process before left, if it left anything."""
    nothing = LeftBehind(0, np.empty(0, RECORD_TYPE), np.empty(0, np.uint64))
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return nothing
    if len(data) < _HEAD_BYTES or not data.startswith((_FORMAT, _WITHOUT_IDENTITIES)):
        return nothing
    _, records, flushed, taken, has_identities = _HEAD.unpack_from(data)
    end = _HEAD_BYTES + records * RECORD.size
    if not records or len(data) != end + records * IDENTITY.size * has_identities:
        return nothing
    found = np.frombuffer(data, RECORD_TYPE, records, _HEAD_BYTES)
    times = np.roll(found["at"], -(taken % records))  # from the first record on that was not taken
    before = max(1, int(times[-1]) if taken else 0)
    older = np.flatnonzero(times < np.concatenate((np.array([before], np.uint64), times[:-1])))
    written = taken + (int(older[0]) if older.size else records)
    first = max(flushed, written - records)
    places = np.arange(first, written) % records
    hashes = np.frombuffer(data, np.uint64, records, end)[places] if has_identities else nothing.identities
    return LeftBehind(first, found[places], hashes)
