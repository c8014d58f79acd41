"""What a gateway knows of one bucket of the counter store: its keys there, its lease, and what was refused lately."""

from __future__ import annotations

import struct
from collections import deque
from typing import TYPE_CHECKING, Final

import xxhash

from limiter.ring import ALLOWED, APPROXIMATE, SLOT_SHIFT
from schemas import limits

if TYPE_CHECKING:
    from limiter.lease_accounts import LeaseAccount
    from limiter.policies import Level

_TERMS: Final = struct.Struct("<11d")
_SECOND_NS: Final = 1_000_000_000
_REFILL_NS: Final = 400_000_000  # a lease is to last about this long at the rate of the moment
_LEASED: Final = ALLOWED | APPROXIMATE  # the flags of a decision out of a lease
_LEASE_MIN: Final = 2  # a key that spends less between refills is asked for one by one


class Bucket:
    """One counter of one policy. A lease is a reservation at the store: spent here, settled there."""

    __slots__ = (
        "account",
        "asking",
        "deny_cost",
        "deny_until_ns",
        "granted",
        "held",
        "id_",
        "key_hash",
        "keys",
        "lease_ends_ns",
        "lease_flags",
        "lease_id",
        "left",
        "level",
        "plain_terms",
        "remaining",
        "reset_ms",
        "seen",
        "seen_since_ns",
        "settling",
        "version",
    )

    def __init__(self, level: Level, values: str) -> None:
        name = xxhash.xxh3_128_hexdigest(f"{level.store_id}\x1f{values}".encode())
        kind = "c" if level.policy.algorithm == "concurrency" else "b"
        self.key_hash = name
        self.keys = (f"rl:{{{name}}}:{kind}".encode(), f"rl:{{{name}}}:l".encode())
        self.level = level
        self.id_ = level.id_
        self.version = level.version
        self.plain_terms = packed_terms(level, 0)
        self.left = 0  # of the lease, to be spent now
        self.held = 0  # of the lease, to be spent when what was spent is reported
        self.account: LeaseAccount | None = None
        self.lease_flags = _LEASED
        self.asking = False  # a lease is being asked for
        self.granted = 0
        self.lease_id = b""
        self.lease_ends_ns = 0
        self.remaining = 0  # at the store, when it was last asked
        self.reset_ms = 0
        self.deny_until_ns = 0
        self.deny_cost = 0
        self.seen = 0  # cost asked for since ``seen_since_ns``
        self.seen_since_ns = 0
        #: leases that ended, with what was spent of them; one too many is charged whole by the store, in time
        self.settling: deque[tuple[bytes, int]] = deque(maxlen=limits.LIMIT_SETTLING_MAX)

    def wanted(self, now_ns: int) -> int:
        """How large a lease the demand of the moment deserves; 0 for a quiet key, and where leases are not allowed."""
        level = self.level
        if level.policy.consistency != "leased" or level.lease_cap < _LEASE_MIN:
            return 0
        elapsed = now_ns - self.seen_since_ns
        if elapsed <= 0 or elapsed > _SECOND_NS:  # no demand is remembered for longer
            return 0
        wanted = self.seen * _REFILL_NS // elapsed
        return min(wanted, limits.LIMIT_LEASE_SIZE_MAX) if wanted >= _LEASE_MIN else 0

    def saw(self, cost: int, now_ns: int) -> None:
        """Counts demand, over at most the last second or two."""
        if now_ns - self.seen_since_ns > _SECOND_NS:
            self.seen, self.seen_since_ns = 0, now_ns
        self.seen += cost

    def end_lease(self) -> None:
        """The lease is spent no more; what was spent of it waits to be settled."""
        if self.lease_id:
            spent = self.granted - self.left - self.held
            if self.account is not None and len(self.settling) == limits.LIMIT_SETTLING_MAX:
                self.account.drop(self.settling[0][0])  # it makes room: the store charges it whole
            self.settling.append((self.lease_id, spent))
            self.lease_id, self.left, self.held, self.granted, self.lease_ends_ns = b"", 0, 0, 0, 0
            self.lease_flags = _LEASED
            if self.account is not None:
                self.account.close(spent)
                self.account = None

    def use_slot(self, slot: int) -> None:
        """Decisions out of the lease are recorded with its place in the book of leases."""
        self.lease_flags = _LEASED | slot << SLOT_SHIFT


class KeyState:
    """One limit key under one snapshot: its name, its buckets, and the one bucket that can decide it alone."""

    __slots__ = ("buckets", "name", "row", "single")

    def __init__(self, name: str, buckets: tuple[Bucket, ...], row: int) -> None:
        self.name = name
        self.buckets = buckets
        self.row = row  # in the stream's dictionary, for the single bucket's policy
        real = [bucket for bucket in buckets if not bucket.level.policy.shadow]
        leased = bool(real) and all(b.level.policy.consistency == "leased" for b in buckets)
        self.single = buckets[0] if len(buckets) == 1 and leased else None


def packed_terms(level: Level, want: int) -> bytes:
    """The terms of a bucket as the script reads them."""
    t = level.terms
    ttl = max(1, limits.LIMIT_LEASE_MS * 1_000 // t.tick_us)
    return _TERMS.pack(
        t.algorithm,
        t.capacity,
        t.refill,
        t.period,
        t.slots,
        t.tick_us,
        level.version,
        want,
        level.lease_cap,
        ttl,
        t.strict + 2 * level.policy.shadow,
    )
