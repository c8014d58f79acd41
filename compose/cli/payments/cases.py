"""``millrace cases``: what waits for a person, and its end without a repair.

Whoever decides says so with a token, over HTTP as everybody else: no login name of a machine is a second person.
"""

from __future__ import annotations

import json
from typing import Annotated

import typer

from compose.cli.options import AsJson, Token
from compose.cli.printed import json_text
from compose.operator_access import operator_connection, shell_user
from schemas.payments.case_closing import REASONS

app = typer.Typer(no_args_is_help=True)
CaseId = Annotated[str, typer.Argument(metavar="CASE")]
ClosingId = Annotated[str, typer.Argument(metavar="CLOSING", help="As 'millrace cases closings' shows it.")]
Note = Annotated[str, typer.Option("--note", help="How you know; it is kept with your name.")]


@app.command("list")
def list_(
    as_json: AsJson = False,
    kind: Annotated[str | None, typer.Option(help="Only cases of this kind.")] = None,
    every_state: Annotated[bool, typer.Option("--all", help="Resolved ones too.")] = False,
) -> None:
    """Show what waits, newest first."""
    from reconciliation.audit.log import audited  # noqa: PLC0415 - imports the driver
    from reconciliation.payments.repair.lists import cases_list  # noqa: PLC0415

    with operator_connection() as connection, audited(connection, shell_user(), "case.list", "cases"):
        rows = cases_list(connection, kind=kind, every_state=every_state)
    if as_json:
        print(json_text({"data": rows}))
        return
    for row in rows:
        print(
            f"{row['id']}  {row['state']:9}{row['kind']}  {row['reference']}  since {row['opened_at']:%Y-%m-%d %H:%M}"
        )
    if not rows:
        print("nothing waits for a person")


@app.command()
def show(case_id: CaseId) -> None:
    """Print one case with its evidence as JSON."""
    from reconciliation.audit.log import audited  # noqa: PLC0415
    from reconciliation.payments.repair.lists import case_show  # noqa: PLC0415

    with operator_connection() as connection, audited(connection, shell_user(), "case.read", case_id):
        found = case_show(connection, case_id)
    print(json_text(found, indent=2))


@app.command()
def sweep(as_json: AsJson = False) -> None:
    """Open a case for money that waits in suspense, on its way or with a processor for longer than the horizon."""
    from reconciliation.audit.log import audited  # noqa: PLC0415
    from reconciliation.payments.repair.lists import aged_cases_open  # noqa: PLC0415

    with operator_connection() as connection, audited(connection, shell_user(), "case.sweep", "cases"):
        opened = aged_cases_open(connection)
    if as_json:
        print(json.dumps({"opened": opened}))
        return
    for row in opened:
        print(f"{row['id']}  {row['reference']}")
    print(f"{len(opened)} cases opened")


@app.command()
def close(
    case_id: CaseId,
    reason: Annotated[str, typer.Option(help=f"One of {', '.join(REASONS)}.")],
    note: Note,
    token: Token,
) -> None:
    """Close a case that needs no money; where it concerns money this is a proposal, and another person approves it."""
    from compose.cli.decisions import decide  # noqa: PLC0415 - imports the HTTP client

    found = decide(token, f"cases/{case_id}/closings", {"reason": reason, "note": note}, is_identified=True)
    done = "is closed" if found["state"] == "closed" else f"waits for a second person: approve {found['id']}"
    print(f"{case_id} {done}")


@app.command()
def closings(case_id: CaseId, token: Token) -> None:
    """Print how a case was closed and opened again, newest first, as JSON."""
    from compose.cli.decisions import read  # noqa: PLC0415

    print(json.dumps(read(token, f"cases/{case_id}/closings")["data"], indent=2))


@app.command()
def approve(case_id: CaseId, closing_id: ClosingId, token: Token) -> None:
    """Close a case as another person than the one who proposed it."""
    from compose.cli.decisions import decide  # noqa: PLC0415

    decide(token, f"cases/{case_id}/closings/{closing_id}/approve", {})
    print(f"{case_id} is closed")


@app.command()
def reject(
    case_id: CaseId,
    closing_id: ClosingId,
    token: Token,
    note: Annotated[str | None, typer.Option("--note", help="Why not.")] = None,
) -> None:
    """Reject the closing of a case, or withdraw your own."""
    from compose.cli.decisions import decide  # noqa: PLC0415

    decide(token, f"cases/{case_id}/closings/{closing_id}/reject", {"note": note} if note else {})
    print(f"{case_id} waits again")


@app.command()
def reopen(case_id: CaseId, note: Note, token: Token) -> None:
    """Open a case again that a person closed."""
    from compose.cli.decisions import decide  # noqa: PLC0415

    decide(token, f"cases/{case_id}/reopen", {"note": note})
    print(f"{case_id} waits again")
