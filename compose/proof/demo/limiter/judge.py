"""Holds every answer of the gateways against the exact oracle, and counts what must not be.

Exact policies: what was admitted had room, what was refused had none, one identity was charged once over all gateways.
Leased policies: what was admitted had room; refusals may come early, and how early is told. An identity under a leased
policy is known to its own gateway only, so a request that a killed gateway left unanswered may have been charged there
and again at another: at most that much is allowed for it in the accounts, never in what clients were admitted.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from compose.proof import limits
from compose.proof.demo.limiter.oracle import BracketedCounter, bound
from limiter.frames.frames import DUPLICATE, INVALID, REUSED
from limiter.policy.keys import key_parts
from limiter.policy.policies import PolicySet
from schemas.limiter.limit_policy import KEY_PARTS, LimitPolicy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from compose.proof.demo.limiter.policies import Asked
    from limiter.frames.frames import Answer
    from limiter.policy.level import Level
    from schemas.limiter.limit_terms import Terms

CounterName = tuple[str, str]  # policy, values of the key's parts that it counts by


@dataclass
class Counter:
    """One counter as clients saw it."""

    level: Level
    values: str
    bracket: BracketedCounter
    versions: list[Terms]
    admitted: int = 0
    refused: int = 0
    over_admitted: int = 0
    first_us: int = 0
    last_us: int = 0
    least_room: int = 2**62  # left after an admission, by the more generous side of the oracle
    early_by: int = 0  # the largest room that was left at a refusal
    unanswered: int = 0  # cost that a killed gateway may have charged without telling

    @property
    def is_leased(self) -> bool:
        """Whether gateways hold leases of it."""
        return self.level.policy.consistency == "leased"

    @property
    def bound(self) -> int:
        """What it may have admitted from its first request to its last."""
        return bound(self.versions, self.first_us, self.last_us)


@dataclass
class Judge:
    """The verdict as it grows. One request of a counter at a time."""

    versions: list[list[LimitPolicy]]  # each list: everything in force at one revision
    counters: dict[CounterName, Counter] = field(default_factory=dict)
    decisions: int = 0
    repeats: int = 0  # answers that said: decided before
    over_admitted: int = 0
    wrongly_refused: int = 0
    duplicates_charged: int = 0
    forgotten: int = 0  # retries of something admitted that were refused
    invalid: int = 0
    problems: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._sets = [PolicySet(found, n + 1) for n, found in enumerate(self.versions)]

    def counters_of(self, asked: Asked) -> list[Counter]:
        """Every counter that must have room for it, in a fixed order."""
        parts = key_parts(asked.tenant, asked.user, asked.route)
        found = []
        for level in self._sets[0].levels(parts):
            values = "\x1f".join(parts[part] for part in KEY_PARTS if part in level.policy.per)
            counter = self.counters.get((level.id_, values))
            if counter is None:
                counter = Counter(level, values, BracketedCounter(level.terms), [level.terms])
                self.counters[level.id_, values] = counter
            found.append(counter)
        return sorted(found, key=lambda counter: (counter.level.id_, counter.values))

    def hear(
        self, asked: Asked, answers: Sequence[Answer], *, asked_us: int, answered_us: int, was_charged: bool = False
    ) -> bool:
        """Answers that one identity got between two times; gives whether it has been charged now or before."""
        counters = self.counters_of(asked)
        self.decisions += len(answers)
        if any(answer.flags & (INVALID | REUSED) for answer in answers):
            self.invalid += 1
            self._tell(f"{asked.tenant} {asked.user}: answered as invalid")
            return was_charged
        if len(counters) == 1:  # an answer that is repeated never came to the counter
            versions = [answer.policy_version for answer in answers if not answer.flags & DUPLICATE]
            self._follow_version(counters[0], max(versions, default=0), asked_us, answered_us)
        admitted = [answer for answer in answers if answer.allowed]
        fresh = sum(not answer.flags & DUPLICATE for answer in admitted)
        self.repeats += len(admitted) - fresh
        charged = max(fresh - (not was_charged), 0)
        self.duplicates_charged += charged
        if charged:
            self._tell(f"{asked.tenant} {asked.user}: one identity was charged {charged + 1} times")
        if was_charged:
            self.forgotten += len(answers) - len(admitted)
            return True
        if len(admitted) < len(answers):
            self._refused(counters, asked, asked_us, len(answers) - len(admitted))
        if admitted:
            self._admitted(counters, asked, asked_us, answered_us)
        return bool(admitted)

    def _follow_version(self, counter: Counter, version: int, asked_us: int, answered_us: int) -> None:
        """The newest version that any gateway knows decides at the store for all of them."""
        if version <= counter.level.version:
            return
        levels = [level for found in self._sets for level in found.all_levels() if level.id_ == counter.level.id_]
        newer = [level for level in levels if level.version == version]
        if not newer:
            self._tell(f"{counter.level.id_}: answered by version {version}, which was never published")
            return
        counter.level = newer[0]
        counter.versions.append(newer[0].terms)
        counter.bracket.carry_over(newer[0].terms, asked_us, answered_us)

    def _admitted(self, counters: list[Counter], asked: Asked, asked_us: int, answered_us: int) -> None:
        for counter in counters:
            room = counter.bracket.most.available(answered_us)
            if asked.cost > room:
                counter.over_admitted += asked.cost - max(room, 0)
                self.over_admitted += 1
                self._tell(f"{counter.level.id_}: admitted {asked.cost} where at most {max(room, 0)} were left")
            counter.least_room = min(counter.least_room, room - asked.cost)
            counter.admitted += asked.cost
            counter.first_us, counter.last_us = counter.first_us or asked_us, answered_us
            counter.bracket.charge(asked_us, answered_us, asked.cost)

    def _refused(self, counters: list[Counter], asked: Asked, asked_us: int, answers: int) -> None:
        rooms = [(counter.bracket.least.available(asked_us), counter) for counter in counters]
        room, nearest = min(rooms, key=lambda pair: pair[0])
        nearest.refused += asked.cost * answers
        if asked.cost > room:
            return
        if nearest.is_leased:
            nearest.early_by = max(nearest.early_by, room)
        else:
            self.wrongly_refused += answers
            self._tell(f"{nearest.level.id_}: refused {asked.cost} where at least {room} were left")

    def _tell(self, problem: str) -> None:
        if len(self.problems) < limits.DEMO_PROBLEMS_SHOWN_MAX:
            self.problems.append(problem)
