"""``millrace parked``: commands that failed unexpectedly wait here for an operator's decision."""

from __future__ import annotations

import getpass
from typing import TYPE_CHECKING, Annotated

import typer

from compose.cli.options import AsJson
from compose.cli.printed import json_text
from compose.operator_access import operator_connection, shell_user
from compose.settings.settings import load_settings

if TYPE_CHECKING:
    from reconciliation.parked import Decision

app = typer.Typer(no_args_is_help=True)

PlaceText = Annotated[str, typer.Argument(metavar="TOPIC/PARTITION/OFFSET", help="As 'millrace parked list' shows it.")]
Note = Annotated[str, typer.Option("--note", help="Why; it is kept with your name.")]
By = Annotated[str | None, typer.Option("--by", help="Who decides; your login name if not given.")]


@app.command("list")
def list_(
    as_json: AsJson = False,
    every_state: Annotated[
        bool, typer.Option("--all", help="Resolved ones too, and what was refused and never waited.")
    ] = False,
) -> None:
    """Show what waits for a decision."""
    from reconciliation.audit.log import audited  # noqa: PLC0415
    from reconciliation.parked import parked_list  # noqa: PLC0415 - imports the drivers

    with operator_connection() as connection, audited(connection, shell_user(), "parked.list", "parked"):
        rows = parked_list(connection, every_state=every_state)
    if as_json:
        print(json_text({"data": rows}))
        return
    for row in rows:
        place = f"{row['topic']}/{row['partition']}/{row['offset']}"
        print(f"{place}  {row['state']}  {row['aggregate_key']}  {row['reason']}")
    if not rows:
        print("nothing is parked")


@app.command()
def retry(place: PlaceText, note: Note, by: By = None) -> None:
    """Put a command into its topic again, under the same identity, and let its object work again."""
    from reconciliation.parked import Place, parked_retry  # noqa: PLC0415
    from schemas.senders import PARKED  # noqa: PLC0415

    with operator_connection() as connection:
        parked_retry(connection, load_settings().kafka_as(PARKED), Place.parse(place), _decision(note, by))
    print(f"{place} is in its topic again")


@app.command()
def discard(place: PlaceText, note: Note, by: By = None) -> None:
    """Give a command up for ever and let its object work again."""
    from reconciliation.parked import Place, parked_discard  # noqa: PLC0415

    with operator_connection() as connection:
        parked_discard(connection, Place.parse(place), _decision(note, by))
    print(f"{place} is discarded")


def _decision(note: str, by: str | None) -> Decision:
    from reconciliation.parked import Decision  # noqa: PLC0415

    return Decision(operator=by or getpass.getuser(), note=note)
