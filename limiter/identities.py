"""What was consumed under which identity, for two generations of a bounded time: a retry finds its first answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from limiter.decision import Decision

Identity = tuple[str, str]  # limit key, request id
_GENERATION_MAX: Final = 1_000_000  # a full generation makes room at once: forgetting early is better than no memory


class Identities:
    """Identities of one gateway. Each is kept for at least ``life_ns``, while a generation is not full."""

    def __init__(self, life_ns: int) -> None:
        self._life_ns = life_ns
        self._young: dict[Identity, tuple[int, Decision]] = {}
        self._old: dict[Identity, tuple[int, Decision]] = {}
        self._since_ns = 0

    def find(self, identity: Identity, now_ns: int) -> tuple[int, Decision] | None:
        """The cost and the decision under an identity."""
        self._turn(now_ns)
        return self._young.get(identity) or self._old.get(identity)

    def keep(self, identity: Identity, cost: int, decision: Decision, now_ns: int) -> None:
        """Remembers what was consumed."""
        self._turn(now_ns)
        self._young[identity] = (cost, decision)

    def _turn(self, now_ns: int) -> None:
        if now_ns - self._since_ns > self._life_ns or len(self._young) >= _GENERATION_MAX:
            self._old, self._young = self._young, {}
            self._since_ns = now_ns
