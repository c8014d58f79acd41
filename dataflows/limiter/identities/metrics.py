"""What an operator sees of the stream of identities."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from prometheus_client import Counter, Gauge

if TYPE_CHECKING:
    from dataflows.limiter.identities.refunder import Refunded

FOUND: Final = Counter("millrace_limiter_refunds_found", "Charges of identities that had been charged before")
DONE: Final = Counter("millrace_limiter_refunds", "Charges given back, or why not", ["outcome"])
TOKENS: Final = Counter("millrace_limiter_refunded_tokens", "Taken back at the counter store")
KEPT: Final = Gauge("millrace_limiter_identities_kept", "Charges that may still meet another one", ["partition"])
# Any: memory is full (LIMIT_REFUND_CHARGES_MAX): retries of these at other gateways stay charged.
FORGOTTEN: Final = Counter(
    "millrace_limiter_identities_forgotten", "Of them, made room before their time", ["partition"]
)


def count(refunded: Refunded) -> None:
    """Adds one batch up."""
    FOUND.inc(refunded.found)
    for outcome, times in refunded.outcomes.items():
        DONE.labels(outcome).inc(times)
    TOKENS.inc(refunded.tokens)
    KEPT.labels(refunded.partition).set(refunded.kept)
    FORGOTTEN.labels(refunded.partition).inc(refunded.forgotten)
