"""``millrace bench tenancy``: tenants made, a large one moved, a noisy one beside others, usage counted, and reads."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from compose.proof import limits
from compose.proof.bench.options import AsJson, Home

if TYPE_CHECKING:
    from compose.proof.bench.world import World

_DATABASE: Final = "bench_tenancy"


def tenancy(
    as_json: AsJson = False,
    events: Annotated[
        int, typer.Option(min=1_000, max=limits.BENCH_USAGE_EVENTS_MAX, help="Events of usage.")
    ] = limits.BENCH_USAGE_EVENTS_DEFAULT,
    tenants: Annotated[
        int, typer.Option(min=100, max=limits.BENCH_TENANTS_MAX, help="Tenants to make.")
    ] = limits.BENCH_TENANTS_DEFAULT,
    rows: Annotated[
        int, typer.Option(min=1_000, max=limits.BENCH_MOVE_ROWS_MAX, help="Rows of the tenant that is moved.")
    ] = limits.BENCH_MOVE_ROWS_DEFAULT,
    seconds: Annotated[
        float,
        typer.Option(min=1, max=limits.BENCH_SECONDS_MAX, help="Of latency alone, and as many beside a noisy tenant."),
    ] = limits.BENCH_FAIRNESS_SECONDS_DEFAULT,
    home: Home = None,
) -> None:
    """Measure tenants made, a move, fairness beside a noisy tenant, metering (each event once), and isolated reads.

    An isolated read is the ingress's: one statement in a transaction of its own sets a tenant's signed context, proves
    it, and reads 1 row with its head, or 20 or 100 by id. It is compared with the same statement of the same role,
    round trips and settings from a table without row security: the tenth percentile of a call of each, by turns.

    Exit 1 when an event was not counted exactly once; figures that miss their goals are shown, and fail nothing.
    """
    from compose.proof.bench.tenancy.metering import bench_metering  # noqa: PLC0415 - the help needs none of it
    from compose.proof.bench.tenancy.reads import bench_reads  # noqa: PLC0415
    from compose.proof.bench.tenancy.showing import lines  # noqa: PLC0415
    from compose.proof.bench.world import bench_world  # noqa: PLC0415

    with bench_world(home) as world:
        result = bench_load(world, tenants, seconds, rows) | bench_metering(world, events)
        result["reads"] = bench_reads(world)
    if as_json:
        print(json.dumps(result, indent=1))
    else:
        for line in lines(result):
            print(line)
    if not result["counted_as_sent"]:
        raise typer.Exit(1)


def bench_load(world: World, tenants: int, seconds: float, rows: int) -> dict[str, Any]:
    """Tenants in bulk, the move of a large one, the latency of some beside a noisy one; a database for each."""
    from compose.proof.bench.tenancy.fairness import measure_fairness  # noqa: PLC0415
    from compose.proof.bench.tenancy.load import measure_provisioning  # noqa: PLC0415
    from compose.proof.bench.tenancy.move import measure_move  # noqa: PLC0415

    try:
        provisioning = measure_provisioning(world, world.database(_DATABASE), tenants)
        move = measure_move(world, world.database(_DATABASE), rows)
        fairness = measure_fairness(world, world.database(_DATABASE), limits.BENCH_QUIET_RATE_PER_S, seconds)
    finally:
        world.drop(_DATABASE)
    return {"provisioning": provisioning, "move": move, "fairness": fairness}
