"""What was consumed under which identity, for two generations of a bounded time: a retry finds its first answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from schemas import limits

if TYPE_CHECKING:
    from limiter.decision import Decision

Identity = tuple[str, str]  # limit key, request id
Generation = dict[Identity, tuple[int, "Decision"]]


class Identities:
    """Identities of one gateway. Each is kept for at least ``life_ns``, while a generation is not full.

    ``generations`` is the young and the old one; its two places are read by the fast path, which never turns them.
    """

    def __init__(self, life_ns: int) -> None:
        self._life_ns = life_ns
        self._since_ns = 0
        self.generations: list[Generation] = [{}, {}]
        #: what the store was asked about and did not answer, with the time: it may have charged, only it knows
        self.doubtful: dict[Identity, int] = {}

    def find(self, identity: Identity) -> tuple[int, Decision] | None:
        """The cost and the decision under an identity."""
        young, old = self.generations
        return young.get(identity) or old.get(identity)

    def keep(self, identity: Identity, cost: int, decision: Decision) -> None:
        """Remembers what was consumed."""
        self.generations[0][identity] = (cost, decision)
        self.doubtful.pop(identity, None)

    def doubt(self, identity: Identity, now_ns: int) -> None:
        """The store alone decides on it for as long as it remembers it; the oldest is forgotten for one too many."""
        if len(self.doubtful) >= limits.LIMIT_DOUBTS_MAX:
            del self.doubtful[next(iter(self.doubtful))]
        self.doubtful.pop(identity, None)  # the newest is last
        self.doubtful[identity] = now_ns

    def turn(self, now_ns: int) -> None:
        """Called every now and then: the young generation grows old, the old one is forgotten."""
        young = self.generations[0]
        if now_ns - self._since_ns > self._life_ns or len(young) >= limits.LIMIT_IDENTITIES_MAX:
            self.generations[:] = [{}, young]
            self._since_ns = now_ns
        while self.doubtful:
            oldest = next(iter(self.doubtful))
            if now_ns - self.doubtful[oldest] <= self._life_ns:
                break
            del self.doubtful[oldest]
