"""Decisions in a file in memory: written by one process without waiting, still there when that process is killed.

A record is 24 bytes; the writer goes round and never looks whether a reader has kept up. What a reader missed is
counted as lost. After a kill the next process of the same place reads what was not flushed: records follow one another
in time, so an older generation begins where time goes back.
Source: reference limiter 3 rule 6.
"""

from __future__ import annotations

import mmap
import os
import struct
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from pathlib import Path

RECORD: Final = struct.Struct("<IIIiQ")  # row of the dictionary, cost, flags, remaining, microseconds since the epoch
RECORD_TYPE: Final = np.dtype([("row", "<u4"), ("cost", "<u4"), ("flags", "<u4"), ("remaining", "<i4"), ("at", "<u8")])
_HEAD: Final = struct.Struct("<8sQQ")  # name of the format, records of the ring, place of the first record not flushed
_HEAD_BYTES: Final = 64
_FORMAT: Final = b"rlring01"
REMAINING_MAX: Final = 2**31 - 1

Records = npt.NDArray[np.void]


class Ring:
    """One ring of one process. ``at`` is the place of the next record: whoever packs a record moves it on."""

    __slots__ = ("_file", "_flushed", "_records", "at", "begin", "buffer", "end", "lost", "turns")

    def __init__(self, path: Path, records: int) -> None:
        size = _HEAD_BYTES + records * RECORD.size
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
        os.ftruncate(descriptor, size)
        self.buffer = mmap.mmap(descriptor, size)
        os.close(descriptor)
        self._records = records
        self._flushed = 0  # records since the beginning
        self.begin = self.at = _HEAD_BYTES
        self.end = size
        self.turns = 0
        self.lost = 0
        _HEAD.pack_into(self.buffer, 0, _FORMAT, records, 0)

    @property
    def written(self) -> int:
        """Records since the beginning."""
        return self.turns * self._records + (self.at - self.begin) // RECORD.size

    def put(self, row: int, cost: int, flags: int, remaining: int, at_us: int) -> None:
        """Writes one record."""
        RECORD.pack_into(self.buffer, self.at, row, cost, flags, min(remaining, REMAINING_MAX), at_us)
        self.at += RECORD.size
        if self.at == self.end:
            self.at = self.begin
            self.turns += 1

    def take(self) -> Records:
        """What was written since the last time, oldest first. What was overwritten before is added to ``lost``."""
        written = self.written
        missed = max(0, written - self._flushed - self._records)
        self.lost += missed
        first = (self._flushed + missed) % self._records
        count = written - self._flushed - missed
        found = np.frombuffer(self.buffer, RECORD_TYPE, self._records, _HEAD_BYTES)
        taken = np.concatenate((found[first : first + count], found[: max(0, first + count - self._records)]))
        self._flushed = written
        return taken

    def flushed(self) -> None:
        """What was taken is safe elsewhere: a restart does not read it again."""
        _HEAD.pack_into(self.buffer, 0, _FORMAT, self._records, self._flushed)

    def close(self) -> None:
        """The file stays."""
        self.buffer.close()


def left_behind(path: Path) -> Records:
    """What a process that was killed had written and not flushed, oldest first; empty when there is nothing to read."""
    empty = np.empty(0, RECORD_TYPE)
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return empty
    if len(data) < _HEAD_BYTES or not data.startswith(_FORMAT):
        return empty
    _, records, flushed = _HEAD.unpack_from(data)
    if len(data) != _HEAD_BYTES + records * RECORD.size:
        return empty
    found = np.frombuffer(data, RECORD_TYPE, records, _HEAD_BYTES)
    ordered = np.concatenate((found[flushed % records :], found[: flushed % records]))
    times = ordered["at"]
    older = np.flatnonzero((times[1:] < times[:-1]) | (times[1:] == 0)) if records else np.empty(0, np.int64)
    count = 0 if not records or times[0] == 0 else int(older[0]) + 1 if older.size else records
    return ordered[:count]
