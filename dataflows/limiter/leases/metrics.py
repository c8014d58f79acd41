"""What an operator sees of the stream of leases."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from prometheus_client import Counter, Gauge

if TYPE_CHECKING:
    from dataflows.limiter.leases.settler import Settled

LEASES: Final = Counter("millrace_limiter_leases_settled", "Leases settled, by how they ended", ["reason"])
TOKENS: Final = Counter("millrace_limiter_lease_tokens", "Tokens of settled leases, by what became of them", ["fate"])
OPEN: Final = Gauge("millrace_limiter_leases_open", "Leases that are not settled yet", ["partition"])


def count(settled: Settled) -> None:
    """Adds one batch up."""
    for each in settled.settlements:
        LEASES.labels(each.reason).inc()
        for fate in ("reported", "assumed", "released"):
            TOKENS.labels(fate).inc(getattr(each, fate))
    OPEN.labels(settled.partition).set(settled.open)
