"""The places of payments in the console, its search, and what pages say while new work is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ingress.console.declared import ConsolePages, place
from ingress.payments.active_policies import ActivePolicies
from ingress.payments.console import (
    closing_routes,
    outcome_routes,
    parked_routes,
    processor_routes,
    repair_routes,
    review_routes,
    story_routes,
    work_routes,
)

if TYPE_CHECKING:
    from ingress.http.parts import Parts


def _maintenance(parts: Parts) -> str:
    found = parts.get(ActivePolicies).maintenance
    return f"Maintenance: new work of merchants is refused. {found.reason}" if found.on else ""


CONSOLE: Final = ConsolePages(
    package="ingress.payments.console",
    routers=(
        work_routes.router,
        story_routes.router,
        processor_routes.router,
        repair_routes.router,
        closing_routes.router,
        outcome_routes.router,
        review_routes.router,
        parked_routes.router,
    ),
    places=(
        place("o", "/console", "Overview"),
        place("q", "/console/queues/cases", "Queues", under="/console/queues"),
        place("r", "/console/reconciliation", "Reconciliation"),
        place("b", "/console/trial-balance", "Trial balance"),
        place("p", "/console/processors", "Processors"),
    ),
    searches=True,
    oldest="pipeline_oldest",
    warning=_maintenance,
)
