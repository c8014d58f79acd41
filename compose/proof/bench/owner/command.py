"""``millrace bench owner``: real owner processes on a pre-filled topic, beside the COPY ceiling and the plain loop."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from compose import limits as compose_limits
from compose.proof import limits as proof_limits
from compose.proof.bench.options import AsJson, Home


def owner(
    as_json: AsJson = False,
    commands: Annotated[
        int, typer.Option(min=1_000, max=proof_limits.BENCH_OWNER_COMMANDS_MAX, help="Commands in the topic.")
    ] = proof_limits.BENCH_OWNER_COMMANDS_DEFAULT,
    processes: Annotated[str, typer.Option(help="Numbers of owner processes to measure, one run each.")] = "1,2",
    repeats: Annotated[
        int, typer.Option(min=1, max=proof_limits.BENCH_REPEATS_OF_RUN_MAX, help="Medians of so many.")
    ] = 1,
    seconds: Annotated[
        float, typer.Option(min=1, max=proof_limits.BENCH_SECONDS_MAX, help="Length of the latency measurement.")
    ] = proof_limits.BENCH_SECONDS_DEFAULT,
    home: Home = None,
    save: Annotated[Path | None, typer.Option(help="Append the result to this file, one JSON line a run.")] = None,
) -> None:
    """Measure partition owners: commands per second, ratios, CPU per command, latency, and the end state."""
    from compose.proof.bench.owner.report import OwnerPlan, bench_owner  # noqa: PLC0415 - the help needs none of it
    from compose.proof.kit.narrator import Narrator  # noqa: PLC0415

    narrator = Narrator(on_stderr=True)
    plan = OwnerPlan(
        commands=commands,
        processes=_numbers(processes),
        repeats=repeats,
        rate=proof_limits.BENCH_OWNER_RATE_PER_S,
        seconds=seconds,
        home=home,
    )
    result = bench_owner(plan, narrator.say)
    if save is not None:
        with save.open("a") as file:
            file.write(json.dumps(result) + "\n")
    if as_json:
        print(json.dumps(result, indent=1))
    else:
        _show(narrator.console, result)
    if not all(run["end_state_matches"] for run in result["runs"]):
        raise typer.Exit(1)


def _numbers(text: str) -> tuple[int, ...]:
    parts = text.split(",")
    if not all(part.strip().isdigit() and 1 <= int(part) <= compose_limits.OWNER_PROCESSES_MAX for part in parts):
        raise typer.BadParameter(f"give numbers from 1 to {compose_limits.OWNER_PROCESSES_MAX}, as in 1,2")
    return tuple(dict.fromkeys(int(part) for part in parts))


def _show(console: Any, result: dict[str, Any]) -> None:
    from rich.table import Table  # noqa: PLC0415

    table = Table(
        "", "commands/s", "of COPY", "of plain loop", "batch", "CPU us per command", "WAL bytes", "end state", box=None
    )
    ceiling, plain = result["copy_ceiling_per_s"], result["plain_loop"]
    table.add_row("COPY, one connection", f"{ceiling:,.0f}", "1", "", "", "", "", "")
    plain_row = (f"{plain['commands_per_s']:,.0f}", f"{plain['commands_per_s'] / ceiling:.2f}", "1")
    table.add_row(
        "plain loop, 1 process", *plain_row, f"{plain['batch_size_mean']:g}", _spent(plain), _written(plain), ""
    )
    for run in result["runs"]:
        table.add_row(
            f"bytewax, {run['processes']} process{'es' if run['processes'] > 1 else ''}",
            f"{run['commands_per_s']:,.0f}",
            f"{run['ratio_to_copy_ceiling']:.2f}",
            f"{run['ratio_to_plain_loop']:.2f}",
            f"{run['batch_size_mean']:g}",
            _spent(run),
            _written(run),
            "matches" if run["end_state_matches"] else "DIFFERS",
        )
    console.print(table)
    latency = result["latency"]
    spent = _spent(latency)
    print(
        f"produce to committed at {latency['rate_per_s']:g}/s: p50 {latency['p50_ms']} ms, p99 {latency['p99_ms']} ms,"
        f" p99.9 {latency['p999_ms']} ms, {latency['lost']} lost,"
        f" transactions of {latency['batch_size_mean']:g} commands, CPU us per command: {spent}"
    )
    for run in result["runs"]:
        for name in ("python_share", "postgres_share"):
            parts = ", ".join(f"{part} {share:.0%}" for part, share in run[name].items() if share >= 0.01)  # noqa: PLR2004
            print(f"{run['processes']} x {name.removesuffix('_share')}: {parts}")
        for difference in run["differences"]:
            print(f"DIFFERS: {difference}")


def _written(run: dict[str, Any]) -> str:
    return f"{run['wal_bytes_per_command']:,.0f}"


def _spent(run: dict[str, Any]) -> str:
    return ", ".join(f"{name} {us:g}" for name, us in run["cpu_us_per_command"].items())
