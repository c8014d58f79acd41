"""Lends quota to Envoys: every assignment is a lease at the store, on the counters that all other decisions use.

What an Envoy may spend is reserved before it hears of it, and charged when it is settled. If nobody settles a lease
(Envoy or this process is gone), the store charges it whole ten seconds after its end. So RateLimitQuotaService, leases
of gateways and single decisions together stay within a key's bound.
"""

from __future__ import annotations

import asyncio
import itertools
import secrets
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import structlog
from prometheus_client import Counter

from limiter.decide.quota_shares import Assignment, QuotaLease, told_ttl_s
from limiter.decide.store_exchange import lease_end_ns
from limiter.spending.decision import Decision
from limiter.store import store
from limiter.store.lease_clock import lease_clock_ns
from schemas.limiter import limits

if TYPE_CHECKING:
    from limiter.decide.limiter import Limiter
    from limiter.decide.quota_shares import Governing, Share
    from limiter.spending.key_state import KeyState
    from limiter.store.sharded_store import ShardedStore
    from limiter.store.store import CounterStore
    from limiter.stream.decisions import Recorder

_log: Final = structlog.get_logger(__name__)
_NS_PER_MS: Final = 1_000_000
# Any: Envoys let requests through without quota, by their rules for no assignment or an expired one.
_overdrawn = Counter("millrace_limiter_quota_overdrawn", "Requests that Envoys let through beyond the quota")


class QuotaLender:
    """Lends quota to shares. One for each process, on one event loop."""

    def __init__(
        self, limiter: Limiter, counter_store: CounterStore | ShardedStore, recorder: Recorder, name: str
    ) -> None:
        self._limiter = limiter
        self._store = counter_store
        self._recorder = recorder
        self._name = f"{name}.{secrets.token_hex(4)}.q"
        self._numbers = itertools.count(1)
        self._calls = asyncio.Semaphore(limits.LIMIT_RLQS_CALLS_MAX)
        self._refused: set[str] = set()  # policies that cannot be lent

    def governing(self, key: KeyState) -> Governing:
        """The policies of a key by name and version."""
        if key.verdict is not None:
            return ((key.verdict.policy_id, key.verdict.policy_version),)
        return tuple((bucket.id_, bucket.version) for bucket in key.buckets)

    def record(self, key: KeyState, allowed: int, denied: int) -> None:
        """Records a report: one decision for each outcome, with the cost of all its requests."""
        for passed, cost in ((True, allowed), (False, denied)):
            decided = _decided(key, passed=passed)
            if cost and decided is not None:
                self._recorder.record(key.name, cost, decided, shadows=key.lists)

    async def lend(self, share: Share, key: KeyState) -> Assignment | None:
        """The assignment for an Envoy now; None if it goes on with the one that it has."""
        async with self._calls:
            try:
                return await self._lend(share, key)
            except store.StoreUnavailable:
                return self._without_store(share, key)

    async def settle(self, share: Share) -> None:
        """Tells the store what was spent of ended leases. The store charges whole, in time, what it was not told."""
        over = share.finished()
        async with self._calls:
            for lease in over:
                try:
                    await self._settle(lease)
                except store.StoreUnavailable:
                    return

    async def keep(self, share: Share) -> None:
        """Has a new primary reserve what is lent, after a failover; asks again without an answer."""
        for lease in share.leases:
            if lease.store is not None and lease.store.replaced:
                try:
                    await self._arrived(lease)
                except store.StoreUnavailable:
                    return

    async def _settle(self, lease: QuotaLease) -> None:
        counters = await self._arrived(lease)
        if counters is not None:
            for bucket in lease.buckets:
                await counters.settle(bucket, lease.id_, lease.spent)

    async def _arrived(self, lease: QuotaLease) -> CounterStore | None:
        """The store that knows of a lease; None if nothing is left to settle. Raises StoreUnavailable."""
        if lease.store is None or not lease.buckets:
            return None
        counters = self._store.store_of(lease.buckets)
        if counters.shard.name != lease.store.shard.name:
            lease.buckets = ()  # the tenant moved: what was lent counts as spent there, see ``bucket_migration``
            return None
        if counters.shard.promoted > lease.store.shard.promoted:
            for bucket in lease.buckets:
                await counters.register(bucket, lease.id_, lease.tokens)
        lease.store = counters
        return counters

    async def _lend(self, share: Share, key: KeyState) -> Assignment | None:
        """Assigns quota. Raises StoreUnavailable; then nothing was assigned, and what is unpaid is paid later."""
        governing = self.governing(key)
        if not key.real:
            share.unpaid = 0
            refused = key.verdict is not None and not key.verdict.allowed
            return _told(share, Assignment("deny_all" if refused else "allow_all", _ttl_s()), governing)
        if not self._is_lendable(key):
            return _told(share, Assignment("deny_all", _ttl_s()), governing)
        lease = await self._reserved(share, key)
        now_ns = lease_clock_ns()
        ttl_s = told_ttl_s(lease.ends_ns, now_ns)
        kept = share.held(now_ns) if share.governing == governing else 0
        if lease.tokens > kept and ttl_s:
            return _told(share, Assignment("tokens", ttl_s, lease.tokens), governing, lease)
        await self._settle(lease)
        return None if kept else _told(share, Assignment("deny_all", _ttl_s()), governing)

    async def _reserved(self, share: Share, key: KeyState) -> QuotaLease:
        """Pays what is unpaid, as far as there is quota, and reserves in the same call. Raises StoreUnavailable.

        If the answer is lost, what was paid is paid once more, and the store charges what it may have reserved;
        neither happens if the answer is only late.
        """
        lease_id = f"{self._name}.{next(self._numbers)}".encode()
        counters = await self._limiter.store_of(key)
        want = share.wanted(min(bucket.level.policy.capacity for bucket in key.real))
        if lease_clock_ns() < counters.learning_until_ns:
            want = 0  # a new primary does not yet know what is held
        terms = [bucket.level.lent_terms(want) for bucket in key.buckets]
        cost = share.unpaid
        while True:
            asked_ns = lease_clock_ns()
            try:
                code, *numbers = await counters.decide(key.buckets, terms, cost, b"", b"", lease_id)
            except store.StoreUnavailable as error:
                if error.late is not None:
                    error.late.add_done_callback(partial(self._heard_late, share, key, lease_id, cost, counters))
                raise
            if code not in (store.OK, store.DENIED):
                raise store.StoreUnavailable(cause=f"answered {code}")
            rows = [(bucket, numbers[at * store.ROW :]) for at, bucket in enumerate(key.buckets)]
            if code == store.OK or not cost:
                break
            cost = min([cost - 1, *(row[0] for bucket, row in rows if bucket in key.real)])
        _overdrawn.inc(share.unpaid - cost)
        share.unpaid = 0
        granted = {bucket: row for bucket, row in rows if row[4]}
        tokens = min(granted[bucket][4] if bucket in granted else 0 for bucket in key.real)
        ends_ns = min((lease_end_ns(asked_ns, row[5]) for row in granted.values()), default=asked_ns)
        return QuotaLease(lease_id, tuple(granted), tokens, ends_ns, counters)

    @staticmethod
    def _heard_late(
        share: Share, key: KeyState, lease_id: bytes, cost: int, counters: CounterStore, answered: asyncio.Future[Any]
    ) -> None:
        """Takes a late answer: gives its lease back whole, and does not pay again what it paid."""
        if answered.cancelled() or answered.exception() is not None:
            return
        answer = answered.result()
        if not isinstance(answer, list) or answer[0] != store.OK:
            return
        share.unpaid = max(0, share.unpaid - cost)  # what was paid again meanwhile stays charged
        for bucket, granted in zip(key.buckets, answer[5 :: store.ROW], strict=False):
            if granted and bucket.store is counters:
                bucket.to_settle(lease_id, 0)

    def _without_store(self, share: Share, key: KeyState) -> Assignment | None:
        """Lets what is held last to its end; then the failure mode decides, with a lease that no store reserved."""
        now_ns = lease_clock_ns()
        governing = self.governing(key)
        if share.governing == governing and share.held(now_ns):
            return None
        want = share.wanted(min(bucket.level.policy.capacity for bucket in key.real))
        if not self._limiter.without_store(key, want).allowed:
            return _told(share, Assignment("deny_all", _ttl_s()), governing)
        lease = QuotaLease(b"", (), want, now_ns + limits.LIMIT_RLQS_LEASE_MS * _NS_PER_MS)
        return _told(share, Assignment("tokens", _ttl_s(), want), governing, lease)

    def _is_lendable(self, key: KeyState) -> bool:
        """Whether quota can be reserved: not permits, which come back one by one, nor durable quota. Logs it once."""
        for bucket in key.real:
            policy = bucket.level.policy
            if policy.algorithm == "concurrency" or policy.consistency == "durable":
                if policy.policy_id not in self._refused:
                    self._refused.add(policy.policy_id)
                    _log.warning("quota_not_lendable", policy_id=policy.policy_id)
                return False
        return True


def _decided(key: KeyState, *, passed: bool) -> Decision | None:
    """What Envoy did with a request, as a decision; None if no policy governs the key."""
    if key.verdict is not None:
        return key.verdict._replace(allowed=passed)
    if not key.buckets:
        return None
    first = key.real[0] if key.real else key.buckets[0]
    return Decision(passed, first.remaining, first.reset_ms, 0, first.id_, first.version, approximate=True)


def _ttl_s() -> int:
    """The lifetime of an assignment that reserves nothing."""
    return told_ttl_s(limits.LIMIT_RLQS_LEASE_MS * _NS_PER_MS, 0)


def _told(share: Share, made: Assignment, governing: Governing, lease: QuotaLease | None = None) -> Assignment:
    share.assign(made, governing, lease_clock_ns(), lease)
    return made
