"""The limiter of one process: it decides by leases, else by one call of the store, else by the failure mode.

Rules: a request charges every policy that governs its key, or none. A retry with the same identity charges nothing. A
lease is spent only before it ends by this process's clock, counted from before it was asked for. All runs on one event
loop: between two awaits nothing else runs. Source: spec 3 section 1, reference limiter 2.2 to 2.4.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from limiter.decide import local_decisions, refunds
from limiter.decide.durable import DurableLevels
from limiter.decide.failure import WithoutStore
from limiter.decide.fast_path import fast_path, otherwise_over
from limiter.decide.identities import Identities
from limiter.decide.key_cache import KeyCache
from limiter.decide.store_calls import StoreCalls
from limiter.spending.decision import UNLIMITED, Decision
from limiter.spending.fields import Identity
from limiter.store.lease_clock import lease_clock_ns
from limiter.store.store import StoreUnavailable
from schemas import errors
from schemas.limiter import limits

if TYPE_CHECKING:
    from limiter.decide.durable import DurableQuotas
    from limiter.decide.identities import Known
    from limiter.frames.frames import Named
    from limiter.policy.policies import PolicySet
    from limiter.spending.key_state import KeyState
    from limiter.store.sharded_store import ShardedStore
    from limiter.store.store import CounterStore
    from limiter.store.store_waits import StoreWaits
    from limiter.stream.decisions import Recorder, Shadow

_NS_PER_MS: Final = 1_000_000


class Limiter:
    """Decides on keys. ``check`` never blocks on metrics or streams, and ends within the bound of one store call."""

    def __init__(
        self,
        counter_store: CounterStore | ShardedStore,
        recorder: Recorder,
        name: str,
        durable: DurableQuotas | None = None,
        gateways: int = 1,
    ) -> None:
        """``gateways``: how many share the policies; without the store each allows its part of an ``open`` one."""
        self._store = counter_store
        self._recorder = recorder
        self._without_store = WithoutStore(gateways)
        self._key_cache = KeyCache(recorder)
        self._keys, self._buckets = self._key_cache.keys, self._key_cache.buckets
        self.when_keys_are_void = self._key_cache.when_void
        self._identities = Identities(limits.LIMIT_IDENTITY_MS * _NS_PER_MS)
        self._calls = StoreCalls(counter_store, self._key_cache, self._identities, recorder, name)
        self._durable = DurableLevels(durable, self._calls, counter_store, self._without_store, self._identities)
        self._under_way: dict[Identity, asyncio.Future[tuple[int, Decision] | None]] = {}
        self.degraded = 0
        spender = fast_path(self._keys, self._identities, self._under_way, recorder, self._calls.refill_soon)
        #: decides without waiting; None if ``check`` has to ask the store
        self.check_now = spender.check_now
        self.spend_entries = spender.spend_entries
        self._check_held = otherwise_over(self._identities, self._under_way, recorder, self._calls.refill_soon)

    @property
    def revision(self) -> int:
        """The revision of the policies in use."""
        return self._key_cache.policies.revision

    @property
    def policies(self) -> PolicySet:
        """The policies in use."""
        return self._key_cache.policies

    @property
    def store_calls(self) -> int:
        """How often the store was asked to decide or to lease."""
        return self._calls.made

    @property
    def store_waits(self) -> StoreWaits:
        """How long those calls took."""
        return self._calls.waits

    def leases(self) -> int:
        """How many leases are held now."""
        return sum(bool(bucket.lease_id) for bucket in self._key_cache.active.copy())

    def use(self, policies: PolicySet) -> None:
        """Replaces the policies. Leases of changed policies end, and what was spent of them is settled."""
        self._key_cache.use(policies)
        self._durable.prepare(policies)

    def lapse(self) -> None:
        """Lets failure modes decide, because the policies are too old, until ``use`` brings others."""
        self._key_cache.lapse()

    def check_named(self, place: Named, cost: int, request_id: str | None) -> Decision | None:
        """``check_now`` for a key that a connection named, maybe with a client; from then on it has that name, too.

        Raises KeyReused, and InvalidCommand for an invalid address.
        """
        tenant, user, route, *client = place
        if not client:
            return self.check_now(tenant, user, route, cost, request_id)
        key = self._key_cache.found(place)
        return None if key is None else self._check_held(key, cost, request_id)

    async def check(
        self,
        tenant: str,
        user: str,
        route: str,
        cost: int = 1,
        request_id: str | None = None,
        network: str | None = None,
        *,
        within_s: float | None = None,
    ) -> Decision:
        """Decides and charges. ``network``: the client's address, for policies that name or count networks.

        ``within_s``: how long the caller can wait for the counter store; then the failure mode answers, and the same
        identity finds out what was charged.

        Raises InvalidCommand for an invalid key or cost, KeyReused for an identity that had another cost; both consume
        nothing.
        """
        if network is not None:
            place = self._key_cache.place(tenant, user, route, network)
            known = self._keys.get(place)
            decided = None if known is None else self._check_held(known, cost, request_id)
        else:
            place = (tenant, user, route)
            decided = self.check_now(tenant, user, route, cost, request_id)
        if decided is not None:
            return decided
        if not 0 <= cost <= limits.LIMIT_COST_MAX:
            reason = f"must be from 0 to {limits.LIMIT_COST_MAX}"
            raise errors.InvalidCommand([{"field": "cost", "reason": reason}])
        key = self._key_cache.key(place)
        if not key.buckets:
            return self._check_held(key, cost, request_id) or UNLIMITED
        if request_id is None:
            return await self._decide(key, cost, None, within_s)
        return await self._once(key, cost, request_id, within_s)

    def governed(self, tenant: str, user: str, route: str, network: str | None = None) -> KeyState:
        """The key with its buckets under the policies in use. Raises InvalidCommand."""
        place = (tenant, user, route) if network is None else self._key_cache.place(tenant, user, route, network)
        return self._key_cache.key(place)

    def holds_permits(self, tenant: str, user: str, route: str, network: str | None = None) -> bool:
        """Whether a request that is allowed holds permits until ``release`` or their end. Raises InvalidCommand."""
        return self._key_cache.policies.has_permits and refunds.holds_permits(
            self.governed(tenant, user, route, network)
        )

    async def refund(self, tenant: str, user: str, route: str, request_id: str, network: str | None = None) -> int:
        """Gives back, once, what a request consumed. Returns its cost, 0 for nothing; a second call returns the same.

        What has leaked or faded is back already. Raises InvalidCommand if no policy counts the key, and Unavailable;
        then the same call finds out. A retry of the request is charged anew, but not by durable quotas.
        """
        key = self.governed(tenant, user, route, network)
        refunds.require_counted(key, request_id)
        if (deciding := self._under_way.get((key.name, request_id))) is not None:
            await asyncio.shield(deciding)
        if key.durable is not None:
            return await self._durable.refund(key.durable, request_id)
        return await refunds.refund(key, request_id, await self.store_of(key), self._identities)

    async def release(
        self, tenant: str, user: str, route: str, request_id: str, cost: int = 1, network: str | None = None
    ) -> int:
        """Frees the ``cost`` permits of a request that has ended; a second call does nothing.

        Raises StoreUnavailable; then they become free when the store answers again.
        """
        key = self.governed(tenant, user, route, network)
        if not refunds.holds_permits(key):
            return 0
        try:
            return await refunds.release(key, request_id, cost, await self.store_of(key))
        except StoreUnavailable:
            self._calls.release_later(key, request_id, cost)
            raise

    async def store_of(self, key: KeyState) -> CounterStore:
        """The store that counts a key, told what former ones knew. Raises StoreUnavailable, also when lapsed."""
        return await self._calls.store_of(key)

    def without_store(self, key: KeyState, cost: int) -> Decision:
        """The decision of a key's failure modes, counted as every decision without the store."""
        self.degraded += 1
        return self._without_store.decide(key, cost)

    async def _once(self, key: KeyState, cost: int, request_id: str, within_s: float | None) -> Decision:
        """Decides under an identity: shares a decision that is under way, repeats one that was made."""
        identity = (key.name, request_id)
        while (first := self._under_way.get(identity)) is not None:
            shared = await asyncio.shield(first)
            if shared is not None:
                return self._repeated(key, cost, shared, request_id)
        # only the store knows whether it still holds its permits
        known = None if refunds.holds_permits(key) else self._identities.find(key, request_id)
        if known is not None:
            return self._repeated(key, cost, known, request_id)
        mine = self._under_way[identity] = asyncio.get_running_loop().create_future()
        decided = None
        try:
            decided = await self._decide(key, cost, request_id, within_s)
            if decided.allowed and not decided.degraded:
                self._identities.keep(key, request_id, cost, decided)
            return decided
        finally:
            del self._under_way[identity]
            if decided is None:  # the caller went away; only the store knows whether it charged
                self._identities.doubt(identity, lease_clock_ns())
            mine.set_result(None if decided is None else (cost, decided))

    def _repeated(self, key: KeyState, cost: int, known: Known, request_id: str) -> Decision:
        """Repeats the answer; consumes nothing. Raises KeyReused."""
        decided = local_decisions.repeated(key, cost, known)
        self._recorder.record(key.name, cost, decided, identity=request_id)
        return decided

    async def _decide(self, key: KeyState, cost: int, request_id: str | None, within_s: float | None) -> Decision:
        shadows: list[Shadow] = [*key.lists]
        if key.durable is not None and not self._key_cache.is_lapsed:
            decided = await self._durable.decide(key.durable, cost, request_id, shadows)
        else:
            asked = await self._calls.ask(key, cost, request_id, shadows, within_s)
            decided = asked or self._without_store.decide(key, cost, request_id)
        self.degraded += decided.degraded
        self._recorder.record(key.name, cost, decided, identity=request_id, shadows=shadows)
        return decided

    @property
    def is_idle(self) -> bool:
        """No lease is held, and none is to be settled: ``maintain`` has nothing urgent to do."""
        return not self._key_cache.active

    async def maintain(self) -> None:
        """Settles ended leases and drops old identities and void keys; called now and then.

        Looks only at buckets that hold a lease or have one to settle, however many keys were ever asked.

        Raises StoreUnavailable for the first bucket that could not be settled, after all others are.
        """
        now_ns = lease_clock_ns()
        self._identities.turn(now_ns)
        self._key_cache.let_go()
        await self._calls.settle_ended(self._key_cache.active, now_ns)

    async def close(self) -> None:
        """Gives every lease back. The store charges whole, in time, what it was not told. Raises StoreUnavailable."""
        if self._calls.refills:
            await asyncio.wait(self._calls.refills)  # nobody would hold a lease that came later
        for bucket in [*self._key_cache.active]:
            bucket.end_lease()
        await self.maintain()
