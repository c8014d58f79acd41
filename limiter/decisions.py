"""The stream of decisions: columnar blocks, sent in the background. Recording never waits and never fails.

A block holds the decisions of some milliseconds of one gateway on the keys of one partition, and their texts once.
``event_id`` of a decision is ``block:index``: made once, so consumers drop what they have seen. When the stream is out
for long, rows are lost and counted; a decision is not delayed by a microsecond. Source: reference limiter 4.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

import msgspec
import numpy as np
import xxhash
from msgspec import Struct

from limiter.ring import RECORD_TYPE, Records, Ring, left_behind
from schemas import limits
from schemas.topics import DECISIONS_PARTITIONS

if TYPE_CHECKING:
    from pathlib import Path

    import numpy.typing as npt

    from limiter.decision import Decision

ALLOWED, DEGRADED, DUPLICATE, APPROXIMATE = 1, 2, 4, 8
_US: Final = 1_000
_encode: Final = msgspec.msgpack.Encoder().encode
_lines: Final = msgspec.json.Encoder().encode


class Row(NamedTuple):
    """What many decisions have in common: the key, and the policy that decided."""

    key: str
    policy_id: str
    policy_version: int


class Block(Struct, frozen=True, kw_only=True):
    """Decisions as records of ``RECORD_TYPE``, whose ``row`` is an index into ``rows``."""

    block_id: str
    rows: list[Row]
    records: bytes

    def columns(self) -> Records:
        """The decisions."""
        return np.frombuffer(self.records, RECORD_TYPE)


decode: Final = msgspec.msgpack.Decoder(Block).decode


class BlockSink(Protocol):
    """Where blocks go."""

    @property
    def under_way(self) -> int:
        """Blocks that were taken and are not yet safe."""
        ...

    def send(self, partition: int, block: bytes) -> bool:
        """Takes a block without waiting; False when there is no room."""
        ...


class Recorder:
    """Collects decisions of one process in a ring, and hands them on as blocks.

    The dictionary of rows lies beside the ring, one JSON line a row: together they outlive the process.
    """

    def __init__(self, name: str, sink: BlockSink, ring_file: Path, records: int = limits.LIMIT_RING_RECORDS) -> None:
        self._name = name
        self._sink = sink
        self._numbers = itertools.count(1)
        self._rows: list[Row] = []
        self._known: dict[Row, int] = {}
        self._partitions: list[int] = []
        self.recovered = self._recover(ring_file)
        self.ring = Ring(ring_file, records)
        self._dictionary = _dictionary_of(ring_file).open("wb", buffering=0)
        self.lost = 0
        self.recorded = 0

    def row(self, key: str, policy_id: str, policy_version: int) -> int:
        """The number of a row; a new one is written down first."""
        row = Row(key, policy_id, policy_version)
        number = self._known.get(row)
        if number is None:
            number = self._known[row] = len(self._rows)
            self._rows.append(row)
            self._partitions.append(partition_of(key))
            self._dictionary.write(_lines(row) + b"\n")
        return number

    def record(self, key: str, cost: int, decided: Decision) -> None:
        """Notes one decision."""
        row = self.row(key, decided.policy_id, decided.policy_version)
        self.ring.put(row, cost, flags_of(decided), decided.remaining, time.time_ns() // _US)

    async def run(self) -> None:
        """Flushes until cancelled."""
        while True:
            await asyncio.sleep(limits.LIMIT_DECISIONS_FLUSH_S)
            self.flush()

    def flush(self) -> None:
        """Sends what was recorded; once everything is safe, a restart need not read it again."""
        taken = self.ring.take()
        if len(taken):
            self._send(taken, self._rows, np.array(self._partitions, np.uint8))
        if not self._sink.under_way:
            self.ring.flushed()

    def close(self) -> None:
        """Call it after the last flush."""
        self._dictionary.close()
        self.ring.close()

    def _send(self, taken: Records, rows: list[Row], partitions: npt.NDArray[np.uint8]) -> None:
        where = partitions[taken["row"]]
        for partition in range(DECISIONS_PARTITIONS):
            part = taken[where == partition]
            for at in range(0, len(part), limits.LIMIT_DECISIONS_BLOCK_MAX):
                block = part[at : at + limits.LIMIT_DECISIONS_BLOCK_MAX]
                if self._sink.send(partition, self._encoded(block, rows)):
                    self.recorded += len(block)
                else:
                    self.lost += len(block)

    def _encoded(self, part: Records, rows: list[Row]) -> bytes:
        numbers, places = np.unique(part["row"], return_inverse=True)
        records = part.copy()
        records["row"] = places
        return _encode(
            Block(
                block_id=f"{self._name}.{next(self._numbers)}",
                rows=[rows[number] for number in numbers.tolist()],
                records=records.tobytes(),
            )
        )

    def _recover(self, ring_file: Path) -> int:
        """Sends what the process before had recorded and not flushed, and gives their number."""
        found = left_behind(ring_file)
        if not len(found):
            return 0
        lines = _dictionary_of(ring_file).read_bytes().splitlines()
        rows = [msgspec.json.decode(line, type=Row) for line in lines if line.endswith(b"]")]
        found = found[found["row"] < len(rows)]
        if len(found):
            self._send_recovered(found, rows)
        return len(found)

    def _send_recovered(self, found: Records, rows: list[Row]) -> None:
        self.lost = self.recorded = 0
        self._send(found, rows, np.array([partition_of(row.key) for row in rows], np.uint8))


def _dictionary_of(ring_file: Path) -> Path:
    return ring_file.with_suffix(".rows")


def partition_of(key: str) -> int:
    """All decisions on a key are in one partition."""
    return xxhash.xxh3_64_intdigest(key.encode()) % DECISIONS_PARTITIONS


def flags_of(d: Decision) -> int:
    """The flags of a record."""
    return ALLOWED * d.allowed | DEGRADED * d.degraded | DUPLICATE * d.duplicate | APPROXIMATE * d.approximate


def as_dict(block: Block) -> list[dict[str, Any]]:
    """Every decision of a block for people and tests."""
    return [
        {
            "event_id": f"{block.block_id}:{at}",
            **block.rows[int(r["row"])]._asdict(),
            "cost": int(r["cost"]),
            "remaining": int(r["remaining"]),
            "allowed": bool(r["flags"] & ALLOWED),
            "at": int(r["at"]),
        }
        for at, r in enumerate(block.columns())
    ]
