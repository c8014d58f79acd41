"""What a gateway knows of one limit key: its buckets, whether leases of theirs decide it, and what an owner counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from limiter.policy.keys import key_hash
from limiter.spending.fields import KeyFields
from schemas.limiter.limit_audit import auditing

if TYPE_CHECKING:
    from limiter.policy.level import Level
    from limiter.spending.buckets import Bucket
    from limiter.spending.decision import Decision


class KeyState(KeyFields):
    """One limit key under one snapshot: its name, its buckets, and whether leases of theirs can decide it."""

    __slots__ = ("buckets", "durable", "leased", "lists", "real", "verdict")

    single: Bucket | None

    def __init__(
        self,
        name: str,
        buckets: tuple[Bucket, ...],
        row: int,
        *,
        leases: bool = True,
        verdict: Decision | None = None,
        lists: tuple[Level, ...] = (),
    ) -> None:
        self.name = name
        self.seed = key_hash(name)
        self.buckets = buckets
        real = tuple(bucket for bucket in buckets if not bucket.level.policy.shadow)
        self.real = buckets if len(real) == len(buckets) else real  # those that may refuse
        self.leased = leases and bool(buckets) and all(b.level.is_leased for b in buckets)
        self.lists = lists  # in shadow mode: each would refuse every request
        is_alone = len(real) == len(buckets) == 1 and self.leased and not lists
        self.single = buckets[0] if is_alone else None  # decides it alone
        self.verdict = verdict  # of policies that decide without counting: there are no buckets then
        if self.single is not None and auditing(self.single.level.policy.audit).is_sampled:
            self.single = None  # its identity draws whether a decision is a row: not on the fastest path
        self.durable: DurableKey | None = None  # where an owner counts a level
        self.row = row  # in the stream's dictionary, for the single bucket's policy


class DurableKey:
    """What a key with durable levels is made of."""

    __slots__ = ("key", "levels", "owned", "parts", "stored")

    def __init__(self, key: KeyState, parts: dict[str, str]) -> None:
        here = tuple(b for b in key.buckets if b.level.policy.consistency != "durable")
        there = tuple(b for b in key.buckets if b.level.policy.consistency == "durable")
        self.key = key
        self.parts = parts
        self.owned = KeyState(key.name, there, key.row, leases=False)
        self.stored = KeyState(key.name, here, key.row, leases=False) if here else None
        self.levels = tuple((b.id_, b.version, b.level.counted_by(parts)) for b in there)


def durable_key(key: KeyState, parts: dict[str, str]) -> DurableKey | None:
    """None where no level is counted by an owner."""
    return DurableKey(key, parts) if any(b.level.policy.consistency == "durable" for b in key.buckets) else None
