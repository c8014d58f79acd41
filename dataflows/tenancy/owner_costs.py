"""What tenants cost an owner: their commands, and of the time of each round as much as of its commands is theirs.

Kept a minute at a time, in a commit that is made anyway. What a killed owner had not kept is lost: nobody waits for it.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Final

from schemas.tenancy import limits
from sinks.postgres.sql_files import queries

if TYPE_CHECKING:
    from collections.abc import Callable

    from dataflows.owner.batch import Statement

SQL: Final = queries("dataflows.tenancy", "owner.sql")
_SOURCE: Final = "owner"
_SECOND_US: Final = 1_000_000


class OwnerCosts(threading.local):
    """Of one lane: each has a thread of its own and is in one round at a time, of one partition or some."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._commands: Counter[str] = Counter()
        self._spent_s: dict[str, float] = defaultdict(float)
        self._round: Counter[str] = Counter()
        self._began_s = self._kept_at_s = clock()
        self._told: tuple[str, ...] = ()

    def began(self) -> None:
        """A round begins; what one was that came to no commit is forgotten."""
        self._round, self._began_s, self._told = Counter(), self._clock(), ()

    def heard(self, tenant_id: str) -> None:
        """One command is decided."""
        self._round[tenant_id] += 1

    def due(self) -> list[Statement]:
        """What is to be kept with the commit of this round, once in it."""
        if self._told or not self._commands or self._clock() - self._kept_at_s < limits.OWNER_COSTS_KEPT_S:
            return []
        self._told = tuple(sorted(self._commands))
        given = (
            _SOURCE,
            list(self._told),
            [self._commands[one] for one in self._told],
            [round(self._spent_s[one] * _SECOND_US) for one in self._told],
            [0] * len(self._told),
        )
        return [(SQL["costs_kept"], given)]

    def committed(self) -> None:
        """The round is over: the first of its partitions counts it for all."""
        if self._told:
            self._commands.clear()
            self._spent_s.clear()
            self._kept_at_s, self._told = self._clock(), ()
        if decided := self._round.total():
            each_s = (self._clock() - self._began_s) / decided
            for tenant_id, commands in self._round.items():
                self._commands[tenant_id] += commands
                self._spent_s[tenant_id] += commands * each_s
            self._round = Counter()
