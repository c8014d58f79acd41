"""The stream of leases, at a gateway: what was granted, and how much of it is spent so far.

Rule: of a lease at most ``unreported_max`` is spent beyond what Kafka has acknowledged. The rest is held back until a
report arrives there; without reports the key is asked for at the store, decision by decision. So the newest report
tells the spend to within that bound, whatever becomes of this host. Nothing here waits, and a decision does no work
for it: figures are taken from the bucket and from the ring when the ring is flushed.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

import numpy as np
import structlog
from msgspec import structs

from limiter.store.lease_clock import lease_clock_ns
from limiter.stream.charges import LeasesBySlot
from limiter.stream.lease_book import (
    ALLOWED_N,
    DENIED_N,
    LeaseBook,
    LeaseReport,
    encode_reports,
    partition_of,
    reports_left_behind,
    slots_left_behind,
    unreported_max,
)
from schemas.limiter import limits

if TYPE_CHECKING:
    from pathlib import Path

    from limiter.spending.buckets import Bucket
    from limiter.spending.ring import Records, Ring
    from limiter.stream.charges import Charges
    from limiter.stream.lease_book import ReportSink

_log: Final = structlog.get_logger(__name__)
_NEVER: Final = 2**62  # no lease spends so much


class LeaseAccount:
    """One lease until it is closed, settled, and known to Kafka."""

    __slots__ = ("_accounts", "acknowledged", "bucket", "is_over", "report", "said", "slot", "writes")

    def __init__(self, slot: int, report: LeaseReport, bucket: Bucket | None, accounts: LeaseAccounts) -> None:
        self._accounts = accounts
        self.slot = slot
        self.report = report
        self.bucket = bucket  # None when it is spent no more
        self.acknowledged = 0  # cost that Kafka knows of
        self.said = 0  # cost in the newest report that was sent
        self.writes = 0  # in the book
        self.is_over = bucket is None  # nothing more will be said of it

    def hurry(self) -> None:
        """Somebody asked for more than may be spent before the next report."""
        self._accounts.hurry(self)

    def close(self, spent: int) -> None:
        """The lease is spent no more."""
        self.bucket = None
        self.report.allowed_cost = spent
        self.report.closed = True
        self._accounts.changed(self)

    def free_more(self) -> None:
        """What may be spent now: the acknowledged spend and the bound beyond it."""
        bucket = self.bucket
        if bucket is not None:
            bucket.hold_back(max(0, self.acknowledged + unreported_max(bucket.granted) - bucket.spent))


class LeaseAccounts:
    """The leases of one gateway. Make it before the recorder: it reads the ring that a killed process left."""

    def __init__(
        self, book_file: Path, ring_file: Path, sink: ReportSink, slots: int = limits.LIMIT_LEASE_SLOTS
    ) -> None:
        self._sink = sink
        self._book = LeaseBook(book_file, slots)
        self._due = np.full(slots + 1, _NEVER)  # by slot, the spend at which the lease is reported
        self._ring: Ring
        self._wall_offset_ns = 0
        self._by_slot: dict[int, LeaseAccount] = {}
        self._by_lease: dict[bytes, LeaseAccount] = {}
        self._changed: dict[int, LeaseAccount] = {}
        self._under_way = 0
        self._heard_ns = 0
        self.unreported = 0  # leases that found no free slot
        self._over: deque[tuple[int, int]] = deque()  # slots to give back when these charges are safe
        self.charges: Charges | None = None  # told to other gateways, by lease
        self.by_slot = LeasesBySlot(slots)
        #: what slots were of a process that ended: its ring names them
        self.slots_before = slots_left_behind(book_file)
        left_behind = reports_left_behind(book_file, ring_file)
        for report in left_behind:
            if slot := self._book.take():
                self._changed[slot] = self._by_slot[slot] = LeaseAccount(slot, report, None, self)
                self._book.write(slot, report, 0)
        self.recovered = len(left_behind)

    @property
    def is_waiting(self) -> bool:
        """Reports are on their way: what is held back waits for them."""
        return self._under_way > 0

    @property
    def has_news(self) -> bool:
        """Something is to be reported at the next flush."""
        return bool(self._changed)

    def hear(self) -> None:
        """What arrived lets more be spent."""
        self._sink.poll()

    def may_open(self) -> bool:
        """Whether a lease could be reported: there is a slot, and Kafka answers."""
        silent_ns = lease_clock_ns() - self._heard_ns
        is_blocked = self._under_way > 0 and silent_ns > limits.LIMIT_LEASE_SILENCE_S * 1_000_000_000
        return self._book.has_room and not is_blocked

    def attach(self, ring: Ring, wall_offset_ns: int) -> None:
        """Decisions are in this ring from now on, and what a process before had left is in this book."""
        self._book.take_over()
        self._ring = ring
        self._wall_offset_ns = wall_offset_ns

    def open(self, bucket: Bucket, epoch: int) -> LeaseAccount | None:
        """A lease was granted: it is written down before it is spent. None without a slot: then it must not be."""
        slot = self._book.take()
        if not slot:
            self.unreported += 1
            return None
        report = LeaseReport(
            lease_id=bucket.lease_id.decode(),
            key_hash=bucket.key_hash,
            policy_id=bucket.id_,
            policy_version=bucket.version,
            epoch=epoch,
            terms=bucket.plain_terms,
            granted=bucket.granted,
            ends_at_us=(bucket.lease_ends_ns + self._wall_offset_ns) // 1_000,
            counted=self._ring.written,
            shard="" if bucket.store is None else bucket.store.shard.name,
        )
        account = LeaseAccount(slot, report, bucket, self)
        self._book.write(slot, report, account.writes)
        self.by_slot.put(slot, report)
        self._by_slot[slot] = self._by_lease[bucket.lease_id] = self._changed[slot] = account
        account.free_more()
        return account

    def settled(self, lease_id: bytes, is_known: bool) -> None:
        """The store was told; ``is_known`` when it still held the lease."""
        account = self._by_lease.pop(lease_id, None)
        if account is not None:
            account.report.settled = is_known
            account.is_over = True
            self.changed(account)

    def count(self, taken: Records, counted: int, *, is_whole: bool) -> None:
        """Adds decisions of the ring up, all before the number ``counted``; nothing was decided since.

        Not ``is_whole`` when the ring was overrun: then what buckets say of their leases is taken.
        """
        due = self._book.count(taken, self._due)
        if not is_whole:
            for slot, account in self._by_slot.items():
                if account.bucket is not None:
                    self._book.spent(slot, account.bucket.spent)
                    due.add(slot)
        self._book.write_counters(counted)
        for slot in due:
            self._changed[slot] = self._by_slot[slot]

    def hurry(self, account: LeaseAccount) -> None:
        """It is reported at the next flush, unless what it spent is on its way."""
        bucket = account.bucket
        if bucket is not None and bucket.spent > account.said:
            self._changed[account.slot] = account

    def flush(self) -> None:
        """Sends what changed; what cannot be sent stays changed."""
        self.hear()
        self._give_back()
        by_partition: dict[int, list[LeaseAccount]] = {}
        for account in self._changed.values():
            by_partition.setdefault(partition_of(account.report.key_hash), []).append(account)
        for partition, accounts in by_partition.items():
            for at in range(0, len(accounts), limits.LIMIT_LEASES_REPORTED_MAX):
                self._send(partition, accounts[at : at + limits.LIMIT_LEASES_REPORTED_MAX])

    def _send(self, partition: int, accounts: list[LeaseAccount]) -> None:
        reports = [self._figures(account) for account in accounts]
        sent = [(account, report.seq, report.allowed_cost) for account, report in zip(accounts, reports, strict=True)]
        if not self._under_way:
            self._heard_ns = lease_clock_ns()
        if not self._sink.send(partition, encode_reports(reports), lambda ok: self._told(sent, ok)):
            return
        self._under_way += 1
        for account, report in zip(accounts, reports, strict=True):
            self._changed.pop(account.slot, None)
            account.said = report.allowed_cost
            self._due[account.slot] = _due_at(account)

    def _figures(self, account: LeaseAccount) -> LeaseReport:
        """All there is to say of a lease now."""
        report, slot = account.report, account.slot
        report.seq += 1
        counters = self._book.counters
        return structs.replace(
            report,
            allowed_cost=report.allowed_cost if account.bucket is None else account.bucket.spent,
            allowed_n=report.allowed_n + int(counters[ALLOWED_N, slot]),
            denied_n=report.denied_n + int(counters[DENIED_N, slot]),
        )

    def _told(self, sent: list[tuple[LeaseAccount, int, int]], has_arrived: bool) -> None:
        self._under_way -= 1
        if not has_arrived:
            for account, _, _ in sent:
                if self._by_slot.get(account.slot) is account:
                    self._changed[account.slot] = account
                    self._due[account.slot] = _NEVER
            return
        self._heard_ns = lease_clock_ns()
        for account, seq, cost in sent:
            account.acknowledged = max(account.acknowledged, cost)
            account.free_more()
            if account.is_over and seq == account.report.seq and self._by_slot.get(account.slot) is account:
                del self._by_slot[account.slot]
                self._changed.pop(account.slot, None)
                self._over.append((0 if self.charges is None else self.charges.made, account.slot))
                self._give_back()

    def _give_back(self) -> None:
        """A killed process's charges are read by their slots: a slot is another lease's when they are in Kafka."""
        while self._over and (self.charges is None or self._over[0][0] <= self.charges.safe):
            self._book.give_back(self._over.popleft()[1])

    def changed(self, account: LeaseAccount) -> None:
        """Its report is written down, and sent at the next flush."""
        account.report.seq += 1
        account.writes += 1
        self._book.write(account.slot, account.report, account.writes)
        self._changed[account.slot] = account
        self._due[account.slot] = _NEVER

    def shut(self) -> None:
        """The file stays: the next process reports what is in it."""
        if self._by_slot:
            _log.info("leases_left_to_the_next_process", count=len(self._by_slot))
        self._book.close()


def _due_at(account: LeaseAccount) -> int:
    """The spend at which it is reported again: a quarter of what may be spent unreported, so that nothing waits."""
    return _NEVER if account.bucket is None else account.said + max(1, unreported_max(account.report.granted) // 4)
