"""The limiter of one process: leases first, one call of the store otherwise, the failure mode when it does not answer.

Rules: a request charges every policy that governs its key, or none; a retry with the same identity charges nothing;
what a lease holds is spent only before it ends by this process's clock, counted from before the lease was asked for.
All on one event loop: between two awaits nothing else runs. Source: spec 3 section 1, reference limiter 2.2 to 2.4.
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
        """``gateways``: how many decide by the same policies; without the store each allows its part of an open one."""
        self._store = counter_store
        self._recorder = recorder
        self._without_store = WithoutStore(gateways)
        self._key_cache = KeyCache(recorder)
        self._keys, self._buckets = self._key_cache.keys, self._key_cache.buckets
        self.when_keys_are_void = self._key_cache.when_void
        self._identities = Identities(limits.LIMIT_IDENTITY_MS * _NS_PER_MS)
        self._calls = StoreCalls(counter_store, self._key_cache, self._identities, recorder, name)
        self._durable = DurableLevels(durable, self._calls.ask, counter_store, self._without_store, self._identities)
        self._under_way: dict[Identity, asyncio.Future[tuple[int, Decision] | None]] = {}
        self.degraded = 0
        spender = fast_path(self._keys, self._identities, self._under_way, recorder, self._calls.refill_soon)
        #: decides without waiting, or gives None: then ``check`` has to ask the store
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
        """How many are held now."""
        return sum(bool(bucket.lease_id) for bucket in self._key_cache.active.copy())

    def use(self, policies: PolicySet) -> None:
        """Other policies from now on. Leases of policies that changed end; what was spent of them is settled."""
        self._key_cache.use(policies)
        self._durable.prepare(policies)

    def lapse(self) -> None:
        """The policies are too old to count by: their failure modes decide, until ``use`` brings others."""
        self._key_cache.lapse()

    def check_named(self, place: Named, cost: int, request_id: str | None) -> Decision | None:
        """``check_now`` for a key that a connection has named, maybe with a client: once found, it has that name too.

        Raises KeyReused, and InvalidCommand for what is no address.
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

        ``within_s``: how long the caller can wait for the counter store; past it the failure mode answers, and what
        was charged the same identity finds out.

        Raises InvalidCommand for what can be no key or cost, KeyReused for an identity that had another cost: nothing
        is consumed then.
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
        """Whether what is allowed now holds permits until ``release``, or their time. Raises InvalidCommand."""
        return self._key_cache.policies.has_permits and refunds.holds_permits(
            self.governed(tenant, user, route, network)
        )

    async def refund(self, tenant: str, user: str, route: str, request_id: str, network: str | None = None) -> int:
        """Gives back, once, what a request consumed, and says what that had cost, 0 for nothing; again, the same.

        What has leaked or faded is back already. Raises InvalidCommand where no policy counts the key, and Unavailable:
        then the same call finds out. A retry of the request is charged anew, of durable quotas nothing.
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
        """Ends a request that held ``cost`` permits: they are free; again, it does nothing.

        Raises StoreUnavailable: then they are free when the store answers again.
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
        """The store that counts a key, when it knows what former ones did. Raises StoreUnavailable, and when lapsed."""
        return await self._calls.store_of(key)

    def without_store(self, key: KeyState, cost: int) -> Decision:
        """What the failure modes of a key say; counted as all decisions without the store are."""
        self.degraded += 1
        return self._without_store.decide(key, cost)

    async def _once(self, key: KeyState, cost: int, request_id: str, within_s: float | None) -> Decision:
        """A decision under an identity: one that is under way is shared, one that was made is repeated."""
        identity = (key.name, request_id)
        while (first := self._under_way.get(identity)) is not None:
            shared = await asyncio.shield(first)
            if shared is not None:
                return self._repeated(key, cost, shared, request_id)
        # whether it still holds its permits only the store knows
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
            if decided is None:  # whoever asked went away, maybe when the store had charged: only it knows
                self._identities.doubt(identity, lease_clock_ns())
            mine.set_result(None if decided is None else (cost, decided))

    def _repeated(self, key: KeyState, cost: int, known: Known, request_id: str) -> Decision:
        """The same answer again; nothing is consumed. Raises KeyReused."""
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

    async def maintain(self) -> None:
        """Settles leases that ran out, and lets old identities and void keys go; called every now and then.

        Looks at buckets that hold a lease or have one to settle, however many keys were ever asked.

        Raises StoreUnavailable for the first bucket that could not be settled, when all others are.
        """
        now_ns = lease_clock_ns()
        self._identities.turn(now_ns)
        self._key_cache.let_go()
        await self._calls.settle_ended(self._key_cache.active, now_ns)

    async def close(self) -> None:
        """Gives every lease back. What cannot be told the store charges whole, in time. Raises StoreUnavailable."""
        if self._calls.refills:
            await asyncio.wait(self._calls.refills)  # a lease that came later would be nobody's
        for bucket in [*self._key_cache.active]:
            bucket.end_lease()
        await self.maintain()
