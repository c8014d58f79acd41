"""What an operator sees of metering."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from prometheus_client import Counter

if TYPE_CHECKING:
    from dataflows.tenancy.usage.counting import Counted

EVENTS: Final = Counter("millrace_tenancy_usage_events", "Events of usage, by what became of them", ["outcome"])
REFUSED: Final = Counter("millrace_tenancy_usage_refused", "Records that do not count, by the reason", ["reason"])


def count(counted: Counted) -> None:
    """Adds one batch up."""
    for outcome, events in counted._asdict().items():
        EVENTS.labels(outcome).inc(events)
