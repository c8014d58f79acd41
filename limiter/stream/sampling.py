"""Which decisions become rows of the stream, by the ``audit`` setting of the policy that decided; the rest is summed.

What is denied is never left out by a sample. A row stands for ``weight`` decisions, so sums over rows are unbiased.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from limiter.spending.ring import ALLOWED, LEFT_OUT
from schemas.limiter.limit_audit import FULL, Auditing, is_in_sample

if TYPE_CHECKING:
    import numpy.typing as npt

    from limiter.spending.ring import Records


class Kept(NamedTuple):
    """Which records are rows of the stream, and the weight of each that is."""

    mask: npt.NDArray[np.bool_]
    weights: npt.NDArray[np.uint32]


class Sampling:
    """What is kept of each row of a recorder's dictionary, by the row's number."""

    def __init__(self) -> None:
        self._auditing: dict[tuple[str, int], Auditing] = {}
        self._of_rows: list[Auditing] = []
        self._all_full = True

    def use(self, auditing: dict[tuple[str, int], Auditing]) -> None:
        """The settings of policies by id and version; what is not named is full. Rows that exist keep theirs."""
        self._auditing |= auditing

    def add_row(self, policy_id: str, policy_version: int) -> None:
        """The next row of the dictionary."""
        found = self._auditing.get((policy_id, policy_version), FULL)
        self._all_full = self._all_full and found.is_full
        self._of_rows.append(found)

    def forget(self) -> None:
        """There are no rows any more."""
        self._of_rows, self._all_full = [], True

    def mark(self, row: int, identity: str | None, number: int) -> int:
        """The flag that a decision gets when the sample leaves it out, else 0; without an identity its number draws."""
        one_in = self._of_rows[row].one_in
        if one_in <= 1 or is_in_sample(one_in, str(number) if identity is None else identity):
            return 0
        return LEFT_OUT

    @property
    def is_all(self) -> bool:
        """Every decision is a row, and stands for itself."""
        return self._all_full

    def split(self, records: Records, rows: list[int]) -> Kept:
        """Which records are kept. ``rows``: what the records' rows point at."""
        found = [self._of_rows[row] for row in rows]
        one_in = np.array([auditing.one_in for auditing in found], np.uint32)[records["row"]]
        keeps_denied = np.array([auditing.keeps_denied for auditing in found], np.bool_)[records["row"]]
        allowed = records["flags"] & ALLOWED != 0
        drawn = (one_in > 0) & (records["flags"] & LEFT_OUT == 0)
        mask = np.where(allowed, drawn, keeps_denied)
        return Kept(mask, np.where(allowed, one_in, 1).astype(np.uint32)[mask])
