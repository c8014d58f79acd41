"""``millrace repair``: repairs of the ledger. Two persons propose and approve them over HTTP, by their tokens."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from compose.cli.options import AsJson
from compose.cli.printed import json_text
from compose.operator_access import operator_connection, shell_user
from compose.settings.settings import load_settings

app = typer.Typer(no_args_is_help=True)


@app.command("list")
def list_(
    as_json: AsJson = False,
    every_state: Annotated[bool, typer.Option("--all", help="Posted and rejected ones too.")] = False,
) -> None:
    """Show what waits for a decision or for its posting, newest first."""
    from reconciliation.audit.log import audited  # noqa: PLC0415 - imports the driver
    from reconciliation.payments.repair.lists import repairs_list  # noqa: PLC0415

    with operator_connection() as connection, audited(connection, shell_user(), "repair.list", "repairs"):
        rows = repairs_list(connection, every_state=every_state)
    if as_json:
        print(json_text({"data": rows}))
        return
    for row in rows:
        print(
            f"{row['id']}  {row['state']:9}{row['template']}  by {row['author']}  for {row['case_id']}  {row['note']}"
        )
    if not rows:
        print("no repair waits")


@app.command()
def show(repair_id: Annotated[str, typer.Argument(metavar="REPAIR")]) -> None:
    """Print one repair with its entries and what they do to every account, as JSON."""
    from reconciliation.audit.log import audited  # noqa: PLC0415
    from reconciliation.payments.repair.lists import repair_show  # noqa: PLC0415

    with operator_connection() as connection, audited(connection, shell_user(), "repair.read", repair_id):
        found = repair_show(connection, repair_id)
    print(json_text(found, indent=2))


@app.command()
def resume(as_json: AsJson = False) -> None:
    """Post what two persons decided and a crash left unposted; exit status 1 when an owner has not decided yet."""
    from reconciliation.audit.log import announced  # noqa: PLC0415
    from reconciliation.payments.repair.resume import resume as resume_all  # noqa: PLC0415
    from schemas.senders import REPAIRS  # noqa: PLC0415

    with operator_connection() as connection, announced(connection, shell_user(), "repair.resume", "repairs") as told:
        found = resume_all(connection, load_settings().kafka_as(REPAIRS))
        told |= {"posted": found.posted, "refused": found.refused, "undecided": found.undecided}
    if as_json:
        print(json.dumps({"posted": found.posted, "refused": found.refused, "undecided": found.undecided}))
    else:
        print(f"{len(found.posted)} posted, {len(found.refused)} refused, {len(found.undecided)} not decided yet")
    raise typer.Exit(1 if found.undecided else 0)
