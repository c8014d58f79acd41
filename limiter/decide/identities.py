"""What was consumed under which identity, for two generations of a bounded time: a retry finds its first answer.

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
    """Identities of one gateway. Each is kept for at least ``life_ns``, while a generation of its shard is not full.

    ``spent`` has all of them, with their costs; the answers that the store gave are kept beside it.
    """

    def __init__(self, life_ns: int) -> None:
        self._life_ns = life_ns
        now_ns = lease_clock_ns()
        self._since_ns = [now_ns - life_ns * at // SHARDS for at in range(SHARDS)]  # not all of them turn at once
        self.spent = SpentIdentities(SHARDS)
        self._answers: list[dict[Identity, Decision]] = [{}, {}]
        self._answers_since_ns = now_ns
        #: what the store was asked about and did not answer, with the time: it may have charged, only it knows
        self.doubtful: dict[Identity, int] = {}

    def find(self, key: KeyState, request_id: str) -> Known | None:
        """The cost and the answer under an identity; no answer where a lease gave it."""
        cost = self.spent.cost_of(key.name, request_id)
        if cost < 0:
            return None
        identity = (key.name, request_id)
        if identity in self.doubtful:  # it was given back: only the store knows what is charged now
            return None
        young, old = self._answers
        return cost, young.get(identity) or old.get(identity)

    def keep(self, key: KeyState, request_id: str, cost: int, answer: Decision | None) -> None:
        """Remembers what was consumed; ``answer`` is None where a lease gave it."""
        identity = (key.name, request_id)
        self.doubtful.pop(identity, None)
        self.spent.add(key.name, request_id, cost)
        if answer is not None:
            self._answers[0][identity] = answer

    def doubt(self, identity: Identity, now_ns: int) -> None:
        """The store alone decides on it for as long as it remembers it; the oldest is forgotten for one too many."""
        if len(self.doubtful) >= limits.LIMIT_DOUBTS_MAX:
            del self.doubtful[next(iter(self.doubtful))]
        self.doubtful.pop(identity, None)  # the newest is last
        self.doubtful[identity] = now_ns

    def turn(self, now_ns: int) -> None:
        """Called every now and then: young generations whose time is over grow old, the old ones are forgotten."""
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
