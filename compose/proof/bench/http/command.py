"""``millrace bench http``: create and confirm over HTTP on a stack of its own, single and as lists."""

from __future__ import annotations

import json
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from compose import limits as compose_limits
from compose.proof import limits as proof_limits
from compose.proof.bench.options import AsJson
from ingress import limits as ingress_limits

if TYPE_CHECKING:
    from compose.proof.kit.narrator import Narrator

_OF_WEBHOOKS: Final = ("webhook_worker", "merchant_webhooks")


def http(
    as_json: AsJson = False,
    connections: Annotated[
        int, typer.Option(min=1, max=proof_limits.BENCH_CONNECTIONS_MAX, help="Connections for single commands.")
    ] = proof_limits.BENCH_CONNECTIONS_DEFAULT,
    bulk_connections: Annotated[
        int, typer.Option(min=1, max=proof_limits.BENCH_CONNECTIONS_MAX, help="Connections for lists of commands.")
    ] = proof_limits.BENCH_BULK_CONNECTIONS_DEFAULT,
    rate: Annotated[
        float, typer.Option(min=1, max=proof_limits.BENCH_RATE_MAX_PER_S, help="Single commands per second.")
    ] = proof_limits.BENCH_RATE_DEFAULT_PER_S,
    seconds: Annotated[
        float, typer.Option(min=1, max=proof_limits.BENCH_SECONDS_MAX, help="Length of each of the four measurements.")
    ] = proof_limits.BENCH_SECONDS_DEFAULT,
    lines: Annotated[
        int, typer.Option(min=1, max=ingress_limits.COMMANDS_LINES_MAX, help="Commands of one list.")
    ] = proof_limits.BENCH_LINES_DEFAULT,
    owners: Annotated[
        int | None,
        typer.Option(min=1, max=compose_limits.OWNER_PROCESSES_MAX, help="Owners; by default as 'millrace up'."),
    ] = None,
    ingresses: Annotated[
        int | None, typer.Option(min=1, max=compose_limits.INGRESS_PROCESSES_MAX, help="Ingresses; the same.")
    ] = None,
    webhooks: Annotated[
        bool, typer.Option("--webhooks", help="The processor also tells every outcome by webhook: twice the facts.")
    ] = False,
) -> None:
    """Measure create and confirm over HTTP: single commands in an open and in closed loops, then POST /v1/commands."""
    from compose.proof.bench.http.report import HttpBench, HttpPlan  # noqa: PLC0415 - the help needs none of it
    from compose.proof.kit.narrator import Narrator  # noqa: PLC0415
    from compose.proof.kit.own_stack import own_stack  # noqa: PLC0415
    from compose.settings.processes import processes_default  # noqa: PLC0415
    from compose.settings.settings import SERVICES  # noqa: PLC0415

    narrator = Narrator(on_stderr=True)
    with ExitStack() as leaving:
        began = time.monotonic()
        with narrator.busy("starting a stack"):
            services = SERVICES if webhooks else tuple(s for s in SERVICES if s not in _OF_WEBHOOKS)
            stack = leaving.enter_context(
                own_stack(
                    "bench",
                    owners=owners or processes_default(),
                    ingresses=ingresses or processes_default(),
                    services=services,
                    progress=narrator.stack,
                )
            )
        plan = HttpPlan(
            rate=rate,
            seconds=seconds,
            connections=connections,
            bulk_connections=bulk_connections,
            lines=lines,
            started_in_s=round(time.monotonic() - began, 1),
        )
        result = HttpBench(stack, plan, narrator.say).run()
    if as_json:
        print(json.dumps(result, indent=1))
    else:
        _show(narrator, result)


def _show(narrator: Narrator, result: dict[str, Any]) -> None:
    from rich.table import Table  # noqa: PLC0415

    columns = (
        "commands_per_s",
        "p50_ms",
        "p90_ms",
        "p99_ms",
        "p999_ms",
        "max_ms",
        "cpus_busy",
        "attempts_done_after_s",
    )
    parts = [name for name, found in result.items() if isinstance(found, dict) and "commands_per_s" in found]
    table = Table("", *columns, box=None)
    for part in parts:
        table.add_row(part, *(str(result[part].get(column, "")) for column in columns))
    narrator.console.print(table)
    for stage, found in result["single"]["where_the_time_went"].items():
        print(f"{stage:24} p50 {found.get('p50_ms', '-')} ms, p99 {found.get('p99_ms', '-')} ms: {found['what']}")
    print(f"the stack was up in {result['stack_started_in_s']} s; idle: CPU ms per second: ", end="")
    print(_spent(result["idle_cpu_ms_per_s"]))
    for part in parts:
        spent = _spent(result[part]["cpu_ms_per_command"])
        print(f"{part}: CPU ms per command: {spent}; batches {result[part]['batches']}")
    print(f"memory in MB at the end: {_spent(result['memory_mb'])}")


def _spent(by_service: dict[str, float]) -> str:
    return ", ".join(f"{name} {amount:g}" for name, amount in by_service.items() if amount)
