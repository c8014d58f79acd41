"""What was consumed under which identity, for two generations of a bounded time: a retry finds its first answer.

An identity costs the reference to its text and one to its key, nothing that is made for it: what is allocated for every
decision is paid in page faults and garbage collection. The tables are many small ones by the hash of the identity, each
with generations of its own: one that grows, or is forgotten, does not hold up a decision for long.
Source: reference limiter 3 rule 5.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, Union

from schemas import limits

if TYPE_CHECKING:
    from limiter.buckets import KeyState
    from limiter.decision import Decision

Identity = tuple[str, str]  # limit key, request id
#: the key alone: cost 1 out of its lease. Otherwise its cost, and what was answered unless a lease did
Entry = Union["KeyState", tuple["KeyState", int, "Decision | None"]]
Known = tuple[int, "Decision | None"]
Generations = list[dict[str, Entry]]  # the young one and the old one
SHARDS: Final = 64  # a power of two: a spender takes the low bits of a hash


class Identities:
    """Identities of one gateway. Each is kept for at least ``life_ns``, while a generation of its table is not full.

    ``tables`` are pairs of the young and the old generation; the fast path reads and fills them, and never turns them.
    An identity that two keys use is kept under its key's name for the second one, as long as for the first.
    """

    def __init__(self, life_ns: int) -> None:
        self._life_ns = life_ns
        now_ns = time.monotonic_ns()
        self._since_ns = [now_ns - life_ns * at // SHARDS for at in range(SHARDS)]  # not all of them turn at once
        self.tables: list[Generations] = [[{}, {}] for _ in range(SHARDS)]
        #: what the store was asked about and did not answer, with the time: it may have charged, only it knows
        self.doubtful: dict[Identity, int] = {}

    def find(self, key: KeyState, request_id: str) -> Known | None:
        """The cost and the answer under an identity; no answer where a lease gave it."""
        young, old = self.tables[hash(request_id) % SHARDS]
        first = young.get(request_id) or old.get(request_id)
        for entry in (first, first and self._second(key, request_id)):
            if entry is None:
                return None
            of, cost, answer = entry if isinstance(entry, tuple) else (entry, 1, None)
            if of.name == key.name:
                return cost, answer
        return None

    def _second(self, key: KeyState, request_id: str) -> Entry | None:
        young, old = self.tables[hash(request_id) % SHARDS]
        place = f"{key.name}\x1f{request_id}"
        return young.get(place) or old.get(place)

    def keep(self, key: KeyState, request_id: str, cost: int, answer: Decision | None) -> None:
        """Remembers what was consumed; ``answer`` is None where a lease gave it."""
        self.doubtful.pop((key.name, request_id), None)
        young, old = self.tables[hash(request_id) % SHARDS]
        entry = key if cost == 1 and answer is None else (key, cost, answer)
        first = young.get(request_id) or old.get(request_id)
        if first is None or (first[0] if isinstance(first, tuple) else first).name == key.name:
            young[request_id] = entry
        else:
            young[request_id] = first  # it is looked at first, so it must not be forgotten before this one
            young[f"{key.name}\x1f{request_id}"] = entry

    def doubt(self, identity: Identity, now_ns: int) -> None:
        """The store alone decides on it for as long as it remembers it; the oldest is forgotten for one too many."""
        if len(self.doubtful) >= limits.LIMIT_DOUBTS_MAX:
            del self.doubtful[next(iter(self.doubtful))]
        self.doubtful.pop(identity, None)  # the newest is last
        self.doubtful[identity] = now_ns

    def turn(self, now_ns: int) -> None:
        """Called every now and then: young generations whose time is over grow old, the old ones are forgotten."""
        for at, table in enumerate(self.tables):
            full = len(table[0]) >= limits.LIMIT_IDENTITIES_MAX // SHARDS
            if full or now_ns - self._since_ns[at] > self._life_ns:
                table[:] = [{}, table[0]]
                self._since_ns[at] = now_ns
        while self.doubtful:
            oldest = next(iter(self.doubtful))
            if now_ns - self.doubtful[oldest] <= self._life_ns:
                break
            del self.doubtful[oldest]
