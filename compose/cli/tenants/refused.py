"""Usage that programs wrote to Kafka and that does not count: looked at, sent again, given up, at a shell."""

from __future__ import annotations

import json
from typing import Annotated, Any, Final, Literal

import typer

from compose.cli.options import AsJson
from compose.cli.tenants.shown import facts, table
from compose.operator_access import operator_connection, shell_user

app = typer.Typer()
_PANEL: Final = "Refused usage"
_COLUMNS: Final = ("refused_id", "refused_at", "state", "reason")

Id = Annotated[str, typer.Argument(metavar="REFUSED_ID", help="As 'refused-usage' shows it.")]
Note = Annotated[str, typer.Option("--note", help="Why; it is kept with your name.")]


def _stood(row: dict[str, Any]) -> dict[str, Any]:
    """Instants as the API writes them."""
    return {name: value.strftime("%Y-%m-%dT%H:%M:%SZ") if hasattr(value, "strftime") else value
            for name, value in row.items()}  # fmt: skip


@app.command("refused-usage", rich_help_panel=_PANEL)
def refused_usage(
    tenant: Annotated[str, typer.Option(help="Of the tenant that it names alone.")] = "",
    every_state: Annotated[bool, typer.Option("--all", help="Decided ones too.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show usage from Kafka that does not count, the newest first, with why.

    Example: millrace tenants refused-usage
    """
    from reconciliation.audit.log import audited  # noqa: PLC0415
    from reconciliation.tenancy.refused_usage import refused  # noqa: PLC0415 - imports the driver

    with (
        operator_connection() as connection,
        audited(connection, shell_user(), "usage.list_refused", tenant or "usage"),
    ):
        rows = [_stood(row) for row in refused(connection, tenant, every_state=every_state)]
    if as_json:
        print(json.dumps({"data": rows}))
    elif rows:
        print("\n".join(table(rows, _COLUMNS)))
    else:
        print("no usage is refused")


@app.command("refused-usage-show", rich_help_panel=_PANEL)
def refused_usage_show(refused_id: Id, as_json: AsJson = False) -> None:
    """Show one record with what is kept of it: what it says of usage, and the names of what else it says.

    Example: millrace tenants refused-usage-show ur_1
    """
    from reconciliation.audit.log import audited  # noqa: PLC0415
    from reconciliation.tenancy.refused_usage import refused_one  # noqa: PLC0415

    with operator_connection() as connection, audited(connection, shell_user(), "usage.read_refused", refused_id):
        row = _stood(refused_one(connection, refused_id))
    print(json.dumps(row) if as_json else "\n".join(facts(row)))


@app.command("refused-usage-send", rich_help_panel=_PANEL)
def refused_usage_send(refused_id: Id, note: Note) -> None:
    """Have one judged again, under what its sender may say now; if it counts, it counts once, whoever sent it too.

    Example: millrace tenants refused-usage-send ur_1 --note "the key has this tenant now"
    """
    _decide(refused_id, "asked", note)
    print(f"{refused_id} is judged again: 'refused-usage-show' tells what became of it")


@app.command("refused-usage-discard", rich_help_panel=_PANEL)
def refused_usage_discard(refused_id: Id, note: Note) -> None:
    """Give one up: it never counts.

    Example: millrace tenants refused-usage-discard ur_1 --note "a test of theirs"
    """
    _decide(refused_id, "discarded", note)
    print(f"{refused_id} is discarded")


def _decide(refused_id: str, decision: Literal["asked", "discarded"], note: str) -> None:
    from reconciliation.tenancy.refused_usage import decide  # noqa: PLC0415

    with operator_connection() as connection:
        decide(connection, refused_id, decision, shell_user(), note)
