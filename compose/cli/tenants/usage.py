"""What a tenant used and may: with its own token, for usage is told to the tenant alone, and entitlements."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import typer

from compose.cli.tenants import calls
from compose.cli.tenants.bills import From, To
from compose.cli.tenants.calls import AsJson, Key, Tenant, Token
from compose.stack.errors import StackError

app = typer.Typer()
_PANEL: Final = "Bills"
Window = Literal["none", "minute", "hour", "day", "month"]
Group = Literal["subject", "source"]
Aggregation = Literal["sum", "count", "min", "max", "latest", "unique", "average", "percentile"]


@app.command(rich_help_panel=_PANEL)
def usage(
    token: Token,
    dimension: Annotated[str, typer.Option(help="Of what was metered.")],
    from_: From,
    to: To,
    window: Annotated[Window, typer.Option(help="In the tenant's calendar, unless --timezone says another.")] = "none",
    group: Annotated[Group | None, typer.Option(help="A line for each.")] = None,
    timezone: Annotated[str | None, typer.Option(help="The calendar of the windows.")] = None,
    aggregation: Annotated[Aggregation, typer.Option(help="What is made of the quantities.")] = "sum",
    percentile: Annotated[int | None, typer.Option(min=1, max=100, help="With --aggregation percentile.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show exactly what the tenant of the token used. The API tells it to the tenant's own token (usage:read) alone.

    Example: millrace tenants usage --dimension tokens --from 2026-11-01T00:00:00Z --to 2026-12-01T00:00:00Z --window
    day
    """
    if percentile is not None and aggregation != "percentile":
        raise typer.BadParameter("--percentile goes with --aggregation percentile")
    asked = {"dimension": dimension, "from": from_, "to": to, "window": window, "aggregation": aggregation}
    further = {"group": group, "timezone": timezone, "percentile": percentile}
    found = calls.read(token, "usage", **asked, **{name: value for name, value in further.items() if value is not None})
    figure = "quantity" if aggregation in ("sum", "count") else "value"
    columns = ("from", "to", figure, "events", *([group] if group else []))
    calls.tell_page(found, columns, as_json=as_json, none="nothing was used")


@app.command(rich_help_panel=_PANEL)
def entitlements(
    tenant: Tenant,
    token: Token,
    file: Annotated[
        Path | None, typer.Option("--set", help="A file with all of them as JSON: {feature: {kind, value}}.")
    ] = None,
    key: Key = "",
    as_json: AsJson = False,
) -> None:
    """Show what a tenant may now, or say all of it at once.

    Example: millrace tenants entitlements tn_1 --set gold.json
    """
    path = f"tenants/{tenant}/entitlements"
    if file is not None:
        done = calls.command(token, path, {"entitlements": _read(file)}, key, method="PUT")
        calls.tell(done, f"{tenant} is told what it may: version {done['version']}", as_json=as_json)
        return
    found = calls.read(token, path)
    calls.tell_page(
        found, ("feature", "kind", "allowed", "warning", "used", "remaining"), as_json=as_json, none="nothing was said"
    )


def _read(file: Path) -> Any:
    try:
        return json.loads(file.read_text())
    except (OSError, ValueError) as error:
        raise StackError(f"{file} cannot be read as JSON: {error}") from error
