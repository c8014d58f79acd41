"""What was disturbed, how, and what callers felt of it: the record that the verdict judges and the report shows."""

from __future__ import annotations

import time
from array import array
from bisect import bisect_left
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Final, Literal

from compose.proof import limits

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from compose.supervise.state import ProcessState

#: killed: SIGKILL, with all its children. shut down: Postgres's immediate shutdown, which leaves what a crash leaves
#: but tells its clients. frozen: it stands still until others took its place. killed together: several at the same
#: moment, as when a machine goes down; what they need to start is not there when they are started again
Way = Literal["killed", "shut down", "frozen", "killed together"]

POSTGRES: Final = "postgres"
OWNER: Final = "owner"
EVERYTHING: Final = "everything"
_ACKNOWLEDGING: Final = ("kafka", POSTGRES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Disturbance:
    """What was disturbed at a monotonic moment. ``back_after_s`` None: it did not come back in time."""

    name: str  # of a process, or of a group that was killed together
    how: Way
    at_s: float
    back_after_s: float | None  # until every process was ready, and this one another one
    group: tuple[str, ...] = ()  # the processes that were killed together

    @property
    def ended(self) -> tuple[str, ...]:
        """The processes that had to be started again."""
        return () if self.how == "frozen" else self.group or (self.name,)

    def __str__(self) -> str:
        if self.back_after_s is None:
            return f"{self.name} {self.how}, did not come back"
        if self.how == "frozen":
            frozen_s = limits.SOAK_FREEZE_MS / 1_000
            return f"{self.name} frozen for {frozen_s:g} s, all ready {self.back_after_s - frozen_s:.1f} s later"
        return f"{self.name} {self.how}, all ready after {self.back_after_s:.1f} s"


@dataclass(slots=True)
class Answers:
    """When commands were sent first and when they were answered, in the order of the answers; 16 bytes for each."""

    _sent: array[float] = field(default_factory=lambda: array("d"))
    _answered: array[float] = field(default_factory=lambda: array("d"))

    def note(self, sent_at: float, answered_at: float | None = None) -> None:
        """A command that has its answer now, be it a refusal."""
        self._sent.append(sent_at)
        self._answered.append(time.monotonic() if answered_at is None else answered_at)

    def felt(self, one: Disturbance) -> tuple[float | None, float]:
        """Seconds until a command that was sent after the disturbance was answered, and the longest wait for an answer.

        Waits are of those that were sent until everything was ready again.
        """
        lasted_s = limits.SOAK_BACK_WAIT_S if one.back_after_s is None else one.back_after_s
        first, longest = None, 0.0
        for place in range(bisect_left(self._answered, one.at_s), len(self._answered)):
            sent, answered = self._sent[place], self._answered[place]
            if answered > one.at_s + lasted_s + limits.SOAK_PERSISTENCE_S:
                break  # whoever was sent in time and has no answer by now is a problem of the run
            if sent < one.at_s:
                continue
            first = answered - one.at_s if first is None else first
            if sent <= one.at_s + lasted_s:
                longest = max(longest, answered - sent)
        return first, longest


@dataclass(frozen=True, slots=True, kw_only=True)
class Outages:
    """All disturbances of one process in one way: medians and the worst, in seconds."""

    name: str
    how: Way
    times: int
    answered_median_s: float  # until a command that was sent afterwards was answered
    answered_max_s: float
    longest_wait_s: float  # of any command that was sent until all was ready
    ready_median_s: float
    ready_max_s: float


def ways_of(process: ProcessState) -> tuple[Way, ...]:
    """How a process is disturbed. The supervisor and its guard are the stack's own life: without them it ends."""
    if process.kind == "supervisor":
        return ()
    return ("killed", "shut down") if process.name == POSTGRES else ("killed",)


def groups_of(there: Iterable[ProcessState]) -> list[tuple[str, tuple[str, ...]]]:
    """What is killed at the same moment: the two servers that hold what was acknowledged, and all that there is."""
    names = tuple(process.name for process in there)
    return [(" and ".join(_ACKNOWLEDGING), _ACKNOWLEDGING), (EVERYTHING, names)]


def missed(
    there: Sequence[ProcessState], done: Sequence[Disturbance], answers: Answers, frozen: Sequence[str] = (OWNER,)
) -> list[str]:
    """What the soak left out, a process in one of its ways or the frozen one of a kind, and what did not recover."""
    seen = {(one.name, one.how) for one in done}
    problems = [f"never {how}: {p.name}" for p in there for how in ways_of(p) if (p.name, how) not in seen]
    stood_still = [one.name for one in done if one.how == "frozen"]
    problems += [f"no {kind} was frozen" for kind in frozen if not any(name.startswith(kind) for name in stood_still)]
    together = {one.name for one in done if one.how == "killed together"}
    problems += [f"never killed together: {name}" for name, _ in groups_of(there) if name not in together]
    problems += [str(one) for one in done if one.back_after_s is None]
    return problems + [f"no command was answered after: {one}" for one in done if answers.felt(one)[0] is None]


def died_alone(there: Iterable[ProcessState], done: Iterable[Disturbance]) -> list[str]:
    """Processes that were started again more often than they were ended: they do not outlive what they depend on."""
    ended = Counter(name for one in done for name in one.ended)
    return [
        f"{p.name} was started again {p.restarts} times and ended {ended[p.name]} times: {p.note or 'see its log'}"
        for p in there
        if p.restarts > ended[p.name]
    ]


def outages(done: Iterable[Disturbance], answers: Answers) -> list[Outages]:
    """By process and way, the worst for callers first. What did not recover counts with its bound."""
    groups: dict[tuple[str, Way], list[Disturbance]] = defaultdict(list)
    for one in done:
        groups[one.name, one.how].append(one)
    found = []
    for (name, how), ones in groups.items():
        felt = [answers.felt(one) for one in ones]
        answered = [limits.SOAK_BACK_WAIT_S if first is None else first for first, _ in felt]
        ready = [limits.SOAK_BACK_WAIT_S if one.back_after_s is None else one.back_after_s for one in ones]
        found.append(
            Outages(
                name=name,
                how=how,
                times=len(ones),
                answered_median_s=round(median(answered), 3),
                answered_max_s=round(max(answered), 3),
                longest_wait_s=round(max(longest for _, longest in felt), 3),
                ready_median_s=round(median(ready), 3),
                ready_max_s=round(max(ready), 3),
            )
        )
    return sorted(found, key=lambda one: (one.answered_max_s, one.longest_wait_s), reverse=True)
