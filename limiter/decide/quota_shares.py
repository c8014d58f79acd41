"""How much of a key's quota one Envoy holds, and when it needs more. Pure: no store, no stream, no clock of its own.

A share is a row of leases. Envoy spends the newest and reports afterwards, so it may always have spent more than it
reported, up to all that it was given. Therefore a report is taken from the oldest lease first. A lease is settled for
what was reported of it only after a report from when Envoy had surely stopped spending it. What is reported beyond all
leases was let through by Envoy's own rules, and must still be paid. Source: reference limiter 2.5, 2.6.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from schemas.limiter import limits

if TYPE_CHECKING:
    from limiter.spending.buckets import Bucket
    from limiter.store.store import CounterStore

_NS_PER_MS: Final = 1_000_000
_NS_PER_S: Final = 1_000_000_000
_DEMAND_SHARE: Final = 2  # a lease should last for twice what was asked for between two reports

Rule = Literal["tokens", "allow_all", "deny_all"]
#: the policies that an assignment was made under, by name and version
Governing = tuple[tuple[str, int], ...]


class Assignment(NamedTuple):
    """What an Envoy is told about one of its buckets, in whole seconds."""

    rule: Rule
    ttl_s: int
    tokens: int = 0


class QuotaLease:
    """A reservation at the store, given to an Envoy as a bucket that does not refill."""

    __slots__ = ("buckets", "ends_ns", "id_", "spent", "store", "tokens")

    def __init__(
        self, id_: bytes, buckets: tuple[Bucket, ...], tokens: int, ends_ns: int, store: CounterStore | None = None
    ) -> None:
        self.id_ = id_
        self.buckets = buckets  # the buckets that reserved it; none if it was given without the store
        self.store = store  # the store that knows of it
        self.tokens = tokens
        self.spent = 0  # as reported
        self.ends_ns = ends_ns  # when Envoy has surely stopped spending it

    @property
    def left(self) -> int:
        """How much may have been spent without a report."""
        return self.tokens - self.spent


class Share:
    """One bucket of one Envoy."""

    __slots__ = (
        "assigned_ns",
        "due_ns",
        "governing",
        "leases",
        "reported_ns",
        "rule",
        "seen",
        "spending",
        "unpaid",
        "until_ns",
        "used_ns",
    )

    def __init__(self, now_ns: int) -> None:
        self.leases: list[QuotaLease] = []  # oldest first, until they are settled
        self.spending: QuotaLease | None = None  # the last one that Envoy was told of
        self.unpaid = 0  # let through by Envoy's own rules, and not yet charged
        self.seen = 0  # requests of the last report
        self.used_ns = self.reported_ns = now_ns
        self.rule: Rule | None = None  # of the assignment that it has
        self.governing: Governing = ()
        self.assigned_ns = self.until_ns = 0  # when it was made, and until when it holds at Envoy
        self.due_ns = 0  # when to look again without a report

    def report(self, allowed: int, denied: int, now_ns: int) -> None:
        """Takes what Envoy let through and refused since its last report."""
        self.reported_ns = now_ns
        self.seen = allowed + denied
        if self.seen:
            self.used_ns = now_ns
        for lease in self.leases:
            part = min(lease.left, allowed)
            lease.spent += part
            allowed -= part
        self.unpaid = min(self.unpaid + (0 if self.rule == "allow_all" else allowed), limits.LIMIT_COST_MAX)

    def finished(self) -> list[QuotaLease]:
        """The leases that Envoy has fully reported; they leave the share."""
        over = [lease for lease in self.leases if not lease.left or lease.ends_ns <= self.reported_ns]
        self.leases = [lease for lease in self.leases if lease not in over]
        return over

    @property
    def has_moved(self) -> bool:
        """Whether a newer shard map replaced a store that reserved a lease."""
        return any(lease.store is not None and lease.store.replaced for lease in self.leases)

    def held(self, now_ns: int) -> int:
        """What may be left of the lease that Envoy spends now."""
        return self.spending.left if self.spending is not None and now_ns < self.until_ns else 0

    def wanted(self, capacity: int) -> int:
        """How large a lease the demand deserves; never so much that other Envoys find nothing."""
        largest = max(1, min(capacity // limits.LIMIT_RLQS_SHARE, limits.LIMIT_RLQS_TOKENS_MAX))
        return min(max(_DEMAND_SHARE * self.seen, limits.LIMIT_RLQS_TOKENS_MIN), largest)

    def is_idle(self, now_ns: int) -> bool:
        """Whether nobody has asked for long: then it is not renewed."""
        return now_ns - self.used_ns > limits.LIMIT_RLQS_IDLE_S * _NS_PER_S

    def needs(self, now_ns: int) -> bool:
        """After a report: whether Envoy needs more before the next ones."""
        if self.unpaid or self.rule is None:
            return True
        if self.is_idle(now_ns):
            return False
        if 2 * now_ns >= self.assigned_ns + self.until_ns:  # half of its time is over
            return True
        return self.spending is not None and self.held(now_ns) < min(self.seen, self.spending.tokens)

    def is_due(self, now_ns: int) -> bool:
        """Without a report: whether a refusal must be looked at again, or a lease in use is over (once)."""
        if now_ns < self.due_ns or self.is_idle(now_ns):
            return False
        return self.rule == "deny_all" or (self.rule == "tokens" and self.reported_ns > self.assigned_ns)

    def is_over(self, now_ns: int) -> bool:
        """Whether nobody uses it and nothing is left to settle, or Envoy no longer reports it."""
        silent = now_ns - self.reported_ns > limits.LIMIT_RLQS_IDLE_S * _NS_PER_S
        return silent or (self.is_idle(now_ns) and not self.leases)

    def assign(self, made: Assignment, governing: Governing, now_ns: int, lease: QuotaLease | None = None) -> None:
        """Notes what Envoy is told now; once it hears that, it spends nothing of earlier leases."""
        for older in self.leases:
            older.ends_ns = min(older.ends_ns, now_ns + limits.LIMIT_RLQS_MARGIN_MS * _NS_PER_MS)
        if lease is not None:
            self.leases.append(lease)
        self.rule, self.governing, self.spending = made.rule, governing, lease
        self.assigned_ns, self.until_ns = now_ns, now_ns + made.ttl_s * _NS_PER_S
        wait_ns = limits.LIMIT_RLQS_RETRY_MS * _NS_PER_MS if made.rule == "deny_all" else made.ttl_s * _NS_PER_S
        self.due_ns = now_ns + wait_ns


def told_ttl_s(ends_ns: int, now_ns: int) -> int:
    """How long Envoy may be told to spend what ends then: it hears it later and counts whole seconds."""
    return max(0, (ends_ns - now_ns - limits.LIMIT_RLQS_MARGIN_MS * _NS_PER_MS) // _NS_PER_S)
