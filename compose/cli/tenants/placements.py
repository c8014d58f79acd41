"""Where tenants may be placed, and the schemas that are emptied for good or for a while: over the API."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer

from compose.cli.tenants import calls
from compose.cli.tenants.calls import AsJson, Token
from schemas.tenancy import limits

app = typer.Typer()
_PANEL: Final = "Stores"
_COLUMNS: Final = ("store", "state", "tenants", "tenants_max", "moving", "soaking")

Store = Annotated[str, typer.Argument(metavar="STORE", help="As 'placements' shows it.")]
Note = Annotated[str, typer.Option("--note", help="Why; it is kept with your name.")]


@app.command("placements", rich_help_panel=_PANEL)
def placements(token: Token, as_json: AsJson = False) -> None:
    """Show where tenants may be placed: active, full, draining, retired or provisioning, and how many are on their way.

    Example: millrace tenants placements
    """
    calls.tell_page(calls.read(token, "placements"), _COLUMNS, as_json=as_json, none="there are no stores yet")


@app.command("placements-drain", rich_help_panel=_PANEL)
def drain(
    store: Store,
    note: Note,
    token: Token,
    soak_s: Annotated[
        int | None,
        typer.Option(
            "--soak-s", min=0, max=limits.MOVE_SOAK_S, help="For how long one that was moved may go back; else a day."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Have all tenants of a shared schema moved into others, some at a time. Empty, it is retired.

    It takes nobody from now on. Whose keys are destroyed is not moved: it stays until it is deleted. With a token of
    an operator of the platform.

    Example: millrace tenants placements-drain tenancy_pool_2 --note "its disk is replaced" --soak-s 3600
    """
    body = {"note": note} | ({} if soak_s is None else {"soak_s": soak_s})
    _decide(token, store, "drain", body, as_json=as_json)


@app.command("placements-activate", rich_help_panel=_PANEL)
def activate(store: Store, note: Note, token: Token, as_json: AsJson = False) -> None:
    """Let tenants come to a schema again that is drained or retired. Moves that were begun go on.

    Example: millrace tenants placements-activate tenancy_pool_2 --note "the new disk is there"
    """
    _decide(token, store, "activate", {"note": note}, as_json=as_json)


def _decide(token: str, store: str, verb: str, body: dict[str, Any], *, as_json: bool) -> None:
    from compose.cli.decisions import decide  # noqa: PLC0415 - imports the client

    found = decide(token, f"placements/{store}/{verb}", body)["result"]
    calls.tell(found, f"{store} is {found['state']}, with {found['tenants']} tenants", as_json=as_json)
