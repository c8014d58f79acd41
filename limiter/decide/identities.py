"""Remembers what each identity consumed, for two generations of a bounded time, so a retry finds its first answer.

Source: reference limiter 3 rule 5.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from limiter.spending.fields import Identity, SpentIdentities
from limiter.store.lease_clock import lease_clock_ns
from schemas.limiter import limits

if TYPE_CHECKING:
    from limiter.spending.decision import Decision
    from limiter.spending.key_state import KeyState

Known = tuple[int, "Decision | None"]
SHARDS: Final = 64


class Identities:
    """The identities of one gateway. Each is kept for at least ``life_ns``, unless a generation of its shard is full.

    ``spent`` has all of them with their costs; the store's answers are kept beside it.
    """

    def __init__(self, life_ns: int) -> None:
        self._life_ns = life_ns
        now_ns = lease_clock_ns()
        self._since_ns = [now_ns - life_ns * at // SHARDS for at in range(SHARDS)]  # they do not all turn at once
        self.spent = SpentIdentities(SHARDS)
        self._answers: list[dict[Identity, Decision]] = [{}, {}]
        self._answers_since_ns = now_ns
        #: identities whose question the store did not answer, with the time: only the store knows whether it charged
        self.doubtful: dict[Identity, int] = {}

    def find(self, key: KeyState, request_id: str) -> Known | None:
        """The cost and the answer of an identity; no answer if a lease paid it."""
        cost = self.spent.cost_of(key.name, request_id)
        if cost < 0:
            return None
        identity = (key.name, request_id)
        if identity in self.doubtful:  # only the store knows what is charged now
            return None
        young, old = self._answers
        return cost, young.get(identity) or old.get(identity)

    def keep(self, key: KeyState, request_id: str, cost: int, answer: Decision | None) -> None:
        """Remembers what was consumed; ``answer`` is None if a lease paid it."""
        identity = (key.name, request_id)
        self.doubtful.pop(identity, None)
        self.spent.add(key.name, request_id, cost)
        if answer is not None:
            self._answers[0][identity] = answer

    def doubt(self, identity: Identity, now_ns: int) -> None:
        """Leaves an identity to the store, which decides alone while it remembers it. Forgets the oldest if full."""
        if len(self.doubtful) >= limits.LIMIT_DOUBTS_MAX:
            del self.doubtful[next(iter(self.doubtful))]
        self.doubtful.pop(identity, None)  # the newest is last
        self.doubtful[identity] = now_ns

    def turn(self, now_ns: int) -> None:
        """Called now and then: forgets old generations; young ones whose time is over become old."""
        for shard, since_ns in enumerate(self._since_ns):
            full = self.spent.young(shard) >= limits.LIMIT_IDENTITIES_MAX // SHARDS
            if full or now_ns - since_ns > self._life_ns:
                self.spent.turn(shard)
                self._since_ns[shard] = now_ns
        full = len(self._answers[0]) >= limits.LIMIT_ANSWERS_MAX
        if full or now_ns - self._answers_since_ns > self._life_ns:
            self._answers = [{}, self._answers[0]]
            self._answers_since_ns = now_ns
        while self.doubtful:
            oldest = next(iter(self.doubtful))
            if now_ns - self.doubtful[oldest] <= self._life_ns:
                break
            del self.doubtful[oldest]
