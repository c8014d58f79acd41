"""A gateway's keys under the policies in use: which counters govern each key, and the counters themselves.

Keys are valid until policies change or there are too many; then all of them become void at once, and whoever holds some
must drop them. Counters outlive that, with their leases.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from limiter.decide.access_lists import shadows_that_deny, verdict
from limiter.policy import keys
from limiter.policy.policies import PolicySet
from limiter.spending.buckets import Bucket
from limiter.spending.key_state import KeyState, durable_key
from schemas.limiter import limits
from schemas.limiter.limit_audit import auditing

if TYPE_CHECKING:
    from collections.abc import Callable

    from limiter.frames.frames import Named
    from limiter.policy.level import Level
    from limiter.stream.decisions import Recorder


class KeyCache:
    """Keys and counters of one limiter."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self.policies = PolicySet([], 0)
        self.is_lapsed = False  # the policies are too old to decide by
        self.keys: dict[Named, KeyState] = {}  # by tenant, user, route, and client if policies need it
        self.buckets: dict[tuple[str, int, str], Bucket] = {}
        self.active: set[Bucket] = set()  # buckets that hold a lease or have one to settle
        self._retired: list[dict[Any, Any]] = []  # void entries, freed bit by bit: no turn of the loop pays for all
        #: called when keys become void; whoever holds some must drop them
        self.when_void: set[Callable[[], None]] = set()

    def use(self, policies: PolicySet) -> None:
        """Replaces the policies. Leases of changed policies end."""
        self.policies = policies
        self.is_lapsed = False
        self._void()
        self._recorder.forget()  # every version has its own rows
        self._recorder.sampling.use(
            {(level.id_, level.version): auditing(level.policy.audit) for level in policies.all_levels()}
        )
        self._recorder.by_policy.use(policies.all_levels())
        levels = {(level.store_id, level.version): level for level in policies.all_levels()}
        for bucket in [*self.active]:
            level = levels.get((bucket.level.store_id, bucket.version))
            if level is None:
                bucket.end_lease()
            else:
                bucket.level = level  # the same terms, with the windows that its snapshot knows

    def lapse(self) -> None:
        """Stops spending leases, because the policies are too old, until ``use`` brings others."""
        self.is_lapsed = True
        self._void()
        for bucket in [*self.active]:
            bucket.end_lease()

    def place(self, tenant: str, user: str, route: str, client: str) -> Named:
        """The place of a key that is asked for with a client's address. Raises InvalidCommand."""
        network = self.policies.network_of(client)
        return (tenant, user, route) if network is None else (tenant, user, route, network)

    def found(self, place: Named) -> KeyState | None:
        """The key that a connection named with a client; from then on it has that name, too. Raises InvalidCommand."""
        key = self.keys.get(place)
        if key is None:
            tenant, user, route, client = place
            key = self.keys.get(self.place(tenant, user, route, client))
            if key is not None:
                self.keys[place] = key
        return key

    def key(self, place: Named) -> KeyState:
        """The key of a place, made if it is new. Raises InvalidCommand."""
        return self.keys.get(place) or self._made(place)

    def _made(self, place: Named) -> KeyState:
        parts = keys.key_parts(*place)
        if len(self.keys) >= limits.LIMIT_KEYS_MAX:
            self._void()
            self._recorder.forget()
        levels = self.policies.levels(parts)
        decided, counted = verdict(levels)
        buckets = tuple(self._bucket(level, parts) for level in counted)
        name = keys.limit_key(parts)
        row = self._recorder.row(name, buckets[0].id_, buckets[0].version) if buckets else 0
        lists = shadows_that_deny(levels)
        key = KeyState(name, buckets, row, leases=not self.is_lapsed, verdict=decided, lists=lists)
        self.keys[place] = key
        key.durable = durable_key(key, parts)
        return key

    def _bucket(self, level: Level, parts: dict[str, str]) -> Bucket:
        values = level.counted_by(parts)
        place = (level.store_id, level.version, values)
        bucket = self.buckets.get(place)
        if bucket is None:
            if len(self.buckets) >= limits.LIMIT_KEYS_MAX:
                self._make_room()
            bucket = self.buckets[place] = Bucket(level, values, self._recorder.leases, self.active)
        elif bucket.level is not level:
            bucket.level = level  # of the newest snapshot
        return bucket

    def _make_room(self) -> None:
        """Drops buckets that hold nothing; they are made again when they are asked for."""
        self._void()
        kept = {bucket.place: bucket for bucket in self.active if self.buckets.get(bucket.place) is bucket}
        self._retired.append(self.buckets.copy())
        self.buckets.clear()
        self.buckets.update(kept)

    def _void(self) -> None:
        self._retired.append(self.keys.copy())  # only counts of references change now
        self.keys.clear()
        for forget in self.when_void:
            forget()

    def let_go(self) -> int:
        """Frees a part of the void entries, at every turn of ``maintain``. Returns how many."""
        for retired in [*self._retired]:
            going = [*islice(reversed(retired), limits.LIMIT_KEYS_LET_GO)]
            for place in going:
                del retired[place]
            if not retired:
                self._retired.remove(retired)
            if going:
                return len(going)
        return 0
