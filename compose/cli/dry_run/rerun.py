"""Decides past requests again, by exact counters of other policies, and counts what comes out otherwise.

Callers are taken to ask what they asked. Leases are not imitated: what a leased policy refused early, because its
leases were idle elsewhere, is allowed here. Permits of concurrency end when their holders say so, which no stream
knows: such policies allow everything.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from compose.stack.errors import StackError
from limiter.policy.keys import parts_of
from schemas.limiter import limits
from schemas.limiter.exact_counter import ALGORITHMS, ExactCounter

if TYPE_CHECKING:
    from collections.abc import Iterable

    from compose.cli.dry_run.history import Past
    from limiter.policy.level import Level
    from limiter.policy.policies import PolicySet

_OUTCOMES: Final = {
    (True, True): "still_allowed",
    (False, False): "still_denied",
    (True, False): "newly_denied",
    (False, True): "newly_allowed",
}

Judged = tuple[ExactCounter, "Level"]


class TooManyCounters(StackError):
    """More counters are in use at once than a dry run may hold."""


class Rerun:
    """The other policies, with counters that begin empty."""

    def __init__(self, policies: PolicySet) -> None:
        self._policies = policies
        self._keys: dict[str, list[Judged]] = {}
        self._counters: dict[tuple[str, str], ExactCounter] = {}
        self.decisions: Counter[str] = Counter()
        self.costs: Counter[str] = Counter()
        self.by_policy: dict[str, Counter[str]] = {}
        self.by_key: dict[str, Counter[str]] = {"newly_denied": Counter(), "newly_allowed": Counter()}

    def take(self, batch: Iterable[Past], counted_from_us: int) -> None:
        """Decisions in the order of time; what was decided before ``counted_from_us`` only fills the counters."""
        for past in batch:
            denier = self._denier(past)
            if past.at_us < counted_from_us:
                continue
            outcome = _OUTCOMES[past.allowed, denier is None]
            self.decisions[outcome] += 1
            self.costs[outcome] += past.cost
            if outcome in self.by_key:
                policy = past.policy_id if denier is None else denier
                self.by_policy.setdefault(policy, Counter())[outcome] += 1
                self._note(self.by_key[outcome], past.key)

    @property
    def counters(self) -> int:
        """How many are held."""
        return len(self._counters)

    def result(self, keys: int) -> dict[str, Any]:
        """What came out otherwise, by policy, and the keys that would feel it most."""
        return {
            **{outcome: self.decisions[outcome] for outcome in _OUTCOMES.values()},
            "cost": {outcome: self.costs[outcome] for outcome in _OUTCOMES.values()},
            "policies": [
                {"policy_id": policy, **{outcome: found[outcome] for outcome in self.by_key}}
                for policy, found in sorted(self.by_policy.items())
            ],
            "keys": {
                outcome: [{"key": key, "decisions": count} for key, count in found.most_common(keys)]
                for outcome, found in self.by_key.items()
            },
        }

    def _denier(self, past: Past) -> str | None:
        """The policy that refuses it, or None, and then it is charged to every level."""
        judged = self._keys.get(past.key)
        if judged is None:
            judged = self._known(past)
        for counter, level in judged:
            if counter.available(past.at_us) < past.cost:
                return level.id_
        for counter, _ in judged:
            counter.charge(past.at_us, past.cost)
        return None

    def _known(self, past: Past) -> list[Judged]:
        if len(self._keys) >= limits.LIMIT_DRY_RUN_KEYS_MAX or len(self._counters) >= limits.LIMIT_DRY_RUN_KEYS_MAX:
            self._forget(past.at_us)
        parts = parts_of(past.key)
        judged = []
        for level in self._policies.levels(parts):
            if level.policy.shadow or level.terms.algorithm not in ALGORITHMS:
                continue
            place = level.id_, level.counted_by(parts)
            counter = self._counters.setdefault(place, ExactCounter(level.terms))
            judged.append((counter, level))
        self._keys[past.key] = judged
        return judged

    def _forget(self, now_us: int) -> None:
        """Counters that nothing is left in are as good as new ones. Raises TooManyCounters."""
        self._keys.clear()
        self._counters = {
            place: counter
            for place, counter in self._counters.items()
            if counter.available(now_us) < counter.terms.capacity
        }
        if len(self._counters) > limits.LIMIT_DRY_RUN_KEYS_MAX // 2:
            raise TooManyCounters("too many counters are in use at once: take fewer policies, or a shorter time")

    @staticmethod
    def _note(found: Counter[str], key: str) -> None:
        found[key] += 1
        if len(found) > limits.LIMIT_DRY_RUN_KEYS_MAX:
            kept = found.most_common(limits.LIMIT_DRY_RUN_KEYS_MAX // 2)
            found.clear()
            found.update(dict(kept))
