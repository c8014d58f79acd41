"""Whether everything runs: owners, sinks and followers, by their positions."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from ingress import limits
from ingress.console import visit as visits

router: Final = visits.router()


@router.get("/pipeline")
async def pipeline(request: Request) -> Response:
    """Owners and epochs, how far each is behind its topic, how far events are told, and the oldest open things."""
    async with visits.reading_of(request, "pipeline", "pipeline") as visit:
        limit = limits.CONSOLE_ROWS_MAX
        partitions, readers, oldest = await asyncio.gather(
            visit.console.records("pipeline_partitions", limit=limit),
            visit.console.records("pipeline_sinks", limit=limit),
            visit.console.oldest(),
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
