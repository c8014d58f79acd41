"""``millrace partitions``: who owns what, which partitions stand still and how they go on; events published again."""

from __future__ import annotations

import getpass
from typing import Annotated

import typer

from compose.cli.options import AsJson, service_of
from compose.cli.printed import json_text
from compose.cli.recovery.parked import By, Note
from compose.operator_access import operator_connection, shell_user
from compose.settings.settings import load_settings

app = typer.Typer(no_args_is_help=True)


@app.command("list")
def list_(as_json: AsJson = False) -> None:
    """Show every partition with its owner, epoch and position, and what to do about a halted one."""
    from reconciliation.audit.log import audited  # noqa: PLC0415
    from reconciliation.partitions import partitions_list  # noqa: PLC0415 - imports the driver

    with operator_connection() as connection, audited(connection, shell_user(), "partition.list", "partitions"):
        rows = partitions_list(connection)
    if as_json:
        print(json_text({"data": rows}))
        return
    for row in rows:
        state = f"HALTED: {row['halted']}" if row["halted"] else row["owner_id"] or "nobody"
        print(f"{row['topic']}/{row['partition']}  epoch {row['epoch']}  offset {row['next_offset']}  {state}")
        if row["advice"]:
            print(f"    {row['advice']}")
    if not rows:
        print("no partition was ever owned")


@app.command()
def resume(
    place: Annotated[str, typer.Argument(metavar="TOPIC/PARTITION", help="As 'millrace partitions list' shows it.")],
    note: Note,
    by: By = None,
    start: Annotated[
        str | None,
        typer.Option("--from", metavar="low|high|OFFSET", help="Read on there, in the topic as it is now."),
    ] = None,
) -> None:
    """Let a halted partition go on, after its cause is mended; the command that broke it is tried again."""
    from reconciliation.partitions import partition_resume, partition_resume_from  # noqa: PLC0415

    topic, _, number = place.rpartition("/")
    if not topic or not number.isdecimal():
        raise typer.BadParameter(f"{place!r} is not TOPIC/PARTITION; see 'millrace partitions list'")
    partition, operator = int(number), by or getpass.getuser()
    with operator_connection() as connection:
        if start is None:
            partition_resume(connection, topic, partition, operator, note)
            print(f"{place} goes on")
        else:
            kafka = load_settings().addresses().kafka
            offset = partition_resume_from(connection, kafka, topic, partition, operator, note, start=start)
            print(f"{place} goes on at offset {offset} of the topic as it is now")


@app.command()
def republish(
    partition: Annotated[int, typer.Option(min=0, help="Of the events topic.")],
    from_seq: Annotated[int, typer.Option(min=1, help="The first event that a reader misses.")],
    service: Annotated[str, typer.Option(help="Whose events: payments, limiter, tenancy, social.")] = "payments",
    note: Annotated[str, typer.Option("--note", help="Why; it is kept with your name.")] = "",
    by: By = None,
) -> None:
    """Publish the events of a partition again from the outbox; readers drop those that they have."""
    from reconciliation.republish import republish as republish_events  # noqa: PLC0415

    of = service_of(service).name
    kafka, operator = load_settings().addresses().kafka, by or getpass.getuser()
    with operator_connection() as connection:
        count = republish_events(connection, kafka, of, partition, from_seq, operator, note)
    print(f"{count} events of {service} are in partition {partition} again")
