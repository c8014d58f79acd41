"""Who is next in a partition: deficit round robin over callers, so that who has much to do keeps nobody waiting.

All that waits of an aggregate is in one queue, in the order of its offsets, whoever sends it. A record costs one unit
and another one for each KiB. A caller that has far more than its share gets smaller turns and is told as noisy.
Pure: what time it is, the caller of it says.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping
from typing import Final

from dataflows import limits
from dataflows.owner.batch import NoisyCaller, Record

_KIB: Final = 1024
_NOBODY: Final = ""  # whoever sends what nobody can decode


class Turns:
    """What waits of one partition. Dictionaries are in the order of the next turns."""

    def __init__(self, noise: Noise | None = None) -> None:
        self.noise = noise or Noise()
        self._queues: dict[str, deque[Record]] = {}
        self._deficits: dict[str, int] = {}
        self._units: Counter[str] = Counter()  # that wait, by caller
        self._aggregates: dict[str, tuple[str, int]] = {}  # those that wait: in whose queue, how many records

    def __len__(self) -> int:
        return sum(map(len, self._queues.values()))

    def add(self, records: Iterable[Record]) -> None:
        """These wait as well; their offsets ascend, and are above all that waited before."""
        for record in records:
            caller = self._queue_of(record)
            self._queues.setdefault(caller, deque()).append(record)
            self._units[caller] += cost(record)

    def _queue_of(self, record: Record) -> str:
        if record.command is None:
            return _NOBODY
        key = record.command.aggregate_key
        caller, waiting = self._aggregates.get(key, (record.command.scope, 0))
        self._aggregates[key] = (caller, waiting + 1)
        return caller

    @property
    def lowest(self) -> int | None:
        """The lowest offset that waits."""
        return min((queue[0].offset for queue in self._queues.values()), default=None)

    def take(self, now_s: float) -> tuple[list[Record], list[NoisyCaller]]:
        """What is decided next, by offset: of each aggregate the oldest; and who was found to be noisy.

        Takes one record at least where any waits. Whoever is left waiting has its next turn before any other caller has
        a second one.
        """
        bounds = self._bounds()
        chosen: list[Record] = []
        spent: Counter[str] = Counter()
        order, had_enough = deque(self._queues), list[str]()
        while order and spent.total() < limits.TURNS_ROUND_UNITS:
            caller = order.popleft()
            queue, bound = self._queues[caller], bounds.get(caller, limits.TURNS_OF_CALLER_UNITS_MAX)
            deficit = self._deficits.get(caller, 0) + limits.TURN_UNITS
            while queue and cost(queue[0]) <= deficit and spent[caller] < bound:
                deficit -= cost(queue[0])
                spent[caller] += cost(queue[0])
                chosen.append(self._out(queue))
            if queue:
                self._deficits[caller] = deficit
                (order if spent[caller] < bound else had_enough).append(caller)
            else:
                self._deficits.pop(caller, None)
                del self._queues[caller]
        self._units.subtract(spent)
        self._units = +self._units
        self._queues = {caller: self._queues[caller] for caller in (*order, *had_enough)}
        chosen.sort(key=_offset)
        return chosen, self.noise.heard(spent, self._units, now_s)

    def _bounds(self) -> dict[str, int]:
        """Callers whose bound of a round is another one."""
        if len(self._queues) == 1:
            return dict.fromkeys(self._queues, limits.TURNS_ROUND_UNITS)
        return dict.fromkeys(self.noise.callers, limits.TURNS_OF_NOISY_UNITS_MAX)

    def _out(self, queue: deque[Record]) -> Record:
        record = queue.popleft()
        if record.command is not None:
            key = record.command.aggregate_key
            caller, waiting = self._aggregates.pop(key)
            if waiting > 1:
                self._aggregates[key] = (caller, waiting - 1)
        return record


class Noise:
    """Which callers of one partition had others wait in the last whole window."""

    def __init__(self) -> None:
        self.callers: frozenset[str] = frozenset()
        self._began_s: float | None = None
        self._spent: Counter[str] = Counter()
        self._left: Counter[str] = Counter()  # the most that waited at once

    def heard(self, spent: Mapping[str, int], left: Mapping[str, int], now_s: float) -> list[NoisyCaller]:
        """A round gave so much and left so much waiting. At the end of a window those who were noisy in it."""
        if self._began_s is None:
            self._began_s = now_s
        self._spent.update(spent)
        self._left |= Counter(left)
        if now_s - self._began_s < limits.NOISE_WINDOW_S:
            return []
        found = noisy_of(self._spent, self._left)
        self.callers = frozenset(one.caller for one in found)
        self._began_s = now_s
        self._spent.clear()
        self._left.clear()
        return found


def noisy_of(spent: Mapping[str, int], left: Mapping[str, int]) -> list[NoisyCaller]:
    """Callers with a share of what was done above three fair ones, and with more at once than a round gives them.

    A share above a half is always more than fair; one below a fifth never is.
    """
    callers, total = len(spent), sum(spent.values())
    if callers < 2:  # noqa: PLR2004 - there is nobody else
        return []
    bound = max(limits.NOISE_SHARE_MIN, min(limits.NOISE_FAIR_SHARES / callers, limits.NOISE_SHARE_MAX))
    return [
        NoisyCaller(caller, units / total, left[caller])
        for caller, units in sorted(spent.items())
        if caller != _NOBODY and units / total > bound and left.get(caller, 0) > limits.TURNS_OF_CALLER_UNITS_MAX
    ]


def cost(record: Record) -> int:
    """What a record takes of its caller's turn."""
    return 1 + len(record.value) // _KIB


def _offset(record: Record) -> int:
    return record.offset
