"""The gateway's part in durable levels of a key, which the owner of the tenant counts in Postgres.

The store's levels are charged first, under the identity of the request, and given back under it if the request is
refused after all, by a durable level or by the failure mode because no owner answered, or if its caller has gone. Not
where an earlier try was allowed, here or at another gateway, since its charge may have been used. The owner charges an
identity once and repeats its answer. So a retry after a refusal charges the store anew, and the owner not at all. A
request without an identity gets its own.

The counter store holds nothing of a durable level. A gateway only remembers an owner's refusal for a moment
(``store_exchange.taken_in``), so that a tenant over its quota does not become a load on Kafka.
"""

from __future__ import annotations

import asyncio
import uuid
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import structlog

from limiter.decide import local_decisions
from limiter.decide.store_exchange import shadows_that_refuse, taken_in
from limiter.policy import keys
from limiter.spending.decision import UNLIMITED, Decision
from limiter.store import store
from limiter.store.lease_clock import lease_clock_ns
from schemas import errors

if TYPE_CHECKING:
    from limiter.decide.failure import WithoutStore
    from limiter.decide.identities import Identities
    from limiter.decide.store_calls import StoreCalls
    from limiter.policy.policies import PolicySet
    from limiter.spending.buckets import Bucket
    from limiter.spending.key_state import DurableKey
    from limiter.store.sharded_store import ShardedStore
    from limiter.store.store import CounterStore
    from limiter.stream.decisions import Shadow

_US_PER_MS: Final = 1_000
_log: Final = structlog.get_logger(__name__)


class Asked(NamedTuple):
    """One request to the owner of a tenant's quotas."""

    parts: dict[str, str]
    cost: int
    identity: str  # digest
    levels: tuple[tuple[str, int, str], ...]  # policy, the version known here, the values that it is counted by


class Left(NamedTuple):
    """The owner's answer for one level."""

    policy_version: int
    remaining: int
    reset_us: int
    retry_us: int


class Answer(NamedTuple):
    """The owner's decision; ``levels`` by policy."""

    allowed: bool
    duplicate: bool
    levels: dict[str, Left]


class OwnerUnavailable(errors.Unavailable):
    """The owner did not answer in time: whether it charged, the same identity will find out."""


class DurableQuotas(Protocol):
    """The connection to owners. The library knows no Kafka: without one the failure mode decides."""

    def prepare(self) -> None:
        """Connects in the background, because there is a durable policy. Called often."""

    async def consume(self, asked: Asked) -> Answer:
        """The owner's answer, always the same for an identity. Raises OwnerUnavailable, KeyReused."""

    async def refund(self, tenant: str, consumed: str) -> int:
        """Gives back, once, what a digest consumed. Returns its cost, 0 for nothing. Raises OwnerUnavailable."""


class DurableLevels:
    """Decides keys with durable levels, for one limiter."""

    def __init__(
        self,
        quotas: DurableQuotas | None,
        calls: StoreCalls,
        counter_store: CounterStore | ShardedStore,
        without: WithoutStore,
        identities: Identities,
    ) -> None:
        self._quotas = quotas
        self._calls = calls
        self._store = counter_store
        self._without = without
        self._identities = identities
        self.unanswered = 0  # how many the failure mode decided because no owner answered

    def prepare(self, policies: PolicySet) -> None:
        """Connects to owners if one of the changed policies is durable."""
        durable = [level.id_ for level in policies.all_levels() if level.policy.consistency == "durable"]
        if not durable:
            return
        if self._quotas is None:
            _log.warning("durable_quotas_not_offered", policies=durable[:10], decided_by="failure mode")
        else:
            self._quotas.prepare()

    async def decide(self, key: DurableKey, cost: int, request_id: str | None, shadows: list[Shadow]) -> Decision:
        """Charges every level or none, as far as known; degraded if a store or an owner did not answer.

        Adds to ``shadows`` those that would have refused it. Raises KeyReused.
        """
        doubtful = request_id is not None and (key.key.name, request_id) in self._identities.doubtful
        refused = None if doubtful else local_decisions.refused(key.owned, cost, lease_clock_ns(), shadows)
        if refused is not None:
            return refused
        request = request_id or uuid.uuid4().hex
        reserved = UNLIMITED
        if key.stored is not None:
            answered = await self._calls.ask(key.stored, cost, request, shadows)
            if answered is None or not answered.allowed:
                return answered or self._without.decide(key.key, cost, request_id)
            reserved = answered
        decided = await self._ask_owner_or_give_back(key, cost, request, shadows)
        if decided is None:
            self.unanswered += 1
            if not key.owned.real:
                return reserved  # a policy in shadow mode decides nothing, during outages too
            if request_id is not None:
                self._identities.doubt((key.key.name, request_id), lease_clock_ns())
            decided = self._without.decide(key.key, cost, request_id)
        if not decided.allowed:
            await self._give_back(key, cost, request)
            return decided
        return _tighter(reserved, decided)

    async def refund(self, key: DurableKey, request_id: str) -> int:
        """Gives back what the owner and the store charged under an identity. Returns its cost, 0 for nothing.

        A second call returns the same and gives back nothing more. Raises OwnerUnavailable.
        """
        if self._quotas is None:
            raise OwnerUnavailable("This process has no way to the owners of durable quotas: ask another gateway.")
        consumed = keys.identity_digest(key.key.name, request_id.encode())
        cost = await self._quotas.refund(key.parts["tenant"], consumed)
        if cost:
            await self._refunded(key, request_id)
            for bucket in key.owned.buckets:
                bucket.deny_until_ns = 0  # what was refused may fit again
        return cost

    async def _ask_owner_or_give_back(
        self, key: DurableKey, cost: int, request: str, shadows: list[Shadow]
    ) -> Decision | None:
        try:
            return await self._ask_owner(key, cost, request, shadows)
        except errors.KeyReused:
            await self._give_back(key, cost, request)
            raise
        except asyncio.CancelledError:  # the caller has gone
            if key.stored is not None:
                self._calls.left(key.stored, cost, request)
            raise

    async def _ask_owner(self, key: DurableKey, cost: int, request: str, shadows: list[Shadow]) -> Decision | None:
        if self._quotas is None:
            return None
        asked_ns = lease_clock_ns()
        identity = keys.identity_digest(key.key.name, request.encode())
        try:
            answer = await self._quotas.consume(Asked(key.parts, cost, identity, key.levels))
        except OwnerUnavailable as error:
            _log.info("owner_did_not_answer", reason=str(error.context.get("cause", "")))
            return None
        code = store.DENIED if not answer.allowed else store.DUPLICATE if answer.duplicate else store.OK
        numbers = [code]
        for bucket in key.owned.buckets:
            left = answer.levels.get(bucket.id_) or _not_governed(bucket)
            numbers += (left.remaining, left.reset_us, left.retry_us, left.policy_version, 0, 0)
        shadows += shadows_that_refuse(key.owned, numbers)
        decided = taken_in(key.owned, cost, numbers, asked_ns, b"", 0)
        if decided.policy_id in answer.levels:
            return decided._replace(policy_version=answer.levels[decided.policy_id].policy_version)
        return decided

    async def _give_back(self, key: DurableKey, cost: int, request: str) -> None:
        """Gives back what a refused try charged at the store. Without the store it stays charged, but not twice."""
        if key.stored is None or self._calls.is_again(key.stored, request):
            return
        try:
            await self._calls.give_back(key.stored, cost, request)
        except store.StoreUnavailable as error:
            _log.info("not_given_back", reason=str(error.context.get("cause", "")))

    async def _refunded(self, key: DurableKey, request: str) -> None:
        """Gives back what the store was charged for a request, wherever. Without the store it stays charged."""
        if key.stored is None:
            return
        identity = request.encode()
        try:
            counters = self._store.store_of(key.stored.buckets)
            await counters.refund(key.stored.buckets, identity, keys.identity_key(key.key.name, identity))
        except store.StoreUnavailable as error:
            _log.info("not_given_back", reason=str(error.context.get("cause", "")))


def _not_governed(bucket: Bucket) -> Left:
    """The answer for a level that the owner left out, because the version in force no longer covers this key."""
    return Left(bucket.version, bucket.level.policy.capacity, 0, 0)


def _tighter(reserved: Decision, decided: Decision) -> Decision:
    """Of two answers that allow, the one with least left."""
    if not reserved.policy_id or not decided.policy_id or decided.degraded:
        return decided if decided.policy_id else reserved
    return decided if decided.remaining <= reserved.remaining else reserved
