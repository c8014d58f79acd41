"""What a tenant takes with it: its live resources as NDJSON, checked against the SHA-256 that the API names."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from compose.cli.tenants import calls
from compose.cli.tenants.calls import AsJson, Cursor, Key, Limit, Tenant, Token
from compose.cli.tenants.life import PANEL
from compose.stack.errors import StackError

if TYPE_CHECKING:
    from typing import Any

app = typer.Typer()
_FAILED: Final = "failed"
_ENDED: Final = ("ready", _FAILED)


@app.command(rich_help_panel=PANEL)
def export(
    tenant: Tenant,
    token: Token,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the resources there, readable by you alone.")
    ] = None,
    key: Key = "",
    as_json: AsJson = False,
) -> None:
    """Write all live resources of a tenant as NDJSON, and wait until it is done. One that offboards is exported then.

    The file is there only once its SHA-256 is what the API says. A file that is there already is replaced.

    Example: millrace tenants export tn_1 --output acme.ndjson
    """
    if output is not None:
        _require_place(output)
    made = calls.command(token, f"tenants/{tenant}/export", {}, key, makes=True)
    path = f"tenants/{tenant}/exports/{made['export_id']}"
    done = calls.becomes(lambda: calls.read(token, path), lambda found: found["state"] in _ENDED, made["export_id"])
    if done["state"] == _FAILED:
        raise StackError(f"{done['export_id']} failed: the keys of {tenant} were destroyed meanwhile")
    if output is not None:
        _keep(token, path, done, output)
    at = f", in {output}" if output else ""
    said = f"{done['export_id']}: {done['resources']:,} resources{at}\nsha256 {done['sha256']}"
    calls.tell(done, said, as_json=as_json)


@app.command(rich_help_panel=PANEL)
def exports(tenant: Tenant, token: Token, limit: Limit = 20, cursor: Cursor = "", as_json: AsJson = False) -> None:
    """Show the exports of a tenant, newest first.

    Example: millrace tenants exports tn_1
    """
    found = calls.page(token, f"tenants/{tenant}/exports", limit, cursor)
    columns = ("export_id", "state", "resources", "created_at")
    calls.tell_page(found, columns, as_json=as_json, none="nothing was exported")


def _require_place(output: Path) -> None:
    """Raises StackError before anything is asked for: the export of a tenant that offboards is its last state."""
    if output.is_dir():
        raise StackError(f"{output} is a folder: name a file")
    if not os.access(output.absolute().parent, os.W_OK | os.X_OK):
        raise StackError(f"{output} cannot be written: its folder is not there, or not yours to write to")


def _keep(token: str, path: str, export: dict[str, Any], output: Path) -> None:
    from compose.cli import decisions  # noqa: PLC0415 - imports the HTTP client
    from sinks import private_file  # noqa: PLC0415

    content = decisions.call("GET", token, f"{path}/content").content
    if hashlib.sha256(content).hexdigest() != export["sha256"]:
        raise StackError(f"what came of {export['export_id']} is not what was exported: ask again")
    try:
        private_file.replace(output, content.decode())
    except OSError as error:
        raise StackError(f"{output} cannot be written: {error.strerror}") from error
