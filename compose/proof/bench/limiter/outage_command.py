"""``millrace bench limiter-outage``: the broker stands still at full load; what decisions take, and what is lost."""

from __future__ import annotations

import json
from typing import Annotated, Any, Final

import typer

from compose.proof import limits as proof_limits
from compose.proof.bench.options import AsJson
from schemas.limiter import limits as limiter_limits

_COLUMNS: Final = ("decisions_per_s", "p50_ms", "p99_ms", "p999_ms", "max_ms")


def limiter_outage(
    as_json: AsJson = False,
    seconds: Annotated[
        float, typer.Option(min=1, max=proof_limits.BENCH_SECONDS_MAX, help="How long the broker is frozen, twice.")
    ] = proof_limits.BENCH_OUTAGE_S,
    around: Annotated[
        float, typer.Option(min=1, max=proof_limits.BENCH_SECONDS_MAX, help="Seconds before and after it.")
    ] = proof_limits.BENCH_OUTAGE_AROUND_S,
    blocks: Annotated[
        int, typer.Option(min=1, max=limiter_limits.LIMIT_BLOCKS_MAX, help="Blocks queued for Kafka; few make a gap.")
    ] = limiter_limits.LIMIT_BLOCKS_MAX,
) -> None:
    """Freeze the broker while a gateway decides, in process and over frames.

    Exit 1 when a decision waited for it, or the gap that the gateway counted is not what is missing.
    """
    from compose.proof.bench.limiter.outage import outage  # noqa: PLC0415 - the help needs none of it
    from compose.proof.bench.limiter.outage_phases import Plan  # noqa: PLC0415

    result = outage(Plan(seconds, around, blocks))
    if as_json:
        print(json.dumps(result, indent=1))
    else:
        _show(result)
    raise typer.Exit(0 if result["holds"] else 1)


def _show(result: dict[str, Any]) -> None:
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415

    for title in ("in_process", "frames"):
        part = result[title]
        table = Table("", *_COLUMNS, box=None, title=title, title_justify="left")
        for phase in ("before", "during", "after"):
            table.add_row(phase, *(f"{part[phase].get(column, ''):,}" for column in _COLUMNS))
        Console().print(table)
        print(
            f"{part['decided']:,} decided, {part['rows_arrived']:,} arrived, {part['rows_missing']:,} missing, gap "
            f"{part['gap']:,}; {part['waited_for_kafka']} waited; {part['degraded']} degraded"
        )
    print("holds" if result["holds"] else "DOES NOT HOLD")
