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
from typing import TYPE_CHECKING, Final

import numpy as np

from limiter.policy.keys import identity_hash
from limiter.spending.ring import (
    ALLOWED,
    ALSO,
    APPROXIMATE,
    DEGRADED,
    DUPLICATE,
    SHADOW,
    SLOT_SHIFT,
    LeftBehind,
    Records,
    Ring,
    left_behind,
)
from limiter.store.lease_clock import lease_clock_ns
from limiter.stream.block_packer import Origin, Packer
from limiter.stream.blocks import Row
from limiter.stream.by_policy import ByPolicy
from limiter.stream.outcomes import Outcomes
from limiter.stream.row_dictionary import RowDictionary, Rows, left_rows
from limiter.stream.sampling import Sampling
from schemas.limiter import limits

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    import numpy.typing as npt

    from limiter.policy.level import Level
    from limiter.spending.buckets import Bucket
    from limiter.spending.decision import Decision
    from limiter.stream.block_packer import BlockSink
    from limiter.stream.charges import Charges
    from limiter.stream.lease_accounts import LeaseAccounts

    Shadow = Bucket | Level  # that would refuse a request, if its policy were not in shadow mode

_US: Final = 1_000
_LOOK_S: Final = 0.001  # between two looks whether all was sent


class Recorder:
    """Collects decisions of one process in a ring, and hands them on as blocks.

    The ring and the dictionary of its rows are files: together they outlive the process.
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
        self._taken: Records | None = None  # out of the ring, and not sent yet
        self._is_degraded = False  # the failure mode decided some of what this flush has taken
        self._woken = asyncio.Event()
        self._is_wanted = False
        self._busy_at = time.monotonic()
        self._packer = Packer(sink)
        self.sampling = Sampling()
        self.outcomes = Outcomes()
        self.by_policy = ByPolicy()
        self._flushed_at = time.monotonic()
        #: turns the clock of leases into time since the epoch: one clock for all records, and it never goes back
        self.wall_offset_ns = time.time_ns() - lease_clock_ns()
        self.ring = Ring(ring_file, records, identities=self.charges is not None)
        self.recovered = self._recover(ring_file)
        if leases is not None:
            leases.charges = self.charges
            leases.attach(self.ring, self.wall_offset_ns)
        self.ring.take_over()
        self._dictionary = RowDictionary(ring_file, self._source)

    def row(self, key: str, policy_id: str, policy_version: int) -> int:
        """The number of a row; a new one is written down first."""
        row = Row(key, policy_id, policy_version)
        number = self._dictionary.number(row)
        if number is None:
            number = self._dictionary.add(row)
            self.sampling.add_row(policy_id, policy_version)
            self.by_policy.add_row(policy_id, policy_version)
        return number

    def record(
        self,
        key: str,
        cost: int,
        decided: Decision,
        leased: Sequence[Bucket] = (),
        *,
        identity: str | None = None,
        shadows: Sequence[Shadow] = (),
    ) -> None:
        """Notes one decision, and the buckets whose leases made it: one record for each lease that it spent of.

        ``identity`` draws whether it is in the sample of its policy; without one its number does. ``shadows``: what
        would have refused it, if it were not in shadow mode; a record for each policy.
        """
        row = self.row(key, decided.policy_id, decided.policy_version)
        now_us = (lease_clock_ns() + self.wall_offset_ns) // _US
        flags = flags_of(decided) | self.sampling.mark(row, identity, self.ring.written)
        charged: int | None = None
        slots = [bucket.account.slot << SLOT_SHIFT for bucket in leased if bucket.account is not None]
        if slots and identity is not None and self.charges is not None and decided.allowed:
            charged = identity_hash(self._dictionary.seeds[row], identity)
        self.ring.put(row, cost, flags | slots[0] if slots else flags, decided.remaining, now_us, charged)
        for slot in slots[1:]:
            self.ring.put(row, cost, flags | slot | ALSO, decided.remaining, now_us, charged)
        if shadows and not decided.duplicate:
            for policy_id, version in {(shadow.id_, shadow.version) for shadow in shadows}:  # a guard has its policy's
                self.outcomes.would_refuse(policy_id)
                self.ring.put(self.row(key, policy_id, version), cost, SHADOW | ALSO, 0, now_us)

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
                    # decisions that came meanwhile wait for a part, not for all: once is before the loop looks for them
                    await asyncio.sleep(0)
                    await asyncio.sleep(0)
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
            self.charges.take(
                taken, self.ring.identities_of(len(taken)), _view(self._dictionary.seeds), self.leases.by_slot
            )
            self.charges.flush()
        if self.leases is not None:
            self.leases.count(taken, self.ring.taken, is_whole=self.ring.lost == lost)
        if len(taken):
            self._is_degraded |= self.outcomes.count(taken)
            self.by_policy.count(taken)
            self._taken = taken

    def send_part(self) -> None:
        """Sends the part that was taken; after an overrun, which is taken whole, in several blocks."""
        taken, self._taken = self._taken, None
        if taken is not None:
            # a sample of all is no sample: then blocks have no weights
            origin = Origin(
                self._source, self._dictionary.rows, None if self.sampling.is_all else self.sampling, self.gap
            )
            self._packer.send(origin, self.ring.taken - len(taken), taken)

    @property
    def recorded(self) -> int:
        """Decisions that the sink has taken as rows, or as parts of sums."""
        return self._packer.sent

    @property
    def refused(self) -> int:
        """Decisions that the sink had no room for."""
        return self._packer.refused

    def gap(self) -> int:
        """Decisions of this process that are lost to the stream: overwritten, not taken, or never arrived."""
        return self._packer.refused + self.ring.lost + self._sink.lost

    def forget(self) -> None:
        """Makes room when there are very many rows, once nothing refers to them: numbers of rows are void after it.

        What was sent has to be safe first: a restart would not know of what it is. Some of it is always under way while
        decisions never pause, so with twice as many rows it is waited for, for a moment.
        """
        rows = len(self._dictionary.rows)
        if rows < limits.LIMIT_KEYS_MAX:
            return
        self.flush()
        if rows >= 2 * limits.LIMIT_KEYS_MAX:
            self._await_sent(time.monotonic() + limits.LIMIT_ROWS_WAIT_S)
        if self._sink.under_way or self._tells_charges():
            return
        self.ring.flushed()
        self._dictionary.forget()
        self.sampling.forget()
        self.by_policy.forget()

    def _await_sent(self, until: float) -> None:
        """The loop stands still meanwhile: on its way nothing would ever be all there."""
        while (self._sink.under_way or self._tells_charges()) and time.monotonic() < until:
            time.sleep(_LOOK_S)
            if self.charges is not None:
                self.charges.flush()  # hears what arrived

    def close(self) -> None:
        """Call it after the last flush."""
        self._dictionary.close()
        self.ring.close()

    def _recover(self, ring_file: Path) -> int:
        """Sends what the process before had recorded and not flushed, and gives their number."""
        first, found, identities = left_behind(ring_file)
        if not len(found):
            return 0
        source, rows = left_rows(ring_file)
        if self.charges is not None and self.leases is not None and len(identities):
            self.charges.recover(LeftBehind(first, found, identities), self.leases.slots_before, [r.key for r in rows])
        # all of it as rows: its sums may be counted already, its numbers tell
        self._packer.send(Origin(source, Rows(rows)), first, found[found["row"] < len(rows)])
        recovered, self._packer.sent = self._packer.sent, 0
        return recovered


def _view(numbers: array[int]) -> npt.NDArray[np.uint64]:
    return np.frombuffer(numbers, np.uint64) if numbers else np.empty(0, np.uint64)


def flags_of(d: Decision) -> int:
    """The flags of a record."""
    return ALLOWED * d.allowed | DEGRADED * d.degraded | DUPLICATE * d.duplicate | APPROXIMATE * d.approximate
