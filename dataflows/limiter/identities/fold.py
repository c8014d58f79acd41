"""Charges under identities, compared with one another: which of them are to be given back. No clock and no I/O.

Rule: of the charges of one identity on one bucket, of one cost, the earliest stays; every other one within the time in
which a gateway recognises a repetition is found. A charge is known by its lease and identity, so blocks that come twice
or in any order find the same. Arrivals have the broker's time: what is as far apart as ``_KEPT_US`` is not compared.
A charge takes 32 bytes, in arrays sorted by identity: a dictionary would take ten times as much. A lease is named once
for some seconds, and counts as the charges that would take as many bytes: what is kept is bounded in both.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from schemas.limiter import limits

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dataflows.limiter.identities.reader import Arrived
    from limiter.stream.charges import ChargeBlock, ChargedLease

_WINDOW_US: Final = limits.LIMIT_IDENTITY_MS * 1_000
_KEPT_US: Final = _WINDOW_US + limits.LIMIT_REFUND_LATE_S * 1_000_000
_SEGMENT_US: Final = limits.LIMIT_REFUND_SEGMENT_S * 1_000_000
_LEASE_CHARGES: Final = 12  # take as many bytes as its name: two texts in a tuple, and a place in a dictionary
_TYPE: Final = np.dtype([("at", "<u8"), ("key", "<u8"), ("lease", "<u4"), ("cost", "<u4")])
_Kept = npt.NDArray[np.void]
_Prints = npt.NDArray[np.uint64]  # identity and bucket in one number, which is what is compared first


class IdentityCharge(NamedTuple):
    """One charge, in the order of time."""

    at_us: int
    lease_id: str
    key_hash: str
    identity: int
    limit_key: int
    cost: int


class IdentityRefund(NamedTuple):
    """A charge to give back, and the lease that stays charged in its place."""

    charge: IdentityCharge
    first_lease_id: str


class _Segment:
    """What arrived within some seconds, sorted."""

    def __init__(self, first_offset: int, arrived_us: int) -> None:
        self.first_offset = first_offset
        self.since_us = self.arrived_us = arrived_us
        self.leases: list[ChargedLease] = []
        self._places: dict[ChargedLease, int] = {}
        self.prints: _Prints = np.empty(0, np.uint64)
        self._charges: _Kept = np.empty(0, _TYPE)  # beside them: what is searched stands together

    @property
    def size(self) -> int:
        """In charges."""
        return len(self.prints) + _LEASE_CHARGES * len(self.leases)

    def add(self, blocks: Iterable[ChargeBlock]) -> _Prints:
        """Takes blocks in, sorting once; gives what their charges are compared by, sorted."""
        found, prints = [], []
        for block in blocks:
            columns = block.columns()
            if not len(columns):
                continue
            buckets = np.array([int(lease.key_hash[:16], 16) for lease in block.leases], np.uint64)
            prints.append(columns["identity"] ^ buckets[columns["lease"]])
            added = np.empty(len(columns), _TYPE)
            added["at"], added["key"], added["cost"] = columns["at"], columns["key"], columns["cost"]
            added["lease"] = self._named(block.leases)[columns["lease"]]
            found.append(added)
        if not found:
            return np.empty(0, np.uint64)
        self.prints = np.concatenate((self.prints, *prints))
        order = np.argsort(self.prints, kind="stable")
        self.prints = self.prints[order]
        self._charges = np.concatenate((self._charges, *found))[order]
        return np.sort(np.concatenate(prints))

    def _named(self, leases: Iterable[ChargedLease]) -> npt.NDArray[np.uint32]:
        """Where they stand among those of this segment."""
        places = []
        for lease in leases:
            place = self._places.setdefault(lease, len(self.leases))
            if place == len(self.leases):
                self.leases.append(lease)
            places.append(place)
        return np.array(places, np.uint32)

    def has(self, prints: _Prints) -> npt.NDArray[np.bool_]:
        """Which of them, sorted, it has."""
        places = np.minimum(np.searchsorted(self.prints, prints), len(self.prints) - 1)
        found: npt.NDArray[np.bool_] = self.prints[places] == prints
        return found

    def charges_of(self, prints: _Prints) -> Iterable[IdentityCharge]:
        """All charges that may be of these identities."""
        first, last = (np.searchsorted(self.prints, prints, side) for side in ("left", "right"))
        counts = last - first
        places = np.repeat(first, counts) + np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        for print_, charge in zip(self.prints[places].tolist(), self._charges[places].tolist(), strict=True):
            at_us, key, lease, cost = charge
            named = self.leases[lease]
            identity = print_ ^ int(named.key_hash[:16], 16)
            yield IdentityCharge(at_us, named.lease_id, named.key_hash, identity, key, cost)


class IdentityWindow:
    """The charges of one partition that may still meet another one."""

    def __init__(self) -> None:
        self._segments: deque[_Segment] = deque()
        self.forgotten = 0  # charges that made room before their time

    def take(self, arrived: Sequence[Arrived]) -> list[IdentityRefund]:
        """Folds blocks in, in the order of Kafka; gives what is found with them."""
        if not arrived:
            return []
        first_us, last_us = arrived[0].at_us, arrived[-1].at_us
        self._forget(first_us)
        if not self._segments or first_us - self._segments[-1].since_us >= _SEGMENT_US:
            self._segments.append(_Segment(arrived[0].offset, first_us))
        newest = self._segments[-1]
        newest.arrived_us = max(newest.arrived_us, last_us)
        prints = newest.add(each.block for each in arrived)
        if not len(prints):
            return []
        met = np.zeros(len(prints), np.bool_)
        for segment in self._segments:
            if segment is not newest and len(segment.prints):
                met |= segment.has(prints)
        mine = newest.prints
        again = np.unique(mine[1:][mine[1:] == mine[:-1]])
        return self._judged(np.union1d(prints[met], again[np.isin(again, prints)]))

    def resume_offset(self, next_offset: int) -> int:
        """Whoever reads from here on, knows as much as this."""
        return self._segments[0].first_offset if self._segments else next_offset

    def __len__(self) -> int:
        return sum(len(segment.prints) for segment in self._segments)

    def _judged(self, prints: _Prints) -> list[IdentityRefund]:
        by_request: dict[tuple[str, int, int], dict[str, IdentityCharge]] = {}
        for segment in self._segments if len(prints) else ():
            for charge in segment.charges_of(prints):
                request = (charge.key_hash, charge.identity, charge.cost)
                by_request.setdefault(request, {}).setdefault(charge.lease_id, charge)
        return [refund for charges in by_request.values() for refund in to_give_back([*charges.values()])]

    def _forget(self, now_us: int) -> None:
        while self._segments and now_us - self._segments[0].arrived_us > _KEPT_US:
            self._segments.popleft()
        while sum(segment.size for segment in self._segments) > limits.LIMIT_REFUND_CHARGES_MAX:
            self.forgotten += len(self._segments.popleft().prints)


def to_give_back(charges: Sequence[IdentityCharge]) -> list[IdentityRefund]:
    """Of the charges of one request: those that come within the window of one that stays charged."""
    found: list[IdentityRefund] = []
    stays: IdentityCharge | None = None
    for charge in sorted(charges):
        if stays is not None and charge.at_us - stays.at_us < _WINDOW_US:
            if charge.cost:
                found.append(IdentityRefund(charge, stays.lease_id))
        else:
            stays = charge
    return found
