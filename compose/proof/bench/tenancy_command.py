"""``millrace bench tenancy``: usage of many tenants into ClickHouse, and what isolation costs a reader."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from schemas import limits


def tenancy(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
    events: Annotated[
        int, typer.Option(min=1_000, max=limits.BENCH_USAGE_EVENTS_MAX, help="Events of usage.")
    ] = limits.BENCH_USAGE_EVENTS_DEFAULT,
    home: Annotated[Path | None, typer.Option(help="Use the servers that run in this home, and leave them.")] = None,
) -> None:
    """Measure metering: events counted per second, each once; and reads with and without isolation."""
    from compose.proof.bench.tenancy_metering import bench_metering  # noqa: PLC0415 - the help needs none of it
    from compose.proof.bench.tenancy_reads import bench_reads  # noqa: PLC0415
    from compose.proof.bench.world import bench_world  # noqa: PLC0415

    with bench_world(home) as world:
        result = bench_metering(world, events) | {"reads": bench_reads(world)}
    if as_json:
        print(json.dumps(result, indent=1))
    else:
        print(
            f"{result['sent']:,} events of {result['tenants']} tenants, {result['counted']:,} counted once:"
            f" in Postgres after {result['seconds']} s ({result['events_per_s']:,}/s),"
            f" in ClickHouse after {result['clickhouse_seconds']} s ({result['clickhouse_events_per_s']:,}/s);"
            f" CPU seconds: own {result['cpu_s']}, Postgres {result['postgres_cpu_s']}"
        )
        for read in result["reads"]:
            print(
                f"{read['rows']} rows of one tenant: {read['isolated_us']} us, without isolation {read['plain_us']} us"
            )
    if not result["counted_as_sent"]:
        raise typer.Exit(1)
