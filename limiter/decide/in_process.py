"""A limiter without any server: every decision is exact, by counters of this process alone.

For one process, for tests, and to begin with. Policies, keys and answers are those of ``Limiter``, so a program can
move to gateways without changing its policies. Nothing is streamed, and nothing outlives the process. Any thread may
ask, and none waits. Policies that need a store are refused here: permits and durable quotas.
"""

from __future__ import annotations

import threading
import time
from collections import Counter as Tally
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from limiter.decide.access_lists import shadows_that_deny, verdict
from limiter.decide.in_process_counters import counter_of
from limiter.policy import keys
from limiter.policy.calendars import calendars_of
from limiter.policy.policies import PolicySet
from limiter.spending.decision import UNLIMITED, Decision
from limiter.store.lease_clock import lease_clock_ns
from schemas import errors
from schemas.limiter import limits
from schemas.limiter.limit_policy import ANY, KEY_PARTS, LimitPolicy, as_policy
from schemas.limiter.operations import OPERATIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from limiter.decide.in_process_counters import Counter
    from limiter.policy.level import Level

_US_PER_S: Final = 1_000_000
_NS_PER_US: Final = 1_000
_US_PER_MS: Final = 1_000
_EVERY_KEY: Final = dict.fromkeys(KEY_PARTS, ANY)


def made_policy(document: dict[str, Any], policy_id: str) -> LimitPolicy:
    """The policy that ``POST /v1/policies`` makes of this payload; without a scope it covers every key.

    Raises InvalidCommand, also for what one process cannot keep: permits, and quotas that outlive it.
    """
    found, wrong = OPERATIONS["publish_policy"].normalize({"scope": _EVERY_KEY} | document)
    every = [document, *(found.get("further_limits") or ())]
    if any(one.get("algorithm") == "concurrency" for one in every) or document.get("consistency") == "durable":
        wrong = [*wrong, {"field": "payload", "reason": "needs a counter store: no single process can keep it"}]
    if wrong:
        raise errors.InvalidCommand(wrong)
    return as_policy(found, policy_id, 1)


def _now_us() -> Callable[[], int]:
    """The wall clock at the start, moved on by a clock that never goes back."""
    offset_ns = time.time_ns() - lease_clock_ns()
    return lambda: (offset_ns + lease_clock_ns()) // _NS_PER_US


class _Key(NamedTuple):
    """A key's counters, or what lists have decided about it."""

    name: str
    levels: Sequence[Level]
    counters: Sequence[Counter]
    verdict: Decision | None
    lists: tuple[Level, ...]  # in shadow mode


class InProcessLimiter:
    """``InProcessLimiter({"algorithm": "token_bucket", "capacity": 10, "refill_rate": 10}).check("t", "u", "/r")``.

    Guarantees those of ``exact`` policies, within this process. Counters and identities are bounded: past
    ``keys_max`` it drops those that hold nothing first, and counts any others in ``forgotten``.
    """

    def __init__(
        self,
        *policies: dict[str, Any] | LimitPolicy,
        keys_max: int = limits.LIMIT_KEYS_MAX,
        now_us: Callable[[], int] | None = None,
    ) -> None:
        self._now_us = _now_us() if now_us is None else now_us
        self._keys_max = keys_max
        self._lock = threading.Lock()
        self._counters: dict[tuple[str, str], Counter] = {}
        self._keys: dict[tuple[str, ...], _Key] = {}
        self._spent: dict[tuple[str, ...], Callable[[int, int], Decision | None]] = {}  # of keys with a single counter
        self._known: tuple[dict[tuple[str, str], tuple[int, Decision]], ...] = ({}, {})  # young and old
        self._turned_us = 0
        self.refused_in_shadow: Tally[str] = Tally()  # by shadow policy, how many requests it would have refused
        self.forgotten = 0  # counters that were dropped while in use
        self.use(*policies)

    def use(self, *policies: dict[str, Any] | LimitPolicy) -> None:
        """Replaces the policies; counts stay where policies of the same id and terms go on.

        Raises InvalidCommand.
        """
        made = [
            one if isinstance(one, LimitPolicy) else made_policy(one, f"pl_{place}")
            for place, one in enumerate(policies, start=1)
        ]
        with self._lock:
            self.policies = PolicySet(made, 1, calendars_of(made, self._now_us() // _US_PER_S))
            self._void()

    def holds_permits(self, *_key: str | None) -> bool:
        """Never: permits need a store."""
        return False

    def release(self, *_key_and_request: str | int | None) -> int:
        """Nothing is held."""
        return 0

    def in_asyncio(self) -> InAsyncio:
        """The same limiter with coroutines, for ``QuotaMiddleware``."""
        return InAsyncio(self)

    def check(
        self,
        tenant: str,
        user: str,
        route: str,
        cost: int = 1,
        request_id: str | None = None,
        network: str | None = None,
    ) -> Decision:
        """Decides and charges, as ``Limiter.check`` does. Raises InvalidCommand, KeyReused."""
        with self._lock:
            spent = self._spent.get((tenant, user, route))
            if spent is not None and request_id is None and network is None and cost.__class__ is int and cost > 0:
                told = spent(self._now_us(), cost)
                if told is not None:
                    return told
            return self._checked((tenant, user, route), network, cost, request_id)

    def _checked(self, place: tuple[str, ...], network: str | None, cost: int, request_id: str | None) -> Decision:
        if not 0 <= cost <= limits.LIMIT_COST_MAX:
            reason = f"must be from 0 to {limits.LIMIT_COST_MAX}"
            raise errors.InvalidCommand([{"field": "cost", "reason": reason}])
        if network is not None and (widest := self.policies.network_of(network)) is not None:
            place = (*place, widest)
        key, now = self._keys.get(place) or self._found(place), self._now_us()
        if not key.levels:
            self.refused_in_shadow.update(level.id_ for level in key.lists)
            return key.verdict or UNLIMITED
        if request_id is None:
            return self._decided(key, cost, now)
        if (known := self._before(key.name, request_id, now)) is not None:
            before, answer = known
            if before != cost:
                raise errors.KeyReused
            return answer._replace(duplicate=True)
        decided = self._decided(key, cost, now)
        if decided.allowed:
            self._known[0][key.name, request_id] = cost, decided
        return decided

    def _decided(self, key: _Key, cost: int, now: int) -> Decision:
        shadows = {level.id_ for level in key.lists}
        decided = _decided(key, cost, now, shadows)
        if shadows:
            self.refused_in_shadow.update(shadows)
        return decided

    def _before(self, name: str, request_id: str, now: int) -> tuple[int, Decision] | None:
        """The recent answer to an identity; each half of that time keeps a bounded number.

        Only who brings an identity comes here, maybe after a day: then the young half is over, too.
        """
        young, old = self._known
        age_us, life_us = now - self._turned_us, limits.LIMIT_IDENTITY_MS * _US_PER_MS
        if age_us > life_us or len(young) >= limits.LIMIT_ANSWERS_MAX:
            self._known, self._turned_us = ({}, {} if age_us > 2 * life_us else young), now
            young, old = self._known
        return young.get((name, request_id)) or old.get((name, request_id))

    def _found(self, place: tuple[str, ...]) -> _Key:
        parts = keys.key_parts(*place)
        levels = self.policies.levels(parts)
        (decided, counted), lists = verdict(levels), shadows_that_deny(levels)
        if len(self._keys) >= self._keys_max:
            self._void()
        name = "\x1f".join((keys.limit_key(parts), *place[len(KEY_PARTS) :]))
        found = [self._counter(level, level.counted_by(parts)) for level in counted]
        key = self._keys[place] = _Key(name, counted, found, decided, lists)
        if len(counted) == 1 and not (counted[0].policy.shadow or lists) and len(place) == len(KEY_PARTS):
            self._spent[place] = found[0].spent
        return key

    def _counter(self, level: Level, values: str) -> Counter:
        place = (level.store_id, values)
        counter = self._counters.get(place)
        if counter is None or counter.terms != level.terms:
            if counter is None and len(self._counters) >= self._keys_max:
                self._make_room()
            before = None if counter is None else counter.exact()
            counter = self._counters[place] = counter_of(level.terms, before, self._now_us())
        counter.id_, counter.version = level.id_, level.version
        return counter

    def _make_room(self) -> None:
        """Drops some counters that hold nothing; if none do, the one that was made first."""
        now, oldest = self._now_us(), [*islice(self._counters.items(), limits.LIMIT_IN_PROCESS_LOOK)]
        idle = [place for place, counter in oldest if counter.reset_ms(now) == 0 or counter.is_over(now)]
        for place, counter in oldest:
            del self._counters[place]
            if place not in idle:
                self._counters[place] = counter  # so it is looked at again after all others
        if not idle:
            del self._counters[oldest[0][0]]
            self.forgotten += 1
        self._void()  # keys refer to dropped counters

    def _void(self) -> None:
        self._keys.clear()
        self._spent.clear()


class InAsyncio:
    """An ``InProcessLimiter`` for asyncio middleware; it never waits."""

    def __init__(self, limiter: InProcessLimiter) -> None:
        self._limiter = limiter

    @property
    def policies(self) -> PolicySet:
        """The policies in use."""
        return self._limiter.policies

    async def check(
        self,
        tenant: str,
        user: str,
        route: str,
        cost: int = 1,
        request_id: str | None = None,
        network: str | None = None,
    ) -> Decision:
        """As ``InProcessLimiter.check``."""
        return self._limiter.check(tenant, user, route, cost, request_id, network)

    def holds_permits(self, *_key: str | None) -> bool:
        """Never: permits need a store."""
        return False

    async def release(self, *_key_and_request: str | int | None) -> int:
        """Nothing is held."""
        return 0


def _decided(key: _Key, cost: int, now: int, shadows: set[str]) -> Decision:
    """Charges all counters or none, and shadow policies where it fits. The governing policy is chosen as at the store.

    Adds to ``shadows`` the policies that would have refused it.
    """
    fits = [counter.available(now) >= cost for counter in key.counters]
    allowed = all(fit or level.policy.shadow for level, fit in zip(key.levels, fits, strict=True))
    least: tuple[int, Level, Counter, int] | None = None
    for level, counter, fit in zip(key.levels, key.counters, fits, strict=True):
        if allowed and fit:
            counter.take(now, cost)
        if level.policy.shadow:
            if not fit:
                shadows.add(level.id_)
            continue
        retry_us = 0 if fit else counter.retry_us(now, cost)
        weight = -(2**62) if retry_us < 0 else -retry_us if retry_us else counter.available(now)
        if least is None or weight < least[0]:
            least = (weight, level, counter, retry_us)
    if least is None:
        return UNLIMITED  # only shadow policies govern the key
    _, level, counter, retry_us = least
    retry_ms = -1 if retry_us < 0 else -(-retry_us // _US_PER_MS)
    left = max(0, counter.available(now))
    return Decision(allowed, left, counter.reset_ms(now), retry_ms, level.id_, level.version)
