"""What a gateway knows of one bucket of the counter store: its keys there, its lease, and what was refused lately."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, Protocol

from limiter.spending.fields import BucketFields
from limiter.spending.ring import ALLOWED, APPROXIMATE, SLOT_SHIFT
from limiter.store.lease_clock import lease_clock_ns
from limiter.store.stored_bucket import bucket_hash, kind_of, store_keys
from schemas.limiter import limits

if TYPE_CHECKING:
    from limiter.policy.level import Level
    from limiter.store.store import CounterStore

_SECOND_NS: Final = 1_000_000_000
_HALF_NS: Final = _SECOND_NS // 2
_REFILL_NS: Final = 900_000_000  # a lease is to last nearly its life at the rate of the moment
_LEASED: Final = ALLOWED | APPROXIMATE  # the flags of a decision out of a lease
_LEASE_MIN: Final = 2  # a key that spends less between refills is asked for one by one
_REFILL_SHARE: Final = 4  # the next lease is asked for when a quarter of this one is left


class SpendAccount(Protocol):
    """Where what is spent of one lease is accounted for."""

    @property
    def slot(self) -> int:
        """Its place in the book of leases."""
        ...

    def hurry(self) -> None:
        """Somebody asked for more than may be spent before the next report."""

    def close(self, spent: int) -> None:
        """The lease is spent no more."""


class SpendAccounts(Protocol):
    """Where a gateway accounts for its leases (``limiter/stream/lease_accounts.py``)."""

    def open(self, bucket: Bucket, epoch: int) -> SpendAccount | None:
        """A lease was granted: it is written down before it is spent. None without a slot: then it must not be."""
        ...

    def settled(self, lease_id: bytes, is_known: bool) -> None:
        """The store was told; ``is_known`` when it still held the lease."""


class Bucket(BucketFields):
    """One counter of one policy. A lease is a reservation at the store: spent here, settled there."""

    __slots__ = (
        "account",
        "accounts",
        "active",
        "asking",
        "demand_counted",
        "deny_cost",
        "deny_retry_ns",
        "deny_until_ns",
        "granted",
        "held",
        "key_hash",
        "keys",
        "lease_id",
        "level",
        "place",
        "refill_from",
        "seen",
        "seen_since_ns",
        "settling",
        "store",
        "tenant",
    )

    def __init__(
        self, level: Level, values: str, accounts: SpendAccounts | None = None, active: set[Bucket] | None = None
    ) -> None:
        """``active`` has it from a lease on, until whoever tends them finds neither a lease nor one to settle."""
        self.key_hash = bucket_hash(level, values)
        self.keys = store_keys(self.key_hash, kind_of(level))
        self.level = level
        self.place = (level.store_id, level.version, values)
        self.tenant = level.tenant_of(values)  # "" when it counts over tenants
        self.store: CounterStore | None = None  # where it is, and its lease was granted
        self.id_ = level.id_
        self.version = level.version
        self.accounts = accounts  # None: what leases spend is not reported, and nothing of them is held back
        self.active: set[Bucket] = set() if active is None else active
        self.account: SpendAccount | None = None
        self.lease_flags = _LEASED  # of decisions out of the lease: they tell its place in the book of leases
        self.left = 0  # of the lease, to be spent now
        self.held = 0  # of the lease, to be spent when Kafka knows more of what was spent
        self.refill_below = 0  # what is left when ``_refill_soon`` of the limiter has something to do
        self.refill_from = 0  # what is unspent when the next lease is asked for; 0: it is asked for already
        self.asking = False  # a lease is being asked for
        self.granted = 0
        self.lease_id = b""
        self.lease_ends_ns = 0
        self.remaining = 0  # at the store, when it was last asked, and what is held back
        self.reset_ms = 0
        self.deny_until_ns = 0
        self.deny_cost = 0
        self.deny_retry_ns = 0  # when that cost may pass, -1 = never
        self.seen = 0  # cost asked for since ``seen_since_ns``, without what was spent of the lease meanwhile
        self.seen_since_ns = 0
        self.demand_counted = 0  # so much of what was spent of the lease is in ``seen``
        #: leases that ended, with what was spent of them; one too many is charged whole by the store, in time
        self.settling: deque[tuple[bytes, int]] = deque(maxlen=limits.LIMIT_SETTLING_MAX)

    @property
    def plain_terms(self) -> bytes:
        """The terms of its policy at this moment, without a lease."""
        return self.level.plain_terms

    @property
    def spent(self) -> int:
        """Of the lease."""
        return self.granted - self.left - self.held

    def wanted(self, now_ns: int) -> int:
        """How large a lease the demand of the moment deserves; 0 for a quiet key, and where leases are not allowed."""
        level = self.level
        if not level.is_leased or level.lease_cap < _LEASE_MIN:
            return 0
        elapsed = now_ns - self.seen_since_ns
        if elapsed <= 0 or elapsed > _SECOND_NS:  # no demand is remembered for longer
            return 0
        wanted = self.seen * _REFILL_NS // elapsed
        return min(wanted, limits.LIMIT_LEASE_SIZE_MAX) if wanted >= _LEASE_MIN else 0

    def wanted_next(self, now_ns: int) -> int:
        """How large a lease to ask for beside the one that is held; 0 when it would bring no more than is left."""
        self.saw(0, now_ns)
        want = min(self.wanted(now_ns), self.level.lease_cap - self.granted)
        return want if want > self.left + self.held else 0

    def saw(self, cost: int, now_ns: int) -> None:
        """Counts demand, over the last half to whole second."""
        spent = self.spent
        self.seen += cost + spent - self.demand_counted
        self.demand_counted = spent
        elapsed = now_ns - self.seen_since_ns
        if elapsed > 2 * _SECOND_NS:
            self.seen, self.seen_since_ns = cost, now_ns
        elif elapsed > _SECOND_NS:
            self.seen, self.seen_since_ns = self.seen * _HALF_NS // elapsed, now_ns - _HALF_NS

    def begin_lease(self, lease_id: bytes, granted: int, ends_ns: int, epoch: int) -> None:
        """A lease was granted. Of two the larger one is spent: the other one waits to be settled."""
        if granted <= self.left + self.held and lease_clock_ns() < self.lease_ends_ns:
            self.to_settle(lease_id, 0)
            return
        self.end_lease()
        self.active.add(self)
        self.lease_id, self.granted, self.left, self.lease_ends_ns = lease_id, granted, granted, ends_ns
        self.refill_below = self.refill_from = granted // _REFILL_SHARE
        if self.accounts is not None:
            self.account = self.accounts.open(self, epoch)
            if self.account is None:
                self.end_lease()
            else:
                self.lease_flags = _LEASED | self.account.slot << SLOT_SHIFT

    def end_lease(self) -> None:
        """The lease is spent no more; what was spent of it waits to be settled."""
        if self.lease_id:
            spent = self.spent
            self.to_settle(self.lease_id, spent)
            self.seen += spent - self.demand_counted
            self.remaining -= self.held
            self.lease_id, self.left, self.held, self.granted, self.lease_ends_ns = b"", 0, 0, 0, 0
            self.refill_below = self.refill_from = self.demand_counted = 0
            self.lease_flags = _LEASED
            if self.account is not None:
                self.account.close(spent)
                self.account = None

    def hold_back(self, spendable: int) -> None:
        """Of the lease so much may be spent now, and the rest when more is reported."""
        unspent = self.left + self.held
        self.left = min(unspent, spendable)
        self.remaining += unspent - self.left - self.held
        self.held = unspent - self.left
        self.refill_below = -(-self.left // 2) if self.held else self.refill_from

    def to_settle(self, lease_id: bytes, spent: int) -> None:
        """Tell the store at the next opportunity. The oldest of too many makes room: the store charges it whole."""
        if self.accounts is not None and len(self.settling) == limits.LIMIT_SETTLING_MAX:
            self.accounts.settled(self.settling[0][0], is_known=False)
        self.settling.append((lease_id, spent))
        self.active.add(self)
