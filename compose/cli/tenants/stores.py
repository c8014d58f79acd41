"""What the stores of tenants' rows hold, and what they may: as an operator of this machine."""

from __future__ import annotations

import json
from typing import Annotated, Any, Final

import typer

from compose.cli.options import AsJson
from compose.cli.tenants.shown import cell, table
from compose.operator_access import operator_connection, shell_user

app = typer.Typer()
_PANEL: Final = "Stores"
_COLUMNS: Final = ("store", "tenants", "tenants_max", "bytes", "bytes_max", "has_room")
_NOBODY: Final = ("default", "none")


def _a_number(text: str | None) -> str | None:
    if text is not None and text not in _NOBODY and not (text.isascii() and text.isdigit()):
        raise typer.BadParameter("a number, or 'default' of tenants, 'none' of bytes")
    return text


def _stood(row: dict[str, Any]) -> dict[str, Any]:
    return row | {"measured_at": row["measured_at"].isoformat() if row["measured_at"] else None}


@app.command("stores", rich_help_panel=_PANEL)
def stores(as_json: AsJson = False) -> None:
    """Show what each store of tenants' rows holds, and what it may; bytes as the mover measured them last.

    A store is a schema that tenants share; 'schemas' are all of tenants' own, 'databases' all databases of theirs.

    Example: millrace tenants stores
    """
    from reconciliation.audit.log import audited  # noqa: PLC0415
    from reconciliation.tenancy.tenant_stores import capacities  # noqa: PLC0415 - imports the driver

    with operator_connection() as connection, audited(connection, shell_user(), "tenant.stores", "stores"):
        rows = [_stood(row) for row in capacities(connection)]
    if as_json:
        print(json.dumps({"data": rows}))
        return
    print("\n".join(table(rows, _COLUMNS)))


@app.command("store", rich_help_panel=_PANEL)
def store(
    name: Annotated[str, typer.Argument(metavar="STORE", help="As 'stores' shows it; a next tenancy_pool_N is made.")],
    tenants: Annotated[
        str | None,
        typer.Option(callback=_a_number, help="So many tenants at most; 'default': as many as the release says."),
    ] = None,
    size: Annotated[
        str | None,
        typer.Option(
            "--bytes", callback=_a_number, help="No further tenant from so many bytes on; 'none': that is not asked."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say what a store may hold, or have one more made that tenants share. New tenants go where most room is.

    With --tenants 0 nobody comes any more. Who is there stays; 'placements-drain' moves all of them away.

    Example: millrace tenants store tenancy_pool_2 --tenants 50000
    """
    from reconciliation.audit.log import audited  # noqa: PLC0415
    from reconciliation.tenancy.tenant_stores import declare  # noqa: PLC0415

    said = {"tenants_max": tenants, "bytes_max": size}
    given = {key: None if text in _NOBODY else int(text) for key, text in said.items() if text is not None}
    with (
        operator_connection() as connection,
        audited(connection, shell_user(), "tenant.store", name, **given),
    ):
        row = _stood(declare(connection, name, given))
    if as_json:
        print(json.dumps(row))
        return
    made = "" if row["is_made"] else "; the mover makes it"
    of_bytes = "" if row["bytes_max"] is None else f", and {cell(row['bytes_max'])} bytes"
    print(f"{name} holds {cell(row['tenants'])} of {cell(row['tenants_max'])} tenants{of_bytes}{made}")
