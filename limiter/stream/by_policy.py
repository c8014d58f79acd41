"""Decisions by policy, added up when the ring is flushed: allowed, denied, and allowed with little left.

A decision is counted for the limit that governed it: the one that denied, or that has least left.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Final

import numpy as np

from limiter.spending.ring import ALLOWED, ALSO, DUPLICATE
from schemas.limiter import limits

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from limiter.policy.level import Level
    from limiter.spending.ring import Records

KINDS: Final = ("allowed", "denied", "near_limit")
OTHERS: Final = "-"  # of those past the bound
_NEVER_NEAR: Final = -1
_DECIDED: Final = ALLOWED | DUPLICATE | ALSO
_NEAR_SHARE: Final = 5  # a fifth is left: four are used


class ByPolicy:
    """Totals of one process until its last flush."""

    def __init__(self) -> None:
        self._near: dict[tuple[str, int], int] = {}  # of a policy's version: so little is left
        self._numbers: dict[str, int] = {OTHERS: 0}
        self._totals = np.zeros((len(KINDS), 1), np.int64)
        self._policy_of_row = array("I")
        self._near_of_row = array("q")

    def use(self, levels: Iterable[Level]) -> None:
        """The policies from now on; of one that has gone the totals stay."""
        found = list(levels)
        counted = [level for level in found if level.policy.is_counted]
        self._near = {(level.id_, level.version): level.policy.capacity // _NEAR_SHARE for level in counted}
        for level in found:
            if len(self._numbers) < limits.LIMIT_METRIC_POLICIES_MAX:
                self._numbers.setdefault(level.id_, len(self._numbers))
        missing = len(self._numbers) - self._totals.shape[1]
        self._totals = np.pad(self._totals, ((0, 0), (0, missing)))

    def add_row(self, policy_id: str, version: int) -> None:
        """The next row of the dictionary is of this policy."""
        self._policy_of_row.append(self._numbers.get(policy_id, 0))
        self._near_of_row.append(self._near.get((policy_id, version), _NEVER_NEAR))

    def forget(self) -> None:
        """Numbers of rows are void."""
        self._policy_of_row, self._near_of_row = array("I"), array("q")

    def count(self, taken: Records) -> None:
        """Adds what was taken from the ring."""
        flags = taken["flags"] & _DECIDED
        rows = taken["row"]
        policies = np.frombuffer(self._policy_of_row, np.uint32)[rows]
        allowed = flags == ALLOWED
        near = allowed & (taken["remaining"] <= np.frombuffer(self._near_of_row, np.int64)[rows])
        width = self._totals.shape[1]
        for kind, which in enumerate((allowed, flags == 0, near)):
            self._totals[kind] += np.bincount(policies[which], minlength=width)

    def named(self) -> Iterator[tuple[str, str, int]]:
        """Policy, what, how many: of policies that decided something."""
        totals = self._totals  # whoever asks is another thread
        for policy_id, number in list(self._numbers.items()):
            if number < totals.shape[1] and totals[:, number].any():
                yield from ((policy_id, kind, int(totals[at, number])) for at, kind in enumerate(KINDS))
