"""What was decided, added up from the ring when it is flushed: no decision pays for its metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from limiter.ring import ALLOWED, ALSO, APPROXIMATE, DEGRADED, DUPLICATE

if TYPE_CHECKING:
    from limiter.ring import Records

_OUTCOMES: Final = {0: "denied", ALLOWED: "allowed", ALLOWED | DUPLICATE: "repeated"}


class Outcomes:
    """Totals of one process until its last flush."""

    def __init__(self) -> None:
        self._by_flags = dict.fromkeys(_OUTCOMES, 0)
        self.from_leases = 0  # allowed, and no store was asked
        self.overshoot = 0  # cost that was allowed without store and lease: so much may be past the quotas
        self.degraded_s = 0.0  # time between two flushes in which the failure mode decided

    def named(self) -> dict[str, int]:
        """Decisions by what was decided."""
        return {name: self._by_flags[flags] for flags, name in _OUTCOMES.items()}

    def count(self, taken: Records, elapsed_s: float) -> None:
        """Adds what was taken from the ring since the flush before, so long ago."""
        flags = taken["flags"]
        kind = flags & (ALLOWED | DUPLICATE | ALSO)
        for outcome in _OUTCOMES:
            self._by_flags[outcome] += int(np.count_nonzero(kind == outcome))
        fresh = kind == ALLOWED
        degraded = flags & DEGRADED != 0
        self.from_leases += int(np.count_nonzero(fresh & (flags & APPROXIMATE != 0) & ~degraded))
        self.overshoot += int(taken["cost"][fresh & degraded].sum(dtype=np.uint64))
        if degraded.any():
            self.degraded_s += elapsed_s
