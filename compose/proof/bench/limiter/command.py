"""``millrace bench limiter``: decisions in process, over frames and through the store, beside what others do."""

from __future__ import annotations

import json
from typing import Annotated, Any, Final

import typer

from compose.proof import limits
from compose.proof.bench.options import AsJson

_COMPARED_SHARE: Final = 10  # other libraries are slower: the comparison makes a tenth of the decisions
_FRAMES_AT_ONCE: Final = 3
_WHOLE_FROM: Final = 100
_COLUMNS: Final = ("", "per second", "per CPU second", "p50", "p99", "p99.9")
_AIMS: Final = {  # what the design promises: the ratio of each is 1 or more where it is kept
    "in_process_decisions_per_s": 1_200_000,
    "in_process_p99_us": 10,
    "frames_decisions_per_s": 300_000,
    "frames_at_once_decisions_per_s": 300_000,
    "frames_p99_ms": 2,
    "exact_share_of_bare_script": 0.6,
    "store_calls_per_decision": 0.05,
}


def limiter(
    as_json: AsJson = False,
    decisions: Annotated[
        int,
        typer.Option(min=100_000, max=limits.BENCH_LIMITER_DECISIONS_MAX, help="Decisions of the in-process part."),
    ] = limits.BENCH_LIMITER_DECISIONS_DEFAULT,
) -> None:
    """Measure the limiter: in process, batched frames, exact decisions, leases; and other libraries beside it."""
    result = bench_limiter_parts(decisions)
    if as_json:
        print(json.dumps(result, indent=1))
    else:
        _show(result)


def bench_limiter_parts(decisions: int) -> dict[str, Any]:
    """Every part in one run, on one Valkey."""
    import asyncio  # noqa: PLC0415 - the help needs none of it

    from compose.proof.bench.limiter.comparison import comparison  # noqa: PLC0415
    from compose.proof.bench.limiter.frames import frames_rate  # noqa: PLC0415
    from compose.proof.bench.limiter.in_process import in_process  # noqa: PLC0415
    from compose.proof.bench.limiter.store import exact, leases  # noqa: PLC0415
    from compose.proof.bench.limiter.world import bench_limiter, counter_server  # noqa: PLC0415

    with counter_server() as (url, folder):

        async def library() -> dict[str, Any]:
            async with bench_limiter(url, folder, "leased") as made:
                return in_process(made, decisions)

        result: dict[str, Any] = {
            "in_process": asyncio.run(library()),
            "frames": frames_rate(url, folder, decisions // 2),
            "frames_at_once": frames_rate(url, folder, decisions // 2, at_once=_FRAMES_AT_ONCE),
            "exact": asyncio.run(exact(url, folder, max(decisions // 50, 10_000))),
            "leases": asyncio.run(leases(url, folder, 3.0)),
            "comparison": comparison(url, folder, max(decisions // _COMPARED_SHARE, 10_000)),
        }
    result["ratios"] = _ratios(result)
    return result


def _ratios(result: dict[str, Any]) -> dict[str, float]:
    from compose.proof.bench.limiter.comparison import ratios as library_ratios  # noqa: PLC0415

    found = {
        "in_process_decisions_per_s": result["in_process"]["decisions_per_s"],
        "frames_decisions_per_s": result["frames"]["decisions_per_s"],
        "frames_at_once_decisions_per_s": result["frames_at_once"]["decisions_per_s"],
        "exact_share_of_bare_script": result["exact"]["share_of_bare_script"],
    }
    at_most = {
        "in_process_p99_us": result["in_process"]["p99_us"],
        "frames_p99_ms": result["frames"]["p99_ms"],
        "store_calls_per_decision": result["leases"]["store_calls_per_decision"],
    }
    ratios = {f"{name}_to_aim": round(value / _AIMS[name], 2) for name, value in found.items()}
    ratios |= {f"{name}_aim_to_it": round(_AIMS[name] / max(value, 1e-9), 2) for name, value in at_most.items()}
    compared = result["comparison"]
    found = {"in_process": result["in_process"], **compared["in_process"]}
    del found["ours_leased"]
    ratios |= library_ratios(found, "in_process", "decisions_per_cpu_s")
    return {**ratios, **compared["ratios"]}


def _show(result: dict[str, Any]) -> None:
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415

    compared = result["comparison"]
    work = compared["workload"]
    workload = f"{work['capacity']:,} per {work['window_s']} s on {work['keys']:,} keys"
    for title, parts in (
        ("Ours", {name: result[name] for name in ("in_process", "frames", "frames_at_once", "exact")}),
        (f"Beside others, in process, {workload}", compared["in_process"]),
        (f"Beside others, through the store, {workload}", compared["store"]),
    ):
        table = Table(*_COLUMNS, box=None, title=title, title_justify="left")
        for name, part in parts.items():
            table.add_row(*((name, *_figures(part)) if isinstance(part, dict) else (name, part)))
        Console().print(table)
    print(f"exact: {result['exact']['share_of_bare_script']:.0%} of the bare script's calls")
    print(f"leases: {result['leases']['store_calls_per_decision']} store calls a decision")
    for name, ratio in result["ratios"].items():
        print(f"{name:44} {ratio}")


def _figures(part: dict[str, Any]) -> list[str]:
    """Of one row: rates, and latencies in the unit that they were measured in."""
    rates = [f"{part[name]:,}" for name in ("decisions_per_s", "decisions_per_cpu_s")]
    unit = "us" if "p50_us" in part else "ms"
    times = [part[f"{name}_{unit}"] for name in ("p50", "p99", "p999")]
    return rates + [f"{time:,.0f} {unit}" if time >= _WHOLE_FROM else f"{time:.2f} {unit}" for time in times]
