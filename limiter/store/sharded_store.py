"""All shards as one counter store: a tenant's buckets are asked for where the newest map says that they are.

With one shard it costs one call more than that shard. A map that is not newer changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog

from limiter.policy.shard_map import ONE_SHARD, url_of
from limiter.store.lease_clock import lease_clock_ns
from limiter.store.store import CounterStore, StoreNotAsked
from schemas.limiter import limits

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from limiter.policy.shard_map import Shard, ShardMap
    from limiter.store.store import Counted
    from limiter.store.stored_bucket import PlacedBucket

_NS_PER_MS: Final = 1_000_000
_log: Final = structlog.get_logger(__name__)


class ShardedStore:
    """The seam between a limiter and its shards. Until the first map comes there is one: the configured store."""

    def __init__(self, url: str, *, timeout_s: float = limits.LIMIT_STORE_TIMEOUT_S, encrypted: bool = False) -> None:
        self._url = url
        self._encrypted = encrypted  # no shard is told our password where it is read on the way
        self._timeout_s = timeout_s
        self._on_stale: Callable[[], None] | None = None
        self._homes: dict[str, CounterStore] = {}  # by tenant
        self._spanning: set[str] = set()  # policies that were told of
        self.map = ONE_SHARD
        self.stores = {shard.name: self._opened(shard) for shard in ONE_SHARD.shards}
        self._only: CounterStore | None = self.stores[ONE_SHARD.shards[0].name]
        self.refused_calls_before = 0  # by shards that newer maps replaced

    def use(self, shard_map: ShardMap) -> None:
        """A newer map from now on. Shards whose epoch or server changed are connected to anew, at once."""
        if shard_map.version <= self.map.version:
            return
        held, self.stores = self.stores, {}
        for shard in shard_map.shards:
            before = held.get(shard.name)
            kept = before is not None and (before.url, before.epoch) == (self._url_of(shard), shard.epoch)
            store = before if before is not None and kept else self._opened(shard)
            if shard.promoted > (0 if before is None else before.shard.promoted):
                store.learning_until_ns = lease_clock_ns() + limits.LIMIT_LEASE_MS * _NS_PER_MS
            elif before is not None:
                store.learning_until_ns = before.learning_until_ns
            self.stores[shard.name] = store
        self.map = shard_map
        self._homes.clear()
        self._only = next(iter(self.stores.values())) if len(self.stores) == 1 else None
        for before in held.values():
            if before not in self.stores.values():
                before.replace()
                self.refused_calls_before += before.refused_calls
        _log.info("shard_map_in_use", version=shard_map.version, epochs={s.name: s.epoch for s in shard_map.shards})

    def _url_of(self, shard: Shard) -> str:
        return url_of(shard.address, self._url, encrypted=self._encrypted)

    def _opened(self, shard: Shard) -> CounterStore:
        store = CounterStore(self._url_of(shard), timeout_s=self._timeout_s, shard=shard)
        if self._on_stale is not None:
            store.on_stale = self._on_stale
        return store

    def when_stale(self, hear: Callable[[], None]) -> None:
        """``hear`` is called when a store refuses the epoch of the map in use: a newer one may be there."""
        self._on_stale = hear
        for store in self.stores.values():
            store.on_stale = hear

    def store_of(self, buckets: Sequence[PlacedBucket]) -> CounterStore:
        """The shard that holds the buckets of one decision.

        Raises StoreNotAsked when they are on several: one of them counts over tenants.
        """
        if self._only is not None:
            return self._only
        for bucket in buckets:
            if not bucket.tenant:
                if bucket.id_ not in self._spanning:
                    self._spanning.add(bucket.id_)
                    _log.error("policy_spans_shards", policy=bucket.id_, act="name the tenant in `per` or scope")
                raise StoreNotAsked(cause=f"{bucket.id_} counts over tenants, which are on several shards")
        tenant = buckets[0].tenant
        found = self._homes.get(tenant)
        if found is None:
            if len(self._homes) >= limits.LIMIT_SHARD_HOMES_MAX:
                self._homes.clear()
            found = self._homes[tenant] = self.stores[self.map.layout.home_of(tenant)]
        return found

    def former_of(self, bucket: PlacedBucket) -> tuple[CounterStore, ...]:
        """Other shards that the bucket's counter may be on, newest first."""
        if not self.map.before or not bucket.tenant:
            return ()
        return tuple(self.stores[name] for name in self.map.former_of(bucket.tenant))

    async def peek(self, bucket: PlacedBucket) -> Counted:
        """What the bucket holds, without touching it. Raises StoreUnavailable."""
        return await self.store_of((bucket,)).peek(bucket)

    async def load(self) -> None:
        """The functions are there afterwards, at every shard. Raises StoreUnavailable for the first that is away."""
        for store in [*self.stores.values()]:
            await store.load()

    async def compare_clocks(self) -> None:
        """Looks at the clock of every shard that is connected to."""
        for store in [*self.stores.values()]:
            await store.compare_clocks()

    async def close(self) -> None:
        """Closes all connections."""
        for store in self.stores.values():
            await store.close()

    @property
    def refused_calls(self) -> int:
        """Calls that a store refused because the map in use named another epoch."""
        return self.refused_calls_before + sum(store.refused_calls for store in list(self.stores.values()))

    @property
    def clock_off(self) -> str | None:
        """That our clock is far off the first such shard's: calendars, snapshots and what we send owners go by ours."""
        for name, store in list(self.stores.items()):
            off_s = store.clock_ahead_s or 0.0
            if abs(off_s) > limits.LIMIT_CALENDAR_SKEW_S:
                return f"the clock of this gateway is {off_s:+.0f} s off that of shard {name}: set it"
        return None

    @property
    def unfit(self) -> str | None:
        """Why a gateway is not ready: the first shard that must not be trusted, or that refuses our epoch."""
        for name, store in list(self.stores.items()):
            if store.unfit is not None:
                return store.unfit if len(self.stores) == 1 else f"shard {name}: {store.unfit}"
            if store.fenced_by == 0:
                return f"shard {name} lost its counters: run 'millrace limiter shards restore {name}'"
            if store.fenced_by is not None:
                return (
                    f"shard {name} is at epoch {store.fenced_by}, the map says {store.epoch}: if it stays so, "
                    f"'millrace limiter shards' shows what to do"
                )
        return None
