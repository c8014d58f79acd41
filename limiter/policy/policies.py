"""Which policies govern a key: at every level (the parts that counters are kept by) the most specific scope."""

from __future__ import annotations

import math
import struct
import time
from bisect import bisect_right
from typing import TYPE_CHECKING, Final, NamedTuple

from limiter.policy import keys
from limiter.policy.denied_keys import DENIAL, is_denied
from limiter.policy.snapshot import SnapshotRefused
from schemas.calendar_windows import Calendar, CalendarWindows, windows_of
from schemas.client_network import V4_BITS, client_network, widened
from schemas.limiter import limits
from schemas.limiter.limit_policy import (
    ANY,
    KEY_PARTS,
    NETWORK,
    LimitPolicy,
    Scope,
    counted_by,
    further_limits_of,
    guard_of,
    spans_tenants,
)
from schemas.limiter.limit_terms import Terms, terms

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

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


def _level(policy: LimitPolicy, windows: dict[Calendar, CalendarWindows]) -> Level:
    its = None if policy.calendar is None else windows.get(policy.calendar)
    level = Level(policy, _terms_of(policy), policy.capacity // limits.LIMIT_LEASE_SHARE, its)
    further = [_level(one, windows) for one in further_limits_of(policy)]
    if (guard := guard_of(policy)) is not None:
        further.insert(0, _level(guard, windows))
        further[0].store_id = f"{level.store_id}/guard"
    level.beside = tuple(further)
    return level


def _terms_of(policy: LimitPolicy) -> Terms:
    computed = terms(policy)
    if computed is None:  # publication refuses it: left out, it would limit nobody
        raise PolicyWithoutTerms(f"The policy {policy.policy_id} has no exact terms: nothing of its snapshot is used.")
    return computed


def calendars_of(policies: Iterable[LimitPolicy], now_s: int) -> tuple[CalendarWindows, ...]:
    """The windows that a snapshot of these policies must have to be of use for as long as it may be used."""
    from_s, until_s = now_s - limits.LIMIT_CALENDAR_BEFORE_S, now_s + limits.LIMIT_CALENDAR_AHEAD_S
    return windows_of(named_calendars(policies), from_s, until_s)


def named_calendars(policies: Iterable[LimitPolicy]) -> set[Calendar]:
    """The calendars by which some limit of these policies counts."""
    found = {one.calendar for policy in policies for one in (policy, *further_limits_of(policy))}
    return {calendar for calendar in found if calendar is not None}


def _finest(policies: Sequence[LimitPolicy], prefixes: set[int]) -> tuple[int, int] | None:
    """The prefix lengths by which clients of IPv4 and of IPv6 have to be told apart; None when nobody asks."""
    counted = [policy for policy in policies if NETWORK in policy.per]
    if not counted and not prefixes:
        return None
    named = [bits for bits in prefixes if bits <= V4_BITS]
    return (
        max([policy.network_prefix_v4 for policy in counted] + named, default=0),
        max([*(policy.network_prefix_v6 for policy in counted), *prefixes], default=0),
    )


def _with_all(levels: list[Level]) -> list[Level]:
    return levels + [one for level in levels for one in level.beside]


class PolicySet:
    """All policies of one snapshot by scope: a key asks for its possible scopes, not for every policy.

    A call that does not say from where it comes is not governed by policies that name or count networks, and
    ``strangers``, a tenant and user whom nobody has proven, are governed by no other ones. Keys that are ``denied``
    (by digest) are refused, and no policy lets them pass. Raises PolicyWithoutTerms.
    """

    def __init__(
        self,
        policies: Sequence[LimitPolicy],
        revision: int,
        calendars: Sequence[CalendarWindows] = (),
        strangers: tuple[str, str] | None = None,
        denied: Sequence[str] = (),
    ) -> None:
        self.revision = revision
        self._calendars = calendars
        self._strangers = strangers
        self._denied = frozenset(denied)
        self._denial = (_level(DENIAL, {}),) if denied else ()
        windows = {found.calendar: found for found in calendars}
        self._by_scope: dict[Scope, list[Level]] = {}
        for policy in sorted(policies, key=lambda policy: policy.policy_id):  # ``levels`` takes the first
            self._by_scope.setdefault(policy.scope, []).append(_level(policy, windows))
        self._shapes = {tuple(getattr(scope, name) != ANY for name in KEY_PARTS) for scope in self._by_scope}
        self._by_id = {level.id_: level for level in reversed(self.all_levels())}  # a guard has its policy's id
        #: whether any of them is a concurrency limit
        self.has_permits = any(level.policy.algorithm == "concurrency" for level in self.all_levels())
        self._prefixes = {client_network(scope.network).prefixlen for scope in self._by_scope if scope.network != ANY}
        self._finest = _finest([level.policy for level in self.all_levels()], self._prefixes)

    @property
    def is_empty(self) -> bool:
        """Whether no key at all is governed."""
        return not self._by_scope and not self._denied

    def by_id(self, policy_id: str) -> LimitPolicy | None:
        """The policy of that name, or the further limit of one."""
        level = self._by_id.get(policy_id)
        return None if level is None else level.policy

    def only(self, wanted: Callable[[LimitPolicy], bool], strangers: tuple[str, str] | None = None) -> PolicySet:
        """The policies of the same snapshot that are wanted."""
        found = [level.policy for level in self._published() if wanted(level.policy)]
        return PolicySet(found, self.revision, self._calendars, strangers)

    def all_levels(self) -> list[Level]:
        """Every policy, the guards of their windows, and their further limits."""
        return _with_all([*self._published(), *self._denial])

    def _published(self) -> list[Level]:
        return [level for levels in self._by_scope.values() for level in levels]

    def levels(self, parts: dict[str, str]) -> tuple[Level, ...]:
        """The policies that must all allow, by level, then what holds beside them; of equal scope the least id.

        For a key that is denied, what refuses it.
        """
        if self._denied and is_denied(self._denied, parts):
            return self._denial
        found: dict[tuple[object, ...], Level] = {}
        is_stranger = (parts["tenant"], parts["user"]) == self._strangers
        for scope in self._scopes_of(parts):
            for level in self._by_scope.get(scope, ()):
                if NETWORK in level.policy.per and NETWORK not in parts:
                    continue
                if is_stranger and not level.policy.is_by_network:
                    continue
                place = (level.policy.per, level.policy.shadow)  # a shadow policy takes nobody's place
                held = found.get(place)
                if held is None or level.policy.scope.specificity > held.policy.scope.specificity:
                    found[place] = level
        return tuple(_with_all([level for _, level in sorted(found.items(), key=lambda pair: str(pair[0]))]))

    def limits(self, parts: dict[str, str]) -> tuple[Level, ...]:
        """What may refuse a key wherever it is asked for: real limits of all policies, without guards and lists."""
        real = (level for level in self.levels(parts) if not level.policy.shadow and not level.policy.is_by_network)
        return tuple(level for level in real if level.policy.is_counted and self._by_id[level.id_] is level)

    def shadows(self, parts: dict[str, str], told: Iterable[str] = ()) -> tuple[Level, ...]:
        """Policies in shadow mode that may refuse a key, wherever from, and those of whose refusals was told."""
        names = {level.id_ for level in (*self.levels(parts), *self.by_network(parts))}.union(told)
        found = (self._by_id[name] for name in sorted(names) if name in self._by_id)
        return tuple(level for level in found if level.policy.shadow and level.policy.algorithm != "unlimited")

    def by_network(self, parts: dict[str, str]) -> tuple[Level, ...]:
        """Counted policies, shadow ones too, that govern a key when it is asked for from some network.

        With a network in the parts: those that govern it from there, which may be lists. Without: the first of all.
        """
        if NETWORK in parts:
            return tuple(level for level in self.levels(parts) if level.policy.is_by_network)
        policies = (level for level in self._by_id.values() if level.policy.is_by_network and level.policy.is_counted)
        found = sorted((level for level in policies if level.policy.scope.covers(parts)), key=lambda level: level.id_)
        return tuple(found[: limits.LIMIT_USAGE_NETWORKS_MAX])

    def network_of(self, client: str) -> str | None:
        """The widest network in which no policy tells two clients apart; None while none is by network.

        Raises InvalidCommand for what is no address, whatever the policies are.
        """
        found = keys.network(client)
        if self._finest is None:
            return None
        return str(widened(client_network(found), *self._finest))

    def _scopes_of(self, parts: dict[str, str]) -> Iterator[Scope]:
        """Every scope that a policy for this key may have, of the shapes in use."""
        networks = {ANY}
        if NETWORK in parts:
            client = client_network(parts[NETWORK])
            networks |= {str(widened(client, bits, bits)) for bits in self._prefixes}
        tenant, user, route = parts["tenant"], parts["user"], parts["route"]
        for by_tenant, by_user, by_route in self._shapes:
            for network in networks:
                yield Scope(tenant if by_tenant else ANY, user if by_user else ANY, route if by_route else ANY, network)
