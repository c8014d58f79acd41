"""What policies in shadow mode would have refused: behind the record of a decision in the ring, one record for each.

In a block they stand beside its decisions, so a reader that knows nothing of them takes the decisions alone. A block
names each by the decision; of decisions that a sample leaves out they are summed by row and minute.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from limiter.spending.ring import ALSO, SHADOW

if TYPE_CHECKING:
    import numpy.typing as npt

    from limiter.spending.ring import Records

    Shadows = npt.NDArray[np.void]  # of SHADOW_TYPE

MINUTE_US: Final = 60_000_000
SHADOW_TYPE: Final = np.dtype(
    [
        ("place", "<u4"),  # of the decision, as in ``Block.places``; of several decisions, that of the first
        ("row", "<u4"),  # the key, and the policy in shadow mode
        ("count", "<u4"),
        ("at", "<u8"),  # microseconds since the epoch, of the newest
    ]
)
NONE: Final[Shadows] = np.empty(0, SHADOW_TYPE)


def shadows_in(taken: Records) -> Shadows:
    """All of what was taken from a ring, each with the place of its decision; one that was lost took its own along."""
    if not np.bitwise_or.reduce(taken["flags"]) & SHADOW:  # nearly always: the cheapest look at all of them
        return NONE
    places = np.flatnonzero(taken["flags"] & SHADOW)
    decisions = np.flatnonzero(taken["flags"] & ALSO == 0)
    before = np.searchsorted(decisions, places) - 1
    places, before = places[before >= 0], before[before >= 0]
    found = np.zeros(len(places), SHADOW_TYPE)
    found["place"], found["row"], found["at"] = decisions[before], taken["row"][places], taken["at"][places]
    found["count"] = 1
    return found


def shadows_from(shadows: Shadows, at: int) -> Shadows:
    """Those of the decisions from this place on, by their places from there."""
    if not len(shadows):
        return shadows
    found = shadows[shadows["place"] >= at]
    found["place"] -= at
    return found


def summed_beside(shadows: Shadows, kept: npt.NDArray[np.uint32]) -> Shadows:
    """Those of the decisions at the places that are ``kept``; what is of others is summed."""
    is_kept = np.isin(shadows["place"], kept)
    rest = shadows[~is_kept]
    minutes = rest["at"] // MINUTE_US
    different, first, which = np.unique(
        (rest["row"].astype(np.uint64) << 32) | minutes, return_index=True, return_inverse=True
    )
    sums = rest[first]  # places ascend
    sums["count"] = np.bincount(which, rest["count"], minlength=len(different))
    np.maximum.at(sums["at"], which, rest["at"])
    return np.concatenate((shadows[is_kept], sums))
