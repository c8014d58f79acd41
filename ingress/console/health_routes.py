"""Whether everything runs: processors by what became of attempts, and the pipeline by its positions."""

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


@router.get("/pipeline")
async def pipeline(request: Request) -> Response:
    """Owners and epochs, how far each is behind its topic, how far events are told, and the oldest open things."""
    async with visits.reading_of(request, "pipeline", "pipeline") as visit:
        limit, counted = ingress_limits.CONSOLE_ROWS_MAX, ingress_limits.CONSOLE_COUNTED_MAX
        partitions, readers, oldest = await asyncio.gather(
            visit.console.records("pipeline_partitions", limit=limit),
            visit.console.records("pipeline_sinks", limit=limit),
            visit.console.records("pipeline_oldest", counted=counted),
        )
        ends = await visit.console.topic_ends.of([(row["topic"], row["partition"]) for row in partitions])
    last_seq = {(row["events"], row["partition"]): row["last_seq"] for row in partitions}
    for row in partitions:
        end = ends.get((row["topic"], row["partition"]))
        row["lag"] = None if end is None else max(0, end - row["next_offset"])
        row["unpublished"] = max(0, row["last_seq"] - row["published_seq"])
    for row in readers:
        row["behind"] = max(0, last_seq.get((row["topic"], row["partition"]), 0) - row["last_seq"])
    return visit.page("pipeline.html", partitions=partitions, readers=_by_reader(readers), oldest=oldest)


def _by_reader(rows: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        found.setdefault(row["sink"], []).append(row)
    return found
