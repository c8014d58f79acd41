"""One policy as gateways compute with it: its terms as the script of the store reads them, and what holds beside it."""

from __future__ import annotations

import math
import struct
import time
from bisect import bisect_right
from typing import TYPE_CHECKING, Final, NamedTuple

from limiter.policy.snapshot import SnapshotRefused
from schemas.calendar_windows import Calendar, CalendarWindows
from schemas.client_network import client_network, widened
from schemas.limiter import limits
from schemas.limiter.limit_policy import (
    ANY,
    NETWORK,
    LimitPolicy,
    counted_by,
    further_limits_of,
    guard_of,
    spans_tenants,
)
from schemas.limiter.limit_terms import Terms, terms

if TYPE_CHECKING:
    from collections.abc import Mapping

_TERMS: Final = struct.Struct("<11d")
_LENT: Final = 4  # of the flags
_BOUNDARIES_MIN: Final = 3  # of two windows
_REFUSED: Final = (-1, 0, 1, 1)  # no algorithm of the script, as long as no window is known
_NEVER_YET: Final = (math.inf, math.inf)
_ALWAYS: Final = (-math.inf, math.inf)
_US_PER_S: Final = 1_000_000


class PolicyWithoutTerms(SnapshotRefused):
    """A policy that nobody can count by; the message names it."""

    code = "policy_without_terms"


class LeaseTerms(NamedTuple):
    """The terms that a lease was granted under, as the script reads them."""

    algorithm: int
    capacity: int
    refill: int
    period: int
    slots: int
    tick_us: int
    version: int
    want: int
    lease_cap: int
    ttl: int  # ticks of a lease
    flags: int


def unpacked_terms(packed: bytes) -> LeaseTerms:
    """What ``Level.packed_terms`` says."""
    return LeaseTerms(*map(int, _TERMS.unpack(packed)))


class Level:
    """One policy as gateways compute with it."""

    __slots__ = (
        "_asked",
        "_plain",
        "_true",
        "_windows",
        "beside",
        "id_",
        "lease_cap",
        "policy",
        "store_id",
        "terms",
        "version",
    )

    def __init__(
        self, policy: LimitPolicy, computed: Terms, lease_cap: int, windows: CalendarWindows | None = None
    ) -> None:
        self.policy = policy
        self.terms = computed
        self.lease_cap = lease_cap
        self.id_ = policy.policy_id
        self.version = policy.version
        # a shadow policy counts for itself: it never takes from a real quota
        self.store_id = f"{policy.policy_id}/shadow" if policy.shadow else policy.policy_id
        self.beside: tuple[Level, ...] = ()  # what holds whenever this level does
        self._windows = windows
        self._true = _NEVER_YET  # from when until when ``_asked`` is
        self._asked = _REFUSED
        self._plain = b""

    @property
    def plain_terms(self) -> bytes:
        """The terms as the script reads them, without a lease."""
        return self.terms_at(self._now_s())

    def terms_at(self, now_s: float) -> bytes:
        """The same at a moment: a calendar has two windows then, so that the store may be in the next one already.

        Past the last boundary they stay the last ones: the store refuses them, and the failure mode decides.
        """
        if not self._true[0] <= now_s < self._true[1]:
            self._turn(now_s)
            self._plain = self._packed(0, self.lease_cap, limits.LIMIT_LEASE_MS, 0)
        return self._plain

    def packed_terms(self, want: int) -> bytes:
        """The terms of this moment with the size of the lease that is wanted."""
        self.terms_at(self._now_s())
        return self._packed(want, self.lease_cap, limits.LIMIT_LEASE_MS, 0)

    def lent_terms(self, want: int) -> bytes:
        """The same for a lease that an Envoy is to hold: longer, and of any part of the quota."""
        self.terms_at(self._now_s())
        return self._packed(want, self.policy.capacity, limits.LIMIT_RLQS_LEASE_MS, _LENT)

    def _now_s(self) -> float:
        return 0 if self._windows is None else time.time()

    def _turn(self, now_s: float) -> None:
        """What says which windows there are at a moment; of no calendar, what always does."""
        t, found = self.terms, () if self._windows is None else self._windows.boundaries
        self._true = _ALWAYS
        if t.calendar is None:
            self._asked = (t.algorithm, t.refill, t.period, t.slots)
        elif len(found) >= _BOUNDARIES_MIN:
            late_s, last = limits.LIMIT_CALENDAR_SKEW_S, len(found) - _BOUNDARIES_MIN
            at = min(max(bisect_right(found, now_s - late_s) - 1, 0), last)
            begin, end, next_end = (boundary_s * _US_PER_S // t.tick_us for boundary_s in found[at : at + 3])
            self._asked = (t.algorithm, begin, end - begin, next_end - end)
            self._true = (
                found[at] + late_s if at else -math.inf,
                found[at + 1] + late_s if at < last else math.inf,
            )

    def _packed(self, want: int, lease_cap: int, lease_ms: int, flags: int) -> bytes:
        t = self.terms
        ttl = max(1, lease_ms * 1_000 // t.tick_us)
        flags += t.strict + 2 * self.policy.shadow
        algorithm, refill, period, slots = self._asked
        return _TERMS.pack(
            algorithm,
            t.capacity,
            refill,
            period,
            slots,
            t.tick_us,
            self.version,
            want,
            lease_cap,
            ttl,
            flags,
        )

    @property
    def is_leased(self) -> bool:
        """Whether leases may decide it. In shadow mode nothing depends on it: no request goes to the store for it."""
        policy = self.policy
        if policy.consistency == "leased":
            return True
        return policy.shadow and policy.consistency == "exact" and policy.algorithm != "concurrency"

    def counted_by(self, parts: dict[str, str]) -> str:
        """The values of a key that this policy keeps one counter for."""
        return counted_by(self.policy, parts)

    def network_from(self, parts: dict[str, str]) -> str | None:
        """From where requests are counted, or decided, by this policy; None: from anywhere, or the parts do not say."""
        if NETWORK in self.policy.per and NETWORK in parts:
            client = client_network(parts[NETWORK])
            return str(widened(client, self.policy.network_prefix_v4, self.policy.network_prefix_v6))
        return None if self.policy.scope.network == ANY else self.policy.scope.network

    def tenant_of(self, values: str) -> str:
        """The tenant that a counter of this policy belongs to; "" when it counts over tenants."""
        if spans_tenants(self.policy):
            return ""
        # of what counters are kept by, the tenant is the first
        return values.partition("\x1f")[0] if "tenant" in self.policy.per else self.policy.scope.tenant


def level_of(policy: LimitPolicy, windows: Mapping[Calendar, CalendarWindows]) -> Level:
    """A policy with what holds beside it, by the windows that are known. Raises PolicyWithoutTerms."""
    its = None if policy.calendar is None else windows.get(policy.calendar)
    level = Level(policy, _terms_of(policy), policy.capacity // limits.LIMIT_LEASE_SHARE, its)
    further = [level_of(one, windows) for one in further_limits_of(policy)]
    if (guard := guard_of(policy)) is not None:
        further.insert(0, level_of(guard, windows))
        further[0].store_id = f"{level.store_id}/guard"
    level.beside = tuple(further)
    return level


def _terms_of(policy: LimitPolicy) -> Terms:
    computed = terms(policy)
    if computed is None:  # publication refuses it: left out, it would limit nobody
        raise PolicyWithoutTerms(f"The policy {policy.policy_id} has no exact terms: nothing of its snapshot is used.")
    return computed
