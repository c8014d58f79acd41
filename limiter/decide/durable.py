"""Levels of a key that the owner of its tenant counts, in Postgres: what a gateway does about them.

Levels at the counter store are charged first, under the identity of the request, and given back under it when the
request is refused after all: by a durable level, or by the failure mode because no owner answered. Only the try that
charged gives back: what an earlier one was charged may have been used. What the owner charged it charged once, and a
retry of the same identity hears the same answer; so a retry after a refusal charges the store anew and the owner not at
all. Without an identity one is made, for this request alone.

Nothing of a durable level lies in the counter store. A gateway only remembers for a moment what an owner refused
(``store_exchange.taken_in``): a tenant that is over its quota does not become a load on Kafka.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import structlog

from limiter.decide import local_decisions
from limiter.decide.store_exchange import shadows_that_refuse, taken_in
from limiter.policy import keys
from limiter.spending.decision import UNLIMITED, Decision
from limiter.spending.key_state import DurableKey, KeyState
from limiter.store import store
from limiter.store.lease_clock import lease_clock_ns
from schemas import errors

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from limiter.decide.failure import WithoutStore
    from limiter.decide.identities import Identities
    from limiter.policy.policies import PolicySet
    from limiter.spending.buckets import Bucket
    from limiter.store.sharded_store import ShardedStore
    from limiter.store.store import CounterStore
    from limiter.stream.decisions import Shadow

    AskStore = Callable[[KeyState, int, str | None, list[Shadow]], Awaitable[Decision | None]]

_US_PER_MS: Final = 1_000
_log: Final = structlog.get_logger(__name__)


class Asked(NamedTuple):
    """One request to the owner of a tenant's quotas."""

    parts: dict[str, str]
    cost: int
    identity: str  # digest
    levels: tuple[tuple[str, int, str], ...]  # policy, the version known here, the values that it counts by


class Left(NamedTuple):
    """What the owner says of one level."""

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
    """The way to the owners. The library knows no Kafka: a gateway that has none decides by the failure mode."""

    def prepare(self) -> None:
        """There is a durable policy: connects in the background. Called often."""

    async def consume(self, asked: Asked) -> Answer:
        """The owner's answer, the same one for an identity. Raises OwnerUnavailable, KeyReused."""

    async def refund(self, tenant: str, consumed: str) -> int:
        """Gives back, once, what was consumed under a digest: its cost, 0 for nothing. Raises OwnerUnavailable."""


class DurableLevels:
    """Decides keys with durable levels, for one limiter."""

    def __init__(
        self,
        quotas: DurableQuotas | None,
        ask_store: AskStore,
        counter_store: CounterStore | ShardedStore,
        without: WithoutStore,
        identities: Identities,
    ) -> None:
        self._quotas = quotas
        self._ask_store = ask_store
        self._store = counter_store
        self._without = without
        self._identities = identities
        self.unanswered = 0  # decided by the failure mode because no owner answered

    def prepare(self, policies: PolicySet) -> None:
        """Policies have changed: the way to the owners is opened when one of them is durable."""
        durable = [level.id_ for level in policies.all_levels() if level.policy.consistency == "durable"]
        if not durable:
            return
        if self._quotas is None:
            _log.warning("durable_quotas_not_offered", policies=durable[:10], decided_by="failure mode")
        else:
            self._quotas.prepare()

    async def decide(self, key: DurableKey, cost: int, request_id: str | None, shadows: list[Shadow]) -> Decision:
        """Charges every level or none, as far as is known; degraded when a store or an owner did not answer.

        ``shadows``: afterwards those too that would have refused it. Raises KeyReused.
        """
        doubtful = request_id is not None and (key.key.name, request_id) in self._identities.doubtful
        refused = None if doubtful else local_decisions.refused(key.owned, cost, lease_clock_ns(), shadows)
        if refused is not None:
            return refused
        request = request_id or uuid.uuid4().hex
        reserved = UNLIMITED
        if key.stored is not None:
            answered = await self._ask_store(key.stored, cost, request, shadows)
            if answered is None or not answered.allowed:
                return answered or self._without.decide(key.key, cost, request_id)
            reserved = answered
        try:
            decided = await self._ask_owner(key, cost, request, shadows)
        except errors.KeyReused:
            await self._give_back(key, reserved, request)
            raise
        if decided is None:
            self.unanswered += 1
            if not key.owned.real:
                return reserved  # a policy in shadow mode decides nothing, whoever is away
            if request_id is not None:
                self._identities.doubt((key.key.name, request_id), lease_clock_ns())
            decided = self._without.decide(key.key, cost, request_id)
        if not decided.allowed:
            await self._give_back(key, reserved, request)
            return decided
        return _tighter(reserved, decided)

    async def refund(self, key: DurableKey, request_id: str) -> int:
        """Gives back what the owner, and beside it the store, charged under an identity: its cost, 0 for nothing.

        Once: asked again it says the same, and gives back nothing more. Raises OwnerUnavailable.
        """
        if self._quotas is None:
            raise OwnerUnavailable("This process has no way to the owners of durable quotas: ask another gateway.")
        consumed = keys.identity_digest(key.key.name, request_id.encode())
        cost = await self._quotas.refund(key.parts["tenant"], consumed)
        if cost:
            await self._give_back(key, UNLIMITED, request_id)
            for bucket in key.owned.buckets:
                bucket.deny_until_ns = 0  # what it was refused for may be there again
        return cost

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

    async def _give_back(self, key: DurableKey, reserved: Decision, request: str) -> None:
        """What this try charged the levels at the store; without the store it stays charged, and nothing is twice."""
        if key.stored is None or reserved.duplicate:
            return
        identity = request.encode()
        try:
            counters = self._store.store_of(key.stored.buckets)
            await counters.refund(key.stored.buckets, identity, keys.identity_key(key.key.name, identity))
        except store.StoreUnavailable as error:
            _log.info("not_given_back", reason=str(error.context.get("cause", "")))


def _not_governed(bucket: Bucket) -> Left:
    """The version in force is not for this key any more: the owner has left the level out."""
    return Left(bucket.version, bucket.level.policy.capacity, 0, 0)


def _tighter(reserved: Decision, decided: Decision) -> Decision:
    """Of two that allow, the one with least left; what is said of neither is not told."""
    if not reserved.policy_id or not decided.policy_id or decided.degraded:
        return decided if decided.policy_id else reserved
    return decided if decided.remaining <= reserved.remaining else reserved
