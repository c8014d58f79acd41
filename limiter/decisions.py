"""The stream of decisions: columnar blocks, sent in the background. Recording never waits and never fails.

A block holds the decisions of some milliseconds of one gateway on the keys of one partition, and their texts once.
``event_id`` of a decision is ``source:number``: made once, so consumers drop what they have seen. When the stream is
out for long, rows are lost and counted; a decision is not delayed by a microsecond. Source: reference limiter 4.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from array import array
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec
import numpy as np
import xxhash

from limiter.blocks import Block, Row, encode, encoded_row, summed
from limiter.columns import Numbering, joined, packed_list
from limiter.keys import identity_hash, key_hash
from limiter.outcomes import Outcomes
from limiter.ring import (
    ALLOWED,
    ALSO,
    APPROXIMATE,
    DEGRADED,
    DUPLICATE,
    LEFT_OUT,
    RECORD_TYPE,
    SLOT_SHIFT,
    LeftBehind,
    Records,
    Ring,
    left_behind,
)
from limiter.sampling import Sampling
from schemas import limits
from schemas.topics import DECISIONS_PARTITIONS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    import numpy.typing as npt

    from limiter.buckets import Bucket
    from limiter.charges import Charges
    from limiter.decision import Decision
    from limiter.lease_accounts import LeaseAccounts

_OF_A_DECISION: Final = ALLOWED | DEGRADED | DUPLICATE | APPROXIMATE  # of the flags; the rest stays in this process
_US: Final = 1_000
_PLACE_BYTES: Final = 4
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
        charges: Charges | None = None,
    ) -> None:
        """``charges``, with ``leases``: what leases are charged for under identities is told to other gateways."""
        self._source = f"{name}.{secrets.token_hex(4)}"  # its numbers begin anew with every process
        self._sink = sink
        self.leases = leases
        self.charges = None if leases is None else charges
        self._seeds = array("Q")  # of identities, by row
        self._taken: Records | None = None  # out of the ring, and not sent yet
        self._is_degraded = False  # the failure mode decided some of what this flush has taken
        self._woken = asyncio.Event()
        self._is_wanted = False
        self._busy_at = time.monotonic()
        self._rows = Rows()
        self._known: dict[Row, int] = {}
        self._numbering = Numbering()
        self.sampling = Sampling()
        self.lost = 0
        self.recorded = 0
        self.outcomes = Outcomes()
        self._flushed_at = time.monotonic()
        #: turns the monotonic clock into time since the epoch: one clock for all records, and it never goes back
        self.wall_offset_ns = time.time_ns() - time.monotonic_ns()
        self.recovered = self._recover(ring_file)
        self.ring = Ring(ring_file, records, identities=self.charges is not None)
        if leases is not None:
            leases.charges = self.charges
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
            self._rows.add(row)
            self._seeds.append(key_hash(key))
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
        charged: int | None = None
        slots = [bucket.account.slot << SLOT_SHIFT for bucket in leased if bucket.account is not None]
        if slots and identity is not None and self.charges is not None and decided.allowed:
            charged = identity_hash(self._seeds[row], identity)
        self.ring.put(row, cost, flags | slots[0] if slots else flags, decided.remaining, now_us, charged)
        for slot in slots[1:]:
            self.ring.put(row, cost, flags | slot | ALSO, decided.remaining, now_us, charged)

    async def run(self) -> None:
        """Flushes until cancelled; seldom, and at next to no cost, while nothing is decided."""
        flushed_at = 0.0
        while True:
            await self._pause(self._pause_s())
            if self.leases is not None:
                self.leases.hear()
            if self._is_wanted or time.monotonic() - flushed_at >= limits.LIMIT_DECISIONS_FLUSH_S:
                self._is_wanted = False
                flushed_at = time.monotonic()
                if self._is_idle():
                    self._flushed_at = flushed_at
                    continue
                self._busy_at = flushed_at
                for _ in self._flush_parts():
                    await asyncio.sleep(0)  # decisions that came meanwhile wait for a part, not for all
                await asyncio.sleep(limits.LIMIT_LEASE_FLUSH_MIN_S)
                if self.leases is not None:
                    self.leases.hear()

    def _pause_s(self) -> float:
        """Until the next look. A lease that cannot be spent further before it is reported does not wait for it."""
        if self.leases is not None and self.leases.is_waiting:
            return limits.LIMIT_LEASE_FLUSH_MIN_S
        if time.monotonic() - self._busy_at > limits.LIMIT_DECISIONS_IDLE_AFTER_S:
            return limits.LIMIT_DECISIONS_IDLE_S
        return limits.LIMIT_DECISIONS_FLUSH_S

    async def _pause(self, seconds: float) -> None:
        """Until somebody is in a hurry or the time is over; without the task that ``asyncio.wait_for`` makes."""
        if not self._is_wanted:
            timer = asyncio.get_running_loop().call_later(seconds, self._woken.set)
            try:
                await self._woken.wait()
            finally:
                timer.cancel()
        self._woken.clear()

    def _is_idle(self) -> bool:
        """True when a flush would do nothing: all that was recorded is safe elsewhere, and of no lease is news."""
        if self._tells_charges():  # those of the process before are in no ring any more
            return False
        return self.ring.is_flushed and not (self.leases is not None and self.leases.has_news)

    def _tells_charges(self) -> bool:
        """Whether charges are on their way to Kafka, and not safe yet."""
        return self.charges is not None and self.charges.under_way > 0

    def hurry(self) -> None:
        """A lease waits for its report: the next flush comes early."""
        self._is_wanted = True
        self._woken.set()

    def flush(self) -> None:
        """Sends what was recorded."""
        for _ in self._flush_parts():
            pass

    def _flush_parts(self) -> Iterator[None]:
        """The same by parts of less than a millisecond; decisions that are made between them wait for the next flush.

        What was sent before and is safe now, a restart does not read again.
        """
        if not (self._sink.under_way or self._taken is not None or self._tells_charges()):
            self.ring.flushed()
        until, self._is_degraded = self.ring.written, False
        self.take()
        self.send_part()
        while self.ring.taken < until:
            yield
            self.take()
            self.send_part()
        if self.leases is not None:
            self.leases.flush()
        now = time.monotonic()
        self.outcomes.degraded_s += (now - self._flushed_at) * self._is_degraded
        self._flushed_at = now

    def take(self) -> None:
        """Counts a part of what was recorded."""
        lost = self.ring.lost
        taken = self.ring.take(limits.LIMIT_DECISIONS_SENT_AT_ONCE)
        if self.charges is not None and self.leases is not None:
            self.charges.take(taken, self.ring.identities_of(len(taken)), _view(self._seeds), self.leases.by_slot)
            self.charges.flush()
        if self.leases is not None:
            self.leases.count(taken, self.ring.taken, is_whole=self.ring.lost == lost)
        if len(taken):
            self._is_degraded |= self.outcomes.count(taken)
            self._taken = taken

    def send_part(self) -> None:
        """Sends the part that was taken; after an overrun, which is taken whole, in several blocks."""
        taken, self._taken = self._taken, None
        if taken is not None:
            self._send(self._source, self.ring.taken - len(taken), taken, self._rows)

    def gap(self) -> int:
        """Decisions of this process that are lost to the stream: overwritten, not taken, or never arrived."""
        return self.lost + self.ring.lost + self._sink.lost

    def forget(self) -> None:
        """Makes room when there are very many rows, once nothing refers to them: numbers of rows are void after it."""
        if len(self._rows) < limits.LIMIT_KEYS_MAX:
            return
        self.flush()
        if self._sink.under_way or self._tells_charges():
            return
        self.ring.flushed()
        self._dictionary.seek(0)
        self._dictionary.truncate()
        self._dictionary.write(_lines(self._source) + b"\n")
        self._rows, self._known, self._seeds = Rows(), {}, array("Q")
        self.sampling.forget()

    def close(self) -> None:
        """Call it after the last flush."""
        self._dictionary.close()
        self.ring.close()

    def _send(self, source: str, first: int, taken: Records, rows: Rows) -> None:
        for at in range(0, len(taken), limits.LIMIT_DECISIONS_BLOCK_MAX):
            some = taken[at : at + limits.LIMIT_DECISIONS_BLOCK_MAX]
            # what a killed process left is all rows: its sums may be counted, its numbers tell
            sampling = None if rows is not self._rows or self.sampling.is_all else self.sampling
            mask = _OF_A_DECISION | LEFT_OUT * (sampling is not None)
            parts = self._numbering.split(some, rows.partitions, DECISIONS_PARTITIONS, mask)
            for partition, part in enumerate(parts):
                if count := len(part[0]) // _PLACE_BYTES:
                    block = self._encoded(source, first + at, part, rows, sampling)
                    if self._sink.send(partition, block):
                        self.recorded += count
                    else:
                        self.lost += count

    def _encoded(
        self, source: str, first: int, part: tuple[bytes, bytes, bytes], rows: Rows, sampling: Sampling | None
    ) -> bytes:
        places, records, numbers = part
        since = first + int.from_bytes(places[:_PLACE_BYTES], "little")
        until = first + int.from_bytes(places[-_PLACE_BYTES:], "little") + 1
        weights, totals, gap = b"", b"", self.gap() if rows is self._rows else 0
        if sampling is not None:
            decided = np.frombuffer(records, RECORD_TYPE)
            kept = sampling.split(decided, np.frombuffer(numbers, np.uint32).tolist())
            totals, weights = summed(decided[~kept.mask]).tobytes(), kept.weights.tobytes()
            decided = decided[kept.mask]
            decided["flags"] &= np.uint32(_OF_A_DECISION)
            records, places = decided.tobytes(), np.frombuffer(places, np.uint32)[kept.mask].tobytes()
        return encode(
            Block(
                source=source,
                first=first,
                places=places,
                rows=[],
                records=records,
                weights=weights,
                totals=totals,
                since=since,
                until=until,
                gap=gap,
            ),
            rows.encoded(numbers),
        )

    def _recover(self, ring_file: Path) -> int:
        """Sends what the process before had recorded and not flushed, and gives their number."""
        first, found, identities = left_behind(ring_file)
        if not len(found):
            return 0
        source, *lines = _dictionary_of(ring_file).read_bytes().splitlines()
        rows = [msgspec.json.decode(line, type=Row) for line in lines if line.endswith(b"]")]
        if self.charges is not None and self.leases is not None and len(identities):
            self.charges.recover(LeftBehind(first, found, identities), self.leases.slots_before, [r.key for r in rows])
        found = found[found["row"] < len(rows)]  # a row is written before the first record of it
        if len(found):
            left = Rows()
            for row in rows:
                left.add(row)
            self._send(msgspec.json.decode(source, type=str), first, found, left)
        recovered, self.recorded = self.recorded, 0
        return recovered


class Rows:
    """Rows of a dictionary, by number: as blocks have them, and where blocks with them go."""

    def __init__(self) -> None:
        self._encoded: list[bytes] = []
        self.partitions = array("B")

    def __len__(self) -> int:
        return len(self._encoded)

    def add(self, row: Row) -> None:
        """The next one."""
        self._encoded.append(encoded_row(row))
        self.partitions.append(partition_of(row.key))

    def encoded(self, numbers: bytes) -> bytes:
        """The list of these rows (uint32)."""
        return packed_list(len(numbers) // _PLACE_BYTES, joined(self._encoded, numbers))


def _view(numbers: array[int]) -> npt.NDArray[np.uint64]:
    return np.frombuffer(numbers, np.uint64) if numbers else np.empty(0, np.uint64)


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
