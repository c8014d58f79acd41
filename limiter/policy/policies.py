"""Which policies govern a key: at every level (the parts that counters are kept by) the most specific scope."""

from __future__ import annotations

from typing import TYPE_CHECKING

from limiter.policy import keys
from limiter.policy.denied_keys import DENIAL, is_denied
from limiter.policy.level import Level, level_of
from schemas.calendar_windows import CalendarWindows
from schemas.client_network import V4_BITS, client_network, widened
from schemas.limiter import limits
from schemas.limiter.limit_policy import (
    ANY,
    KEY_PARTS,
    NETWORK,
    LimitPolicy,
    Scope,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence


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
        self._denial = (level_of(DENIAL, {}),) if denied else ()
        windows = {found.calendar: found for found in calendars}
        self._by_scope: dict[Scope, list[Level]] = {}
        for policy in sorted(policies, key=lambda policy: policy.policy_id):  # ``levels`` takes the first
            self._by_scope.setdefault(policy.scope, []).append(level_of(policy, windows))
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
