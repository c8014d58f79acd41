"""The counters of durable quotas, and what was charged to them, as their rows keep them.

A counter keeps, beside what it holds, an earlier state of itself (``base``): from there the charges that are stored
lead to what it holds, however long ago older ones were pruned. ``millrace check`` computes it again. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from schemas.limiter.exact_counter import ExactCounter


class Charge(Struct, kw_only=True):
    """One consumed identity: what it took from which counters, and when."""

    identity: str
    cost: int
    charged_at: int  # microseconds
    version: int  # of the tenant's quotas with this charge
    counters: list[tuple[str, str]]  # policy and the values that it counts by, as rows have them
    refunded_version: int | None = None
    refunded_at: int | None = None


class OwnedCounter(Struct, kw_only=True):
    """One counter of one policy, as the owner of its tenant stores it."""

    policy_version: int  # the newest that decided: its terms hold
    counter: ExactCounter
    base: ExactCounter
    base_version: int  # of the tenant's quotas when ``base`` was taken: later charges lead from it to ``counter``
    base_at: int  # microseconds

    def replayed(self, charges: Iterable[Charge]) -> ExactCounter:
        """What the charges of this counter make of its base: ``counter``, or the books are wrong."""
        done: list[tuple[int, int, Charge]] = []
        for charge in charges:
            done.append((charge.version, charge.charged_at, charge))
            if charge.refunded_version is not None and charge.refunded_at is not None:
                done.append((charge.refunded_version, charge.refunded_at, charge))
        counter = self.base.copy()
        for version, at, charge in sorted(done, key=lambda row: row[0]):
            if version <= self.base_version:
                continue
            if version == charge.version:
                counter.charge(at, charge.cost)
            else:
                counter.give_back(at, charge.charged_at, charge.cost)
        return counter
