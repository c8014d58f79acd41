"""The stream of decisions: columnar blocks, sent in the background. Recording never waits and never fails.

A block holds the decisions of some milliseconds of one gateway on the keys of one partition, and their texts once.
``event_id`` of a decision is ``source:number``: made once, so consumers drop what they have seen. When the stream is
out for long, rows are lost and counted; a decision is not delayed by a microsecond. Source: reference limiter 4.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec
import numpy as np
import xxhash

from limiter.blocks import Block, Row, encode, summed
from limiter.outcomes import Outcomes
from limiter.ring import (
    ALLOWED,
    ALSO,
    APPROXIMATE,
    DEGRADED,
    DUPLICATE,
    SLOT_SHIFT,
    Records,
    Ring,
    left_behind,
)
from limiter.sampling import Sampling
from schemas import limits
from schemas.topics import DECISIONS_PARTITIONS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import numpy.typing as npt

    from limiter.buckets import Bucket
    from limiter.decision import Decision
    from limiter.lease_accounts import LeaseAccounts

_OF_A_DECISION: Final = ALLOWED | DEGRADED | DUPLICATE | APPROXIMATE  # of the flags; the rest stays in this process
_US: Final = 1_000
_lines: Final = msgspec.json.Encoder().encode


class BlockSink(Protocol):
    """Where blocks go."""

    @property
    def under_way(self) -> int:
        """Blocks that were taken and are not yet safe."""
        ...

    @property
    def lost(self) -> int:
        """Decisions in blocks that were taken and never arrived."""
        ...

    def send(self, partition: int, block: bytes) -> bool:
        """Takes a block without waiting; False when there is no room."""
        ...


class Recorder:
    """Collects decisions of one process in a ring, and hands them on as blocks.

    The dictionary of rows lies beside the ring, one JSON line a row: together they outlive the process.
    """

    def __init__(
        self,
        name: str,
        sink: BlockSink,
        ring_file: Path,
        records: int = limits.LIMIT_RING_RECORDS,
        leases: LeaseAccounts | None = None,
    ) -> None:
        self._source = f"{name}.{secrets.token_hex(4)}"  # its numbers begin anew with every process
        self._sink = sink
        self.leases = leases
        self._wanted = asyncio.Event()
        self._taken: deque[tuple[int, Records]] = deque()  # out of the ring, with the number of the first; not sent yet
        self._rows: list[Row] = []
        self._known: dict[Row, int] = {}
        self._partitions: list[int] = []
        self.sampling = Sampling()
        self.lost = 0
        self.recorded = 0
        self.outcomes = Outcomes()
        self._flushed_at = time.monotonic()
        #: turns the monotonic clock into time since the epoch: one clock for all records, and it never goes back
        self.wall_offset_ns = time.time_ns() - time.monotonic_ns()
        self.recovered = self._recover(ring_file)
        self.ring = Ring(ring_file, records)
        if leases is not None:
            leases.attach(self.ring, self.wall_offset_ns)
        dictionary = _dictionary_of(ring_file)
        dictionary.unlink(missing_ok=True)
        self._dictionary = dictionary.open("wb", buffering=0)
        self._dictionary.write(_lines(self._source) + b"\n")

    def row(self, key: str, policy_id: str, policy_version: int) -> int:
        """The number of a row; a new one is written down first."""
        row = Row(key, policy_id, policy_version)
        number = self._known.get(row)
        if number is None:
            number = self._known[row] = len(self._rows)
            self._rows.append(row)
            self._partitions.append(partition_of(key))
            self.sampling.add_row(policy_id, policy_version)
            self._dictionary.write(_lines(row) + b"\n")
        return number

    def record(
        self,
        key: str,
        cost: int,
        decided: Decision,
        leased: Sequence[Bucket] = (),
        *,
        identity: str | None = None,
    ) -> None:
        """Notes one decision, and the buckets whose leases made it: one record for each lease that it spent of.

        ``identity`` draws whether it is in the sample of its policy; without one its number does.
        """
        row = self.row(key, decided.policy_id, decided.policy_version)
        now_us = (time.monotonic_ns() + self.wall_offset_ns) // _US
        flags = flags_of(decided) | self.sampling.mark(row, identity, self.ring.written)
        slots = [bucket.account.slot << SLOT_SHIFT for bucket in leased if bucket.account is not None]
        self.ring.put(row, cost, flags | slots[0] if slots else flags, decided.remaining, now_us)
        for slot in slots[1:]:
            self.ring.put(row, cost, flags | slot | ALSO, decided.remaining, now_us)

    async def run(self) -> None:
        """Flushes until cancelled."""
        flushed_at = 0.0
        while True:
            hears = self.leases is not None and self.leases.is_waiting
            with suppress(TimeoutError):
                pause = limits.LIMIT_LEASE_FLUSH_MIN_S if hears else limits.LIMIT_DECISIONS_FLUSH_S
                await asyncio.wait_for(self._wanted.wait(), pause)
            if self.leases is not None:
                self.leases.hear()
            if self._wanted.is_set() or time.monotonic() - flushed_at >= limits.LIMIT_DECISIONS_FLUSH_S:
                self._wanted.clear()
                self.take()
                while self._taken:
                    self.send_part()
                    await asyncio.sleep(0)  # decisions that came meanwhile wait for a part, not for all
                flushed_at = time.monotonic()
                await asyncio.sleep(limits.LIMIT_LEASE_FLUSH_MIN_S)
                if self.leases is not None:
                    self.leases.hear()

    def hurry(self) -> None:
        """A lease waits for its report: the next flush comes early."""
        self._wanted.set()

    def flush(self) -> None:
        """Sends what was recorded."""
        self.take()
        while self._taken:
            self.send_part()

    def take(self) -> None:
        """Counts what was recorded. What was sent before and is safe now, a restart does not read again."""
        if not self._sink.under_way and not self._taken:
            self.ring.flushed()
        lost = self.ring.lost
        taken = self.ring.take()
        if self.leases is not None:
            self.leases.count(taken, self.ring.taken, is_whole=self.ring.lost == lost)
            self.leases.flush()
        now = time.monotonic()
        elapsed_s, self._flushed_at = now - self._flushed_at, now
        if len(taken):
            self.outcomes.count(taken, elapsed_s)
            first = self.ring.taken - len(taken)
            for at in range(0, len(taken), limits.LIMIT_DECISIONS_SENT_AT_ONCE):
                self._taken.append((first + at, taken[at : at + limits.LIMIT_DECISIONS_SENT_AT_ONCE]))

    def send_part(self) -> None:
        """Sends a part of what was taken, so large that it takes about a millisecond."""
        self._send(self._source, *self._taken.popleft(), self._rows)

    def gap(self) -> int:
        """Decisions of this process that are lost to the stream: overwritten, not taken, or never arrived."""
        return self.lost + self.ring.lost + self._sink.lost

    def forget(self) -> None:
        """Makes room when there are very many rows, once nothing refers to them: numbers of rows are void after it."""
        if len(self._rows) < limits.LIMIT_KEYS_MAX:
            return
        self.flush()
        if self._sink.under_way:
            return
        self.ring.flushed()
        self._dictionary.seek(0)
        self._dictionary.truncate()
        self._dictionary.write(_lines(self._source) + b"\n")
        self._rows, self._known, self._partitions = [], {}, []
        self.sampling.forget()

    def close(self) -> None:
        """Call it after the last flush."""
        self._dictionary.close()
        self.ring.close()

    def _send(self, source: str, first: int, taken: Records, rows: list[Row]) -> None:
        numbers, indexes = np.unique(taken["row"], return_inverse=True)
        partitions = [
            self._partitions[n] if rows is self._rows else partition_of(rows[n].key) for n in numbers.tolist()
        ]
        where = np.where(taken["flags"] & ALSO, DECISIONS_PARTITIONS, np.array(partitions, np.uint8)[indexes])
        for partition in range(DECISIONS_PARTITIONS):
            places = np.flatnonzero(where == partition)
            for at in range(0, len(places), limits.LIMIT_DECISIONS_BLOCK_MAX):
                part = places[at : at + limits.LIMIT_DECISIONS_BLOCK_MAX]
                block = self._encoded(source, first, part, taken[part], rows)
                if self._sink.send(partition, block):
                    self.recorded += len(part)
                else:
                    self.lost += len(part)

    def _encoded(self, source: str, first: int, places: npt.NDArray[np.int64], part: Records, rows: list[Row]) -> bytes:
        numbers, indexes = np.unique(part["row"], return_inverse=True)
        since, until = first + int(places[0]), first + int(places[-1]) + 1
        records = part.copy()
        records["row"] = indexes
        weights, totals, gap = b"", b"", 0
        if rows is self._rows:  # what a killed process left is all rows: its sums may be counted, its numbers tell
            gap = self.gap()
            kept = self.sampling.split(records, numbers.tolist())
            if kept is not None:
                totals, weights = summed(records[~kept.mask]).tobytes(), kept.weights.tobytes()
                records, places = records[kept.mask], places[kept.mask]
        records["flags"] &= np.uint32(_OF_A_DECISION)
        return encode(
            Block(
                source=source,
                first=first,
                places=places.astype(np.uint32).tobytes(),
                rows=[rows[number] for number in numbers.tolist()],
                records=records.tobytes(),
                weights=weights,
                totals=totals,
                since=since,
                until=until,
                gap=gap,
            )
        )

    def _recover(self, ring_file: Path) -> int:
        """Sends what the process before had recorded and not flushed, and gives their number."""
        first, found = left_behind(ring_file)
        if not len(found):
            return 0
        source, *lines = _dictionary_of(ring_file).read_bytes().splitlines()
        rows = [msgspec.json.decode(line, type=Row) for line in lines if line.endswith(b"]")]
        found = found[found["row"] < len(rows)]  # a row is written before the first record of it
        if len(found):
            self._send(msgspec.json.decode(source, type=str), first, found, rows)
        recovered, self.recorded = self.recorded, 0
        return recovered


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
            "event_id": f"{block.source}:{number}",
            **block.rows[int(r["row"])]._asdict(),
            "cost": int(r["cost"]),
            "remaining": int(r["remaining"]),
            "allowed": bool(r["flags"] & ALLOWED),
            "at": int(r["at"]),
        }
        for number, r in zip(block.numbers().tolist(), block.columns(), strict=True)
    ]
