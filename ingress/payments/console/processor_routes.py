"""Processors, by what became of attempts."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from ingress import limits as ingress_limits
from ingress.console import visit as visits
from schemas.payments import limits as payments_limits

#: minutes of the windows that processor_outcomes.sql reckons
WINDOWS: Final = {5: "5 min", 60: "1 h", 1_440: "24 h"}

router: Final = visits.router()


@router.get("/processors")
async def processors(request: Request) -> Response:
    """What became of attempts in the last minutes, hour and day, and what is open."""
    async with visits.reading_of(request, "processors", "processors") as visit:
        counted = ingress_limits.CONSOLE_COUNTED_MAX
        outcomes, still_open, told = await asyncio.gather(
            visit.console.records("processor_outcomes", counted=counted),
            visit.console.records("processor_open", counted=counted),
            visit.console.records(
                "processor_health", kept=payments_limits.PROCESSOR_HEALTH_KEPT_S, limit=ingress_limits.CONSOLE_ROWS_MAX
            ),
        )
    by_processor: dict[str, dict[int, Any]] = {row["processor"]: {} for row in [*told, *outcomes, *still_open]}
    for row in outcomes:
        by_processor[row["processor"]][row["minutes"]] = row
    return visit.page(
        "processors.html",
        windows=WINDOWS,
        outcomes=dict(sorted(by_processor.items())),
        still_open={row["processor"]: row for row in still_open},
        health={row["processor"]: row for row in told},
        counted=counted,
    )
