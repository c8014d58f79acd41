"""``millrace partitions``: who owns what, and which partitions a broken invariant has halted."""

from __future__ import annotations

import getpass
import json
from typing import Annotated

import typer

from compose.cli.parked import By, Note
from compose.operator_access import operator_connection, shell_user

app = typer.Typer(no_args_is_help=True)


@app.command("list")
def list_(as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False) -> None:
    """Show every partition with its owner, epoch and position."""
    from reconciliation.audit.log import audited  # noqa: PLC0415
    from reconciliation.partitions import partitions_list  # noqa: PLC0415 - imports the driver

    with operator_connection() as connection, audited(connection, shell_user(), "partition.list", "partitions"):
        rows = partitions_list(connection)
    if as_json:
        print(json.dumps({"data": rows}, default=str))
        return
    for row in rows:
        state = f"HALTED: {row['halted']}" if row["halted"] else row["owner_id"] or "nobody"
        print(f"{row['topic']}/{row['partition']}  epoch {row['epoch']}  offset {row['next_offset']}  {state}")
    if not rows:
        print("no partition was ever owned")


@app.command()
def resume(
    place: Annotated[str, typer.Argument(metavar="TOPIC/PARTITION", help="As 'millrace partitions list' shows it.")],
    note: Note,
    by: By = None,
) -> None:
    """Let a halted partition go on, after its cause is mended; the command that broke it is tried again."""
    from reconciliation.partitions import partition_resume  # noqa: PLC0415

    topic, _, partition = place.rpartition("/")
    if not topic or not partition.isdecimal():
        raise typer.BadParameter(f"{place!r} is not TOPIC/PARTITION; see 'millrace partitions list'")
    with operator_connection() as connection:
        partition_resume(connection, topic, int(partition), by or getpass.getuser(), note)
    print(f"{place} goes on")
