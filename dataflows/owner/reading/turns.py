"""Deficit round robin over the callers of a partition, so that a busy caller does not delay the others.

The waiting records of an aggregate are in one queue, in the order of their offsets, whoever sent them. A record costs
one unit, and one more for each KiB. Who lately had most of the work gets small rounds even where nobody else waits, and
a caller far above its share is reported as noisy.
Pure: the time is an argument.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping
from typing import Final

from dataflows import limits
from dataflows.fair_share import unfair_share
from dataflows.owner.batch import NoisyCaller, Record

_KIB: Final = 1024
_NOBODY: Final = ""  # the caller of records that cannot be decoded


class Turns:
    """The waiting records of one partition. Dictionaries are in the order of the next turns."""

    def __init__(self, noise: Noise | None = None) -> None:
        self.noise = noise or Noise()
        self._queues: dict[str, deque[Record]] = {}
        self._deficits: dict[str, int] = {}
        self._units: Counter[str] = Counter()  # of waiting records, by caller
        self._aggregates: dict[str, tuple[str, int]] = {}  # with waiting records: whose queue has them, and how many

    def __len__(self) -> int:
        return sum(map(len, self._queues.values()))

    def add(self, records: Iterable[Record]) -> None:
        """Adds records. Their offsets ascend and are above all that wait."""
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

    def due_s(self) -> float:
        """When a round is due: at once, but later if one caller lately had most of the work while others have some.

        That caller's commands are gathered for a moment, so that the others seldom have to wait for a running round,
        and it costs the machine fewer transactions.
        """
        if not self._is_of_most() or self._units.total() >= limits.TURNS_OF_CALLER_UNITS_MAX:
            return 0.0
        return self.noise.took_s + limits.TURNS_PAUSE_MS / 1_000

    def _is_of_most(self) -> bool:
        """Whether all that waits is of one caller, who lately had most of the work while others had some."""
        callers = list(self._queues)
        return len(callers) == 1 and self.noise.had_most_lately(callers[0])

    def take(self, now_s: float) -> tuple[list[Record], list[NoisyCaller]]:
        """The records to decide next, in the order of offsets, of each aggregate the oldest; and the noisy callers.

        Takes at least one record if any waits. A caller that is left waiting gets its next turn before any other caller
        gets a second one.
        """
        bound = self._bound()
        chosen: list[Record] = []
        spent: Counter[str] = Counter()
        order, had_enough = deque(self._queues), list[str]()
        while order and spent.total() < limits.TURNS_ROUND_UNITS:
            caller = order.popleft()
            queue = self._queues[caller]
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

    def _bound(self) -> int:
        """Of the units of each caller in this round.

        Nobody has less than the others, however much it had: what a round leaves comes in further rounds, and those
        are what the others wait for.
        """
        is_alone = len(self._queues) == 1 and not self._is_of_most()
        return limits.TURNS_ROUND_UNITS if is_alone else limits.TURNS_OF_CALLER_UNITS_MAX

    def _out(self, queue: deque[Record]) -> Record:
        record = queue.popleft()
        if record.command is not None:
            key = record.command.aggregate_key
            caller, waiting = self._aggregates.pop(key)
            if waiting > 1:
                self._aggregates[key] = (caller, waiting - 1)
        return record


class Noise:
    """Finds the callers of one partition that made others wait in the last whole window."""

    def __init__(self) -> None:
        self.took_s = 0.0  # when the last round was taken
        self._began_s: float | None = None
        self._spent: Counter[str] = Counter()
        self._before: Counter[str] = Counter()  # of the last whole window
        self._left: Counter[str] = Counter()  # the most that waited at once
        self._lately = _Lately()

    def heard(self, spent: Mapping[str, int], left: Mapping[str, int], now_s: float) -> list[NoisyCaller]:
        """Counts what a round gave and left waiting. Returns the noisy callers at the end of a window."""
        self.took_s = now_s
        if self._began_s is None:
            self._began_s = now_s
        self._spent.update(spent)
        self._lately.add(spent, now_s)
        self._left |= Counter(left)
        if now_s - self._began_s < limits.NOISE_WINDOW_S:
            return []
        found = noisy_of(self._spent, self._left)
        self._began_s, self._before = now_s, Counter(self._spent)
        self._spent.clear()
        self._left.clear()
        return found

    def had_most_lately(self, caller: str) -> bool:
        """Whether this caller had more than a turn and more than half of the work lately, and others had some.

        The others count in this window and the last: who has little comes seldom. A few commands are no burst, or who
        asks one thing after the other would wait each time.
        """
        others = any(one != caller for spent in (self._spent, self._before) for one in spent)
        return others and self._lately.has_most(caller)


class _Lately:
    """What callers had in this short window and the one before."""

    def __init__(self) -> None:
        self._began_s = 0.0
        self._spent: Counter[str] = Counter()
        self._before: Counter[str] = Counter()

    def add(self, spent: Mapping[str, int], now_s: float) -> None:
        windows = (now_s - self._began_s) / limits.LATELY_WINDOW_S
        if windows >= 1:
            self._before = self._spent if windows < 2 else Counter()  # noqa: PLR2004 - a whole one went by without work
            self._began_s, self._spent = now_s, Counter()
        self._spent.update(spent)

    def has_most(self, caller: str) -> bool:
        mine = self._spent[caller] + self._before[caller]
        return mine > max(limits.TURN_UNITS, limits.NOISE_SHARE_MAX * (self._spent.total() + self._before.total()))


def noisy_of(spent: Mapping[str, int], left: Mapping[str, int]) -> list[NoisyCaller]:
    """Callers with more than three fair shares of the work and more waiting at once than a round gives them."""
    callers, total = len(spent), sum(spent.values())
    if callers < 2:  # noqa: PLR2004 - there is nobody else
        return []
    bound = unfair_share(callers)
    return [
        NoisyCaller(caller, units / total, left[caller])
        for caller, units in sorted(spent.items())
        if caller != _NOBODY and units / total > bound and left.get(caller, 0) > limits.TURNS_OF_CALLER_UNITS_MAX
    ]


def cost(record: Record) -> int:
    """The units that a record takes of its caller's turn."""
    return 1 + len(record.value) // _KIB


def _offset(record: Record) -> int:
    return record.offset
