"""``millrace demo limiter``: an access log through three gateways, and the proof that no bound was broken."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from compose.proof import limits

if TYPE_CHECKING:
    from compose.proof.demo.limiter.access_log import AccessLog
    from compose.proof.demo.limiter.run import LimiterVerdict
    from compose.proof.kit.narrator import Narrator


def limiter(
    log: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="An access log of Apache or nginx (combined format, also gzipped); without it one is generated, "
            "always the same.",
        ),
    ] = None,
    speed: Annotated[
        float | None,
        typer.Option(
            min=1,
            max=limits.DEMO_LOG_SPEED_MAX,
            help=f"How many times faster than the log; without it the replay takes about {limits.DEMO_LOG_SECONDS} s.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")] = False,
) -> None:
    """Replay an access log through three gateways on one Valkey, and hold every decision against an exact oracle.

    A fifth of the requests is retried under the same identity; half-way one gateway gets SIGKILL and two policies
    change. Exit 1 when a bound was broken, a retry was charged again, or the books of the store do not agree.

    Example: millrace demo limiter --log access.log.gz --speed 5000
    """
    from compose.proof.demo.limiter.access_log import generated_lines, parsed, read_access_log  # noqa: PLC0415 - not for the help
    from compose.proof.demo.limiter.run import replay_through_gateways  # noqa: PLC0415
    from compose.proof.kit.interruption import end_as_interrupted  # noqa: PLC0415
    from compose.proof.kit.narrator import Narrator  # noqa: PLC0415

    end_as_interrupted()
    narrator = Narrator(on_stderr=as_json)
    found = read_access_log(log) if log else parsed(generated_lines(limits.DEMO_LOG_LINES_GENERATED))
    _tell_of_log(found, narrator)
    verdict = replay_through_gateways(found, speed or max(found.span_s / limits.DEMO_LOG_SECONDS, 1), narrator)
    if as_json:
        print(json.dumps(verdict.figures(), indent=1))
    else:
        show(verdict, narrator)
    raise typer.Exit(0 if verdict.is_ok else 1)


def _tell_of_log(log: AccessLog, narrator: Narrator) -> None:
    clients = len({visit.client for visit in log.visits})
    narrator.say(
        f"{len(log.visits):,} requests of {clients:,} clients in {log.span_s / 3_600:.1f} h; {log.out_of_order:,} "
        f"lines went back in time and were sorted, {log.skipped:,} were no requests"
    )


def show(verdict: LimiterVerdict, narrator: Narrator) -> None:
    """The tables and the last line."""
    narrator.console.print()
    show_tables(verdict, narrator)
    for problem in verdict.judge.problems:
        narrator.console.print(f"[red]differs[/red] {problem}", soft_wrap=True)
    print(line(verdict), flush=True)


def show_tables(verdict: LimiterVerdict, narrator: Narrator) -> None:
    """Admitted against the bound, policy by policy, and what became of the leases."""
    from rich.table import Table  # noqa: PLC0415

    figures = verdict.figures()
    table = Table(
        "policy", "algorithm", "decided by", box=None, title="admitted against the bound", title_justify="left"
    )
    for column in (
        "keys",
        "admitted",
        "refused",
        "busiest key",
        "its bound",
        "over-admitted",
        "least room",
        "early by",
    ):
        table.add_column(column, justify="right")
    for row in figures["policies"]:
        table.add_row(f"{row['policy_id']} v{row['version']}", row["algorithm"], row["consistency"], *_numbers(row))
    narrator.console.print(table)
    narrator.console.print(_EXPLAINED, style="dim", soft_wrap=True)
    leases = figures["leases"]
    narrator.console.print(
        f"leases of windows: {leases['admitted']:,} admitted; the store has {leases['used']:,} used and "
        f"{leases['reserved']:,} reserved by the killed gateway, which held {leases['held_by_killed']:,} and left "
        f"{leases['unanswered']:,} unanswered",
        soft_wrap=True,
    )


def line(verdict: LimiterVerdict) -> str:
    """The last line."""
    pairs = {
        name: value for name, value in verdict.figures().items() if isinstance(value, int | float) and name != "ok"
    }
    text = " ".join(f"{name}={value}" for name, value in pairs.items())
    return f"LIMITER {'OK' if verdict.is_ok else 'FAILED'} {text}"


def _numbers(row: dict[str, Any]) -> list[str]:
    early = f"{row['refused_early_by']:,} of {row['lease_share']:,}" if row["lease_share"] else "-"
    names = ("counters", "admitted", "refused", "busiest_admitted", "busiest_bound", "over_admitted", "least_room")
    return [*(f"{row[name]:,}" for name in names), early]


_EXPLAINED = (
    "least room: what the oracle had left after the tightest admission, never below 0. early by: the most that was "
    "left when a leased policy refused, beside what its leases may hold; exact policies refuse only for want of room."
)
