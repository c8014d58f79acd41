"""``millrace check``: every invariant over the stored data; exit status 1 when one does not hold."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from compose.cli.options import AsJson
from compose.cli.printed import json_text
from compose.operator_access import check_settings, operator_connection
from compose.settings.settings import load_settings
from compose.stack.errors import StackError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from rich.status import Status
    from rich.table import Table

    from reconciliation.check.run import Finding, Report

app = typer.Typer()


@app.command()
def check(
    as_json: AsJson = False,
    only: Annotated[
        list[str] | None, typer.Option("--only", metavar="ID", help="Only this invariant; repeatable.")
    ] = None,
    every_row: Annotated[bool, typer.Option("--all", help="Show every violating row, not a sample.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show the invariants that hold, too.")] = False,
    acknowledged: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="NDJSON of what callers were told is committed (invariant 20)."),
    ] = None,
) -> None:
    """Compare the ledger, results, events, ClickHouse, Kafka and the processor's book; safe beside a live system.

    A check of all invariants also writes its verdict, clean or gaps, into every recovery checkpoint taken before it.
    """
    from reconciliation import checkpoints, limits  # noqa: PLC0415
    from reconciliation.check.run import run_check  # noqa: PLC0415 - imports every client
    from schemas.errors import PlatformError  # noqa: PLC0415
    from sinks.clickhouse.decoding import collect_garbage_rarely  # noqa: PLC0415

    collect_garbage_rarely()
    settings = check_settings(load_settings(), acknowledged)
    begun_at: datetime | None = None
    if not only:
        with operator_connection() as connection:
            begun_at = checkpoints.database_time(connection)
    with nullcontext() if as_json else _progress() as status:
        try:
            report = run_check(
                settings,
                only=only or (),
                sample_max=None if every_row else limits.CHECK_SAMPLE_MAX,
                on_start=(lambda _: None) if status is None else (lambda i: status.update(f"{i.id}: {i.title}")),
            )
        except (PlatformError, ValueError) as error:
            raise StackError(str(error)) from error
    if begun_at is not None:
        with operator_connection() as connection:
            checkpoints.checkpoints_judge(connection, begun_at=begun_at, gaps=report.gaps)
    if as_json:
        print(json_text(report.as_object()))
    else:
        _print(report, verbose=verbose)
    raise typer.Exit(1 if report.gaps else 0)


def _progress() -> Status:
    from rich.console import Console  # noqa: PLC0415

    return Console(stderr=True).status("reading")


def _print(report: Report, *, verbose: bool) -> None:
    from rich.console import Console  # noqa: PLC0415

    console = Console()
    shown = [finding for finding in report.invariants if verbose or finding.gaps]
    if shown:
        console.print(_table(shown))
    for finding in report.invariants:
        for row in finding.sample:
            console.print(f"[red]{finding.id}[/red] " + ", ".join(f"{k}={v}" for k, v in row.items()), highlight=False)
    verdict = "[green]no gaps[/green]" if not report.gaps else f"[red]{report.gaps} gaps[/red]"
    console.print(f"{len(report.invariants)} invariants, {verdict}")


def _table(findings: Sequence[Finding]) -> Table:
    from rich.table import Table  # noqa: PLC0415

    table = Table(box=None, pad_edge=False)
    for column in ("id", "invariant", "owner"):
        table.add_column(column)
    for column in ("s", "gaps"):
        table.add_column(column, justify="right")
    for finding in findings:
        gaps = "[green]0[/green]" if not finding.gaps else f"[red]{finding.gaps} {finding.severity}[/red]"
        title = finding.title + (f"\n[dim]{finding.note}[/dim]" if finding.note else "")
        table.add_row(finding.id, title, finding.owner, f"{finding.seconds:.2f}", gaps)
    return table
