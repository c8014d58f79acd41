"""The limiter of one process: leases first, one call of the store otherwise, the failure mode when it does not answer.

Rules: a request charges every policy that governs its key, or none; a retry with the same identity charges nothing;
what a lease holds is spent only before it ends by this process's clock, counted from before the lease was asked for.
All on one event loop: between two awaits nothing else runs. Source: spec 3 section 1, reference limiter 2.2 to 2.4.
"""

from __future__ import annotations

import asyncio
import itertools
import secrets
import time
from typing import TYPE_CHECKING, Final

from limiter import keys, store
from limiter.buckets import Bucket, packed_terms
from limiter.decision import UNLIMITED, Decision
from limiter.failure import WithoutStore
from limiter.identities import Identities
from limiter.policies import PolicySet
from schemas import errors, limits
from schemas.limit_policy import KEY_PARTS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from limiter.decisions import Recorder
    from limiter.policies import Level
    from limiter.store import CounterStore

_US_PER_MS: Final = 1_000
_NS_PER_US: Final = 1_000
_LEASE_CAUTION: Final = 0.999  # a lease ends here a little before it ends at the store
_DENIAL_KEPT_NS: Final = 250_000_000  # a settled lease may free quota earlier than the store could know


class _Key:
    """One limit key under one snapshot: its name and its buckets."""

    __slots__ = ("buckets", "leased", "name", "revision")

    def __init__(self, name: str, revision: int, buckets: tuple[Bucket, ...]) -> None:
        self.name = name
        self.revision = revision
        self.buckets = buckets
        self.leased = bool(buckets) and all(b.level.policy.consistency == "leased" for b in buckets)


class Limiter:
    """Decides on keys. ``check`` never blocks on metrics or streams, and ends within the bound of one store call."""

    def __init__(self, counter_store: CounterStore, recorder: Recorder, name: str) -> None:
        self._store = counter_store
        self._recorder = recorder
        self._without_store = WithoutStore()
        self._name = f"{name}.{secrets.token_hex(4)}"  # leases of a process that ended are nobody's
        self._policies = PolicySet([], 0, limits.LIMIT_LEASE_SHARE)
        self._keys: dict[tuple[str, str, str], _Key] = {}
        self._buckets: dict[tuple[str, int, str], Bucket] = {}
        self._identities = Identities(limits.LIMIT_IDENTITY_MS * _US_PER_MS * _NS_PER_US)
        self._under_way: dict[tuple[str, str], asyncio.Future[Decision]] = {}
        self._lease_numbers = itertools.count(1)
        self._calls = 0
        self.store_calls = 0
        self.decisions = 0

    @property
    def revision(self) -> int:
        """The revision of the policies in use."""
        return self._policies.revision

    def use(self, policies: PolicySet) -> None:
        """Other policies from now on. Leases of policies that changed end; what was spent of them is settled."""
        self._policies = policies
        self._keys.clear()
        versions = {(level.store_id, level.version) for level in policies.all_levels()}
        for place, bucket in list(self._buckets.items()):
            if place[:2] not in versions:
                bucket.end_lease()
                if not bucket.settling:
                    del self._buckets[place]

    async def check(self, tenant: str, user: str, route: str, cost: int = 1, request_id: str | None = None) -> Decision:
        """Decides and charges. Raises InvalidCommand for what can be no key or cost; nothing is consumed then."""
        place = (tenant, user, route)
        key = self._keys.get(place)
        if key is None:
            key = self._key(place)
        if not 0 <= cost <= limits.LIMIT_COST_MAX:
            reason = f"must be from 0 to {limits.LIMIT_COST_MAX}"
            raise errors.InvalidCommand([{"field": "cost", "reason": reason}])
        self.decisions += 1
        if not key.buckets:
            return UNLIMITED
        now_ns = time.monotonic_ns()
        if request_id is not None:
            known = self._identities.find((key.name, request_id), now_ns)
            if known is not None:
                return self._repeated(known, cost)
        local = self._locally(key, cost, now_ns)
        if local is not None:
            return self._finish(key, cost, request_id, local, now_ns)
        return await self._remotely(key, cost, request_id)

    def _key(self, place: tuple[str, str, str]) -> _Key:
        parts = keys.key_parts(*place)
        if len(self._keys) >= limits.LIMIT_LEASES_MAX:
            self._keys.clear()
        buckets = tuple(self._bucket(level, parts) for level in self._policies.levels(parts))
        key = self._keys[place] = _Key(keys.limit_key(parts), self._policies.revision, buckets)
        return key

    def _bucket(self, level: Level, parts: dict[str, str]) -> Bucket:
        values = "\x1f".join(parts[part] for part in KEY_PARTS if part in level.policy.per)
        place = (level.store_id, level.version, values)
        bucket = self._buckets.get(place)
        if bucket is None:
            if len(self._buckets) >= limits.LIMIT_LEASES_MAX:
                self._forget()
            bucket = self._buckets[place] = Bucket(level, values)
        return bucket

    def _forget(self) -> None:
        """Makes room: buckets that hold nothing are made again when they are asked for."""
        self._keys.clear()
        for place in [p for p, b in self._buckets.items() if not b.lease_id and not b.settling]:
            del self._buckets[place]

    def _repeated(self, known: tuple[int, Decision], cost: int) -> Decision:
        if known[0] != cost:
            raise errors.KeyReused
        return known[1]._replace(duplicate=True)

    def _locally(self, key: _Key, cost: int, now_ns: int) -> Decision | None:
        """The decision that leases, or a refusal that still holds, allow without the store."""
        for bucket in key.buckets:
            if now_ns < bucket.deny_until_ns and cost >= bucket.deny_cost and not bucket.level.policy.shadow:
                bucket.saw(cost, now_ns)
                wait = (bucket.deny_until_ns - now_ns) // 1_000_000 + 1
                return Decision(
                    False,
                    max(0, bucket.remaining),
                    bucket.reset_us // _US_PER_MS + 1,
                    wait,
                    bucket.level.id_,
                    bucket.level.version,
                    approximate=True,
                )
        if not key.leased or any(b.left < cost or now_ns >= b.lease_ends_ns for b in key.buckets):
            return None
        for bucket in key.buckets:
            bucket.left -= cost
            bucket.saw(cost, now_ns)
        least = min(key.buckets, key=lambda b: b.remaining + b.left)
        return Decision(
            True,
            least.remaining + least.left,
            least.reset_us // _US_PER_MS + 1,
            0,
            least.level.id_,
            least.level.version,
            approximate=True,
        )

    async def _remotely(self, key: _Key, cost: int, request_id: str | None) -> Decision:
        """One call of the store. The same identity at the same time waits for the first to be decided."""
        if request_id is None:
            return await self._ask(key, cost, None)
        place = (key.name, request_id)
        first = self._under_way.get(place)
        if first is not None:
            known = await asyncio.shield(first)
            return await self.check_again(key, cost, request_id, known)
        mine: asyncio.Future[Decision] = asyncio.get_running_loop().create_future()
        self._under_way[place] = mine
        try:
            decided = await self._ask(key, cost, request_id)
        except BaseException:
            mine.cancel()
            raise
        else:
            mine.set_result(decided)
            return decided
        finally:
            del self._under_way[place]

    async def check_again(self, key: _Key, cost: int, request_id: str, first: Decision) -> Decision:
        """After the same identity was decided: its answer, or a decision of its own where it had been refused."""
        known = self._identities.find((key.name, request_id), time.monotonic_ns())
        if known is not None:
            return self._repeated(known, cost)
        return first if first.degraded else await self._ask(key, cost, request_id)

    async def _ask(self, key: _Key, cost: int, request_id: str | None) -> Decision:
        if self._calls >= limits.LIMIT_STORE_CALLS_MAX:
            return self._degraded(key, cost)
        self._calls += 1
        self.store_calls += 1
        now_ns = time.monotonic_ns()
        lease_id = f"{self._name}.{next(self._lease_numbers)}".encode()
        terms = [self._asked(bucket, cost, now_ns) for bucket in key.buckets]
        identity = b"" if request_id is None else request_id.encode()
        try:
            await self._settle(key.buckets)
            answer = await self._store.decide(
                key.buckets, terms, cost, identity, b"rl:q:" + key.name.encode() + b"\x1f" + identity, lease_id
            )
        except store.StoreUnavailable:
            return self._degraded(key, cost)
        finally:
            self._calls -= 1
            for bucket, asked in zip(key.buckets, terms, strict=True):
                if asked is not bucket.plain_terms:
                    bucket.asking = False
        if answer[0] == store.CONFLICT:
            raise errors.KeyReused
        if answer[0] in (store.STALE_EPOCH, store.WRONG):
            return self._degraded(key, cost)
        decided = self._read(key, cost, answer, now_ns, lease_id)
        return self._finish(key, cost, request_id, decided, now_ns)

    def _asked(self, bucket: Bucket, cost: int, now_ns: int) -> bytes:
        bucket.saw(cost, now_ns)
        if bucket.lease_id and (now_ns >= bucket.lease_ends_ns or bucket.left < cost):
            bucket.end_lease()
        want = 0 if bucket.lease_id or bucket.asking else bucket.wanted(now_ns)
        bucket.asking = bucket.asking or want > 0
        return packed_terms(bucket.level, want) if want else bucket.plain_terms

    def _read(self, key: _Key, cost: int, answer: list[int], asked_ns: int, lease_id: bytes) -> Decision:
        """Takes in what the store said of every bucket; the decision is that of the bucket with least left."""
        code = answer[0]
        least: tuple[int, Bucket, int] | None = None
        for at, bucket in enumerate(key.buckets):
            available, reset_us, retry_us, _, granted, lease_us = answer[1 + at * store.ROW : 1 + (at + 1) * store.ROW]
            bucket.remaining, bucket.reset_us = available, reset_us
            if granted:
                bucket.end_lease()
                bucket.lease_id, bucket.granted, bucket.left = lease_id, granted, granted
                bucket.lease_ends_ns = asked_ns + int(lease_us * _NS_PER_US * _LEASE_CAUTION)
            if bucket.level.policy.shadow:
                continue
            if code == store.DENIED and retry_us:
                kept_ns = _DENIAL_KEPT_NS if retry_us < 0 else min(_DENIAL_KEPT_NS, retry_us * _NS_PER_US)
                bucket.deny_until_ns, bucket.deny_cost = asked_ns + kept_ns, cost
            weight = -retry_us if code == store.DENIED and retry_us >= 0 else available
            if retry_us < 0:
                weight = -(2**62)
            if least is None or weight < least[0]:
                least = (weight, bucket, retry_us)
        if least is None:
            return UNLIMITED  # only shadow policies govern the key
        _, bucket, retry_us = least
        retry_ms = -1 if retry_us < 0 else -(-retry_us // _US_PER_MS)
        level = bucket.level
        return Decision(
            code != store.DENIED,
            bucket.remaining + bucket.left,
            -(-bucket.reset_us // _US_PER_MS),
            retry_ms,
            level.id_,
            level.version,
            duplicate=code == store.DUPLICATE,
        )

    def _degraded(self, key: _Key, cost: int) -> Decision:
        """The failure mode's answer. Its identity is not remembered: a retry asks the store again."""
        decided = self._without_store.decide([b.level for b in key.buckets], key.name, cost)
        self._recorder.record(key.name, cost, decided)
        return decided

    def _finish(self, key: _Key, cost: int, request_id: str | None, decided: Decision, now_ns: int) -> Decision:
        """Remembers what was consumed under the identity, and hands the decision to the stream."""
        if request_id is not None and decided.allowed:
            self._identities.keep((key.name, request_id), cost, decided, now_ns)
        self._recorder.record(key.name, cost, decided)
        return decided

    async def _settle(self, buckets: Sequence[Bucket]) -> None:
        """Tells the store what ended leases spent. Raises StoreUnavailable, and keeps what was not told."""
        for bucket in buckets:
            while bucket.settling:
                ended = bucket.settling.pop()  # taken first: another call may be settling the same bucket
                try:
                    await self._store.settle(bucket, *ended)
                except store.StoreUnavailable:
                    bucket.settling.append(ended)
                    raise

    async def settle_ended(self) -> None:
        """Settles leases that ran out; called every now and then."""
        now_ns = time.monotonic_ns()
        for bucket in list(self._buckets.values()):
            if bucket.lease_id and now_ns >= bucket.lease_ends_ns:
                bucket.end_lease()
            if bucket.settling:
                await self._settle([bucket])

    async def close(self) -> None:
        """Gives every lease back. What cannot be told the store charges whole, in time."""
        for bucket in self._buckets.values():
            bucket.end_lease()
        await self.settle_ended()
