"""How long calls of the store took, as a histogram: counted where they end, read when somebody asks."""

from __future__ import annotations

from bisect import bisect_left
from typing import Final

#: upper bounds in seconds: the aim for a decision is 2 ms
BOUNDS_S: Final = (0.000_1, 0.000_25, 0.000_5, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0)


class StoreWaits:
    """The waits of one process, those without an answer too."""

    def __init__(self) -> None:
        self._counts = [0] * (len(BOUNDS_S) + 1)
        self.total_s = 0.0

    def took(self, seconds: float) -> None:
        """One more call has ended."""
        self._counts[bisect_left(BOUNDS_S, seconds)] += 1
        self.total_s += seconds

    def cumulative(self) -> list[tuple[str, int]]:
        """Of each bound, how many took at most so long, as Prometheus has histograms."""
        found, so_far = [], 0
        for bound, count in zip((*map(str, BOUNDS_S), "+Inf"), [*self._counts], strict=True):
            so_far += count
            found.append((bound, so_far))
        return found
