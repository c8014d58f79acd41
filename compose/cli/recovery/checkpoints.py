"""``millrace checkpoints``: named positions to recover from."""

from __future__ import annotations

import getpass
from typing import Annotated

import typer

from compose.cli.options import AsJson
from compose.cli.printed import json_text
from compose.operator_access import operator_connection, shell_user

app = typer.Typer(no_args_is_help=True)


@app.command("list")
def list_(as_json: AsJson = False) -> None:
    """Show the newest checkpoints."""
    from compose import limits  # noqa: PLC0415
    from reconciliation.audit.log import audited  # noqa: PLC0415
    from reconciliation.checkpoints import checkpoints_list  # noqa: PLC0415 - imports the drivers

    with operator_connection() as connection, audited(connection, shell_user(), "checkpoint.list", "checkpoints"):
        rows = checkpoints_list(connection, limit=limits.CHECKPOINTS_LISTED_MAX)
    if as_json:
        print(json_text({"data": rows}))
        return
    for row in rows:
        created_at = f"{row['created_at']:%Y-%m-%d %H:%M:%S}"
        print(f"{created_at}  {row['name']}  {row['reconciliation_status']}  {row['scenario']}  {row['owner']}")
    if not rows:
        print("there is no checkpoint")


@app.command()
def create(
    name: str,
    scenario: Annotated[str, typer.Option(help="What it is for.")] = "taken by an operator",
    aggregate_key: Annotated[str | None, typer.Option(help="The object that it is about; its version is kept.")] = None,
    by: Annotated[str | None, typer.Option("--by", help="Who takes it; your login name if not given.")] = None,
) -> None:
    """Write down where ClickHouse stands now, to replay from it later."""
    from reconciliation import checkpoints  # noqa: PLC0415
    from reconciliation.aggregates import aggregate_version  # noqa: PLC0415
    from reconciliation.audit.log import audited  # noqa: PLC0415
    from reconciliation.contract.checked_service import checked  # noqa: PLC0415
    from schemas.services import SERVICES  # noqa: PLC0415

    owner = by or getpass.getuser()
    with (
        operator_connection() as connection,
        audited(connection, shell_user(), "checkpoint.create", name, owner=owner, aggregate_key=aggregate_key),
    ):
        version = None if aggregate_key is None else aggregate_version(connection, aggregate_key)
        checkpoint = checkpoints.Checkpoint(
            name=name,
            scenario=scenario,
            operation_id=f"checkpoint:{name}",
            aggregate_key=aggregate_key,
            last_durable_version=version,
            projection_checkpoint=[p for s in SERVICES for p in checkpoints.sink_place(connection, checked(s))],
            owner=owner,
        )
        checkpoints.checkpoint_write(connection, checkpoint)
    print(f"checkpoint {name} is written")


@app.command()
def show(name: str, as_json: AsJson = False) -> None:
    """Show one checkpoint."""
    from reconciliation.audit.log import audited  # noqa: PLC0415
    from reconciliation.checkpoints import checkpoint_read  # noqa: PLC0415

    with operator_connection() as connection, audited(connection, shell_user(), "checkpoint.read", name):
        row = checkpoint_read(connection, name)
    if as_json:
        print(json_text(row))
        return
    for field, value in row.items():
        print(f"{field:24}{json_text(value) if isinstance(value, list | dict) else value}")
