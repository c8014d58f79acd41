"""Latencies in an HDR histogram: exact to three digits, from a microsecond to two minutes."""

from __future__ import annotations

from typing import Final

from hdrh.histogram import HdrHistogram

from compose.proof import limits

_DIGITS: Final = 3
_US_PER_MS: Final = 1_000
_US_PER_S: Final = 1_000_000


class Latencies:
    """Latencies of one kind of request."""

    def __init__(self) -> None:
        self._histogram = HdrHistogram(1, limits.BENCH_LATENCY_MAX_US, _DIGITS)

    def record(self, seconds: float) -> None:
        """Counts one; past the bound it counts as the bound."""
        self._histogram.record_value(min(max(1, round(seconds * _US_PER_S)), limits.BENCH_LATENCY_MAX_US))

    @property
    def count(self) -> int:
        """How many were counted."""
        return int(self._histogram.get_total_count())

    def summary(self) -> dict[str, float]:
        """The percentiles in milliseconds; empty when nothing was counted."""
        if not self.count:
            return {}
        at = self._histogram.get_value_at_percentile
        named = {"p50_ms": at(50), "p90_ms": at(90), "p99_ms": at(99), "p999_ms": at(99.9)}
        named["max_ms"] = self._histogram.get_max_value()
        return {name: round(value / _US_PER_MS, 3) for name, value in named.items()}
