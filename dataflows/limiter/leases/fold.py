"""Reports of leases folded into settlements, without a clock and without I/O.

When a lease is over no gateway's clock says: by Kafka's, its life after its first report arrived is.
A report is cumulative, so folding is a maximum: any order, any repetition and any replay of the same reports ends in
the same state. Of a lease that its gateway never closed at most ``unreported_max`` was spent beyond the newest report:
so much is assumed, and only the rest is released. Rule: granted = reported + assumed + released, for every settlement.
Source: reference limiter 2.6.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from msgspec import structs

from limiter.store.restoration import counts_for_us
from schemas.limiter import limits

if TYPE_CHECKING:
    from limiter.stream.lease_book import LeaseReport

#: by its gateway; by us, for its gateway; by us, without a last word of it; by the store, which no longer held it
Reason = Literal["returned", "closed", "expired", "charged_whole"]
_GRACE_US: Final = int(limits.LIMIT_LEASE_GRACE_S * 1_000_000)
_LIFE_US: Final = limits.LIMIT_LEASE_MS * 1_000  # no lease of a gateway lives longer


class LeaseSettlement(NamedTuple):
    """What became of one lease."""

    lease_id: str
    key_hash: str
    policy_id: str
    policy_version: int
    granted: int
    reported: int  # spent, as its gateway said
    assumed: int  # charged without a word: perhaps spent
    released: int  # not charged
    reason: Reason
    ended_at_us: int
    shard: str  # that granted it
    terms: bytes
    counts_until_us: int | None  # None: no store that lost it is told of it


def merged(one: LeaseReport, other: LeaseReport) -> LeaseReport:
    """What two reports of one lease say together."""
    return structs.replace(
        one,
        allowed_cost=max(one.allowed_cost, other.allowed_cost),
        allowed_n=max(one.allowed_n, other.allowed_n),
        denied_n=max(one.denied_n, other.denied_n),
        seq=max(one.seq, other.seq),
        closed=one.closed or other.closed,
        settled=one.settled or other.settled,
    )


def assumed(report: LeaseReport) -> int:
    """What has to be charged beyond what was reported."""
    return 0 if report.closed else report.unreported_max


def settlement(report: LeaseReport, *, held: bool) -> LeaseSettlement:
    """The settlement of a lease, when the store still ``held`` it as we asked, or its gateway had settled it."""
    unknown = assumed(report)
    reason: Reason = "closed" if report.closed else "expired"
    if report.settled:
        reason = "returned"
    elif not held:
        unknown, reason = report.granted - report.allowed_cost, "charged_whole"
    return LeaseSettlement(
        lease_id=report.lease_id,
        key_hash=report.key_hash,
        policy_id=report.policy_id,
        policy_version=report.policy_version,
        granted=report.granted,
        reported=report.allowed_cost,
        assumed=unknown,
        released=report.granted - report.allowed_cost - unknown,
        reason=reason,
        ended_at_us=report.ends_at_us,
        shard=report.shard,
        terms=report.terms,
        counts_until_us=report.ends_at_us + counts_us if (counts_us := counts_for_us(report.terms)) else None,
    )


class _Open(NamedTuple):
    """What is known of an open lease: granted before its first report was in Kafka, at ``first_us`` of its clock."""

    report: LeaseReport
    first_offset: int
    first_us: int

    @property
    def over_us(self) -> int:
        """By Kafka's clock it is not spent after this, whatever its gateway's clock says."""
        return self.first_us + _LIFE_US


class OpenLeases:
    """Leases of one partition that are not settled. Times are Kafka's."""

    def __init__(self) -> None:
        self._open: dict[str, _Open] = {}

    def take(self, report: LeaseReport, offset: int, appended_us: int) -> LeaseSettlement | None:
        """Folds one report in; gives the settlement of a lease that its gateway has settled."""
        known = self._open.get(report.lease_id)
        report = report if known is None else merged(known.report, report)
        if report.closed and report.settled:
            self.forget(report.lease_id)
            return settlement(report, held=True)
        first = (offset, appended_us) if known is None else (known.first_offset, known.first_us)
        self._open[report.lease_id] = _Open(report, *first)
        return None

    def due(self, watermark_us: int, count_max: int) -> list[LeaseReport]:
        """Leases that were over long enough before ``watermark_us``, up to which every report is folded in."""
        until_us = watermark_us - _GRACE_US
        found = sorted((o.over_us, lease_id) for lease_id, o in self._open.items() if o.over_us <= until_us)
        return [self._open[lease_id].report for _, lease_id in found[:count_max]]

    def over_us(self, lease_id: str) -> int:
        """When an open lease was over, or will be."""
        return self._open[lease_id].over_us

    def forget(self, lease_id: str) -> None:
        """It is settled."""
        self._open.pop(lease_id, None)

    def resume_offset(self, next_offset: int) -> int:
        """Whoever reads from here on, sees every report of an open lease."""
        return min((o.first_offset for o in self._open.values()), default=next_offset)

    def oldest_end_us(self) -> int | None:
        """When the oldest of them was over, or will be."""
        return min((o.over_us for o in self._open.values()), default=None)

    def __len__(self) -> int:
        return len(self._open)
