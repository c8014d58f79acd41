"""The calls of one process to the store: decisions over all buckets of a key, leases ahead of need, settlements.

Their number at once is bounded; beyond it, and when policies have lapsed, the store is not asked.
"""

from __future__ import annotations

import asyncio
import itertools
import secrets
from string import ascii_lowercase
from typing import TYPE_CHECKING, Any, Final

from limiter.decide.bucket_migration import arrive, settle
from limiter.decide.store_call import StoreCall
from limiter.decide.store_exchange import asked_terms, asks_for_lease, lease_end_ns, shadows_that_refuse, taken_in
from limiter.decide.unsure_permits import UnsurePermits
from limiter.policy import keys
from limiter.store import store
from limiter.store.lease_clock import lease_clock_ns
from limiter.store.store_waits import StoreWaits
from schemas import errors
from schemas.limiter import limits

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from limiter.decide.identities import Identities
    from limiter.decide.key_cache import KeyCache
    from limiter.spending.buckets import Bucket
    from limiter.spending.decision import Decision
    from limiter.spending.key_state import KeyState
    from limiter.store.sharded_store import ShardedStore
    from limiter.store.store import CounterStore
    from limiter.stream.decisions import Recorder, Shadow

_NS_PER_S: Final = 1_000_000_000
_PROCESS_LETTERS: Final = 8


class StoreCalls:
    """The calls of one limiter, on its event loop."""

    def __init__(
        self,
        counter_store: CounterStore | ShardedStore,
        key_cache: KeyCache,
        identities: Identities,
        recorder: Recorder,
        name: str,
    ) -> None:
        self._store = counter_store
        self._key_cache = key_cache
        self._identities = identities
        self._recorder = recorder
        process = "".join(secrets.choice(ascii_lowercase) for _ in range(_PROCESS_LETTERS))  # read by rl1.lua
        self._name = f"{name}.{process}"  # leases of an ended process belong to nobody
        self._lease_numbers = itertools.count(1)
        self._under_way = 0
        self.made = 0
        self.waits = StoreWaits()
        self.refills: set[asyncio.Task[None]] = set()
        self._unsure = UnsurePermits()
        self._left_alone: set[asyncio.Future[list[int]]] = set()  # nobody waits for these; the store's bound ends them

    async def ask(
        self, key: KeyState, cost: int, request_id: str | None, shadows: list[Shadow], within_s: float | None = None
    ) -> Decision | None:
        """Asks the store once about all buckets; None if it does not answer in time or must not be asked.

        Adds to ``shadows`` those that would have refused it. ``within_s``: how long the caller can wait, if that is
        shorter than the bound of a call.
        """
        if self._key_cache.is_lapsed or self._under_way >= limits.LIMIT_STORE_CALLS_MAX:
            return None
        self._under_way += 1
        self.made += 1
        asked_ns = lease_clock_ns()
        lease_id = self._lease_id()
        terms: list[bytes] = []
        identity = b"" if request_id is None else request_id.encode()
        self._unsure.asked_again(key, identity)
        try:
            counters = self._store.store_of(key.buckets)
            leased = key.leased and asked_ns >= counters.learning_until_ns and self._may_lease()
            terms = [asked_terms(bucket, cost, asked_ns, leased) for bucket in key.buckets]
            call = StoreCall(key.buckets, lease_id, asked_ns, counters)
            asked = self._exchange(key, call, terms, cost, identity)
            answer = await (asked if within_s is None else self._answer_within(asked, within_s, call))
            self.waits.took((lease_clock_ns() - asked_ns) / _NS_PER_S)
        except store.StoreNotAsked:
            return None
        except asyncio.CancelledError:
            self._unsure.left(key, identity, lease_id, cost, is_again=self.is_again(key, request_id))
            raise
        except (store.StoreUnavailable, TimeoutError):
            self.waits.took((lease_clock_ns() - asked_ns) / _NS_PER_S)
            if request_id is not None:
                self._identities.doubt((key.name, request_id), asked_ns)
            self._unsure.refused(key, identity, lease_id, cost, is_again=self.is_again(key, request_id))
            return None
        finally:
            self._under_way -= 1
            for bucket, packed in zip(key.buckets, terms, strict=False):  # none if no store could be asked
                if asks_for_lease(packed):
                    bucket.asking = False
        if answer[0] == store.CONFLICT:
            raise errors.KeyReused
        if answer[0] in (store.STALE_EPOCH, store.WRONG):
            return None
        shadows += shadows_that_refuse(key, answer)
        return taken_in(key, cost, answer, asked_ns, lease_id, counters.epoch)

    def is_again(self, key: KeyState, request_id: str | None) -> bool:
        """Whether an earlier try of the request was allowed here."""
        return request_id is not None and self._identities.spent.cost_of(key.name, request_id) >= 0

    async def _exchange(
        self, key: KeyState, call: StoreCall, terms: list[bytes], cost: int, identity: bytes
    ) -> list[int]:
        for bucket in key.buckets:
            if bucket.settling or bucket.store is not call.counters:
                await self.settle(bucket, call.counters)
        return await call.decided(terms, cost, identity, keys.identity_key(key.name, identity))

    async def _answer_within(
        self, deciding: Coroutine[Any, Any, list[int]], within_s: float, call: StoreCall
    ) -> list[int]:
        """The answer. After the time the call goes on without its caller: others may wait for the same connection.

        Raises TimeoutError.
        """
        asked = asyncio.ensure_future(deciding)
        done, _ = await asyncio.wait({asked}, timeout=within_s)
        if not done:
            self._left_alone.add(asked)
            asked.add_done_callback(self._left_alone.discard)
            asked.add_done_callback(call.heard_late)
            raise TimeoutError
        return asked.result()

    def left(self, key: KeyState, cost: int, request_id: str) -> None:
        """Notes a request that the store had allowed, whose caller has gone before it was allowed whole."""
        self._unsure.left(key, request_id.encode(), self._lease_id(), cost, is_again=self.is_again(key, request_id))

    async def give_back(self, key: KeyState, cost: int, request_id: str) -> None:
        """Gives back what the store charged for a request that is refused here; not what another gateway uses.

        Raises StoreUnavailable; then permits become free when the store answers again.
        """
        identity = request_id.encode()
        try:
            counters = self._store.store_of(key.buckets)
            await counters.refund(key.buckets, identity, keys.identity_key(key.name, identity), self._lease_id())
        except (store.StoreUnavailable, asyncio.CancelledError):
            self.left(key, cost, request_id)
            raise

    def release_later(self, key: KeyState, request_id: str, permits: int) -> None:
        """Notes that a request has ended, to tell the store when it answers again."""
        self._unsure.left(key, request_id.encode(), b"", permits, is_again=True)

    def refill_soon(self, bucket: Bucket) -> None:
        """Asks for the next lease while the present one lasts, one at a time for each bucket; reports what is spent."""
        if bucket.held and bucket.account is not None:
            bucket.account.hurry()
            self._recorder.hurry()
        if bucket.left + bucket.held >= bucket.refill_from:
            return  # it is only held back, or already asked for
        bucket.refill_from = 0
        asked_ns = lease_clock_ns()
        if bucket.asking or self._under_way >= limits.LIMIT_STORE_CALLS_MAX or not self._may_lease():
            return
        if not (want := bucket.wanted_next(asked_ns)):
            return
        bucket.asking = True
        self._under_way += 1
        self.made += 1
        task = asyncio.get_running_loop().create_task(self._refill(bucket, want, asked_ns))
        self.refills.add(task)
        task.add_done_callback(self.refills.discard)

    async def _refill(self, bucket: Bucket, want: int, asked_ns: int) -> None:
        """Asks for a lease by a request that costs nothing. Nobody waits for it, so it may fail."""
        lease_id = self._lease_id()
        try:
            counters = self._store.store_of((bucket,))
            if asked_ns < counters.learning_until_ns:
                return
            if bucket.store is not counters:
                await self.settle(bucket, counters)
            call = StoreCall([bucket], lease_id, asked_ns, counters)
            answer = await call.decided([bucket.level.packed_terms(want)], 0, b"", b"")
            if answer[0] == store.OK:
                *_, granted, lease_us = answer
                if granted:
                    bucket.begin_lease(lease_id, granted, lease_end_ns(asked_ns, lease_us), counters.epoch)
            await self.settle(bucket, counters)
        except store.StoreUnavailable:
            return
        finally:
            self._under_way -= 1
            bucket.asking = False

    def _lease_id(self) -> bytes:
        return f"{self._name}.{next(self._lease_numbers)}".encode()

    async def settle(self, bucket: Bucket, counters: CounterStore) -> None:
        """Tells the store what it must know of a bucket. Keeps what it could not tell and raises StoreUnavailable."""
        if bucket.store is not counters:
            await arrive(bucket, counters, self._store)
        try:
            await settle(bucket, counters)
        except store.StoreUnavailable:
            if bucket.store is not counters:
                bucket.store = None  # it moved to another one meanwhile, which still has to be told
            raise

    async def store_of(self, key: KeyState) -> CounterStore:
        """The store that counts a key, told what former ones knew. Raises StoreUnavailable, also when lapsed."""
        if self._key_cache.is_lapsed:
            raise store.StoreNotAsked(cause="the policies are too old to count by")
        counters = self._store.store_of(key.buckets)
        for bucket in key.buckets:
            if bucket.store is not counters:
                await self.settle(bucket, counters)
        return counters

    def _may_lease(self) -> bool:
        """Whether a lease may be asked for: only if its spend could be reported."""
        return self._recorder.leases is None or self._recorder.leases.may_open()

    async def settle_ended(self, active: set[Bucket], now_ns: int) -> None:
        """Settles ended leases. A bucket without a lease to hold or settle is no longer active.

        Raises StoreUnavailable for the first that could not be settled, after all others are.
        """
        first: store.StoreUnavailable | None = None
        for bucket in [*active]:
            if bucket.lease_id and now_ns >= bucket.lease_ends_ns:
                bucket.end_lease()
            moved = bucket.lease_id and bucket.store is not None and bucket.store.replaced
            if bucket.settling or moved:  # a new primary is told at once of a lease that is held
                try:
                    await self.settle(bucket, self._store.store_of((bucket,)))
                except store.StoreUnavailable as error:
                    first = first or error
            if not bucket.lease_id and not bucket.settling:
                active.discard(bucket)
        if first is None:
            await self._unsure.take_back(self.store_of)
        if first is not None:
            raise first
