"""``millrace cases``: what waits for a person. Decisions are made over HTTP, where a token says who decides."""

from __future__ import annotations

import getpass
import json
from typing import Annotated

import typer

from compose.cli.parked import operator_connection

app = typer.Typer(no_args_is_help=True)
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


@app.command("list")
def list_(
    as_json: AsJson = False,
    kind: Annotated[str | None, typer.Option(help="Only cases of this kind.")] = None,
    every_state: Annotated[bool, typer.Option("--all", help="Resolved ones too.")] = False,
) -> None:
    """Show what waits, newest first."""
    from reconciliation.audit.log import audited  # noqa: PLC0415 - imports the driver
    from reconciliation.repair.lists import cases_list  # noqa: PLC0415

    with operator_connection() as connection, audited(connection, shell_user(), "case.list", "cases"):
        rows = cases_list(connection, kind=kind, every_state=every_state)
    if as_json:
        print(json.dumps({"data": rows}, default=str))
        return
    for row in rows:
        print(
            f"{row['id']}  {row['state']:9}{row['kind']}  {row['reference']}  since {row['opened_at']:%Y-%m-%d %H:%M}"
        )
    if not rows:
        print("nothing waits for a person")


@app.command()
def show(case_id: Annotated[str, typer.Argument(metavar="CASE")]) -> None:
    """Print one case with its evidence as JSON."""
    from reconciliation.audit.log import audited  # noqa: PLC0415
    from reconciliation.repair.lists import case_show  # noqa: PLC0415

    with operator_connection() as connection, audited(connection, shell_user(), "case.read", case_id):
        found = case_show(connection, case_id)
    print(json.dumps(found, default=str, indent=2))


@app.command()
def sweep(as_json: AsJson = False) -> None:
    """Open a case for money that waits in suspense or on its way for longer than the horizon."""
    from reconciliation.audit.log import audited  # noqa: PLC0415
    from reconciliation.repair.lists import aged_cases_open  # noqa: PLC0415

    with operator_connection() as connection, audited(connection, shell_user(), "case.sweep", "cases"):
        opened = aged_cases_open(connection)
    if as_json:
        print(json.dumps({"opened": opened}))
        return
    for row in opened:
        print(f"{row['id']}  {row['reference']}")
    print(f"{len(opened)} cases opened")


def shell_user() -> str:
    """Who is at the shell, as the audit log names them."""
    return f"shell:{getpass.getuser()}"
