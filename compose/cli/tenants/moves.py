"""Moves of a tenant between the pool, a schema of its own and a database of its own: begun, watched, ended."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from compose.cli.tenants import calls, watching
from compose.cli.tenants.calls import AsJson, Cursor, Id, Key, Limit, Tenant, Token
from compose.cli.tenants.life import Mode
from schemas.tenancy import limits

if TYPE_CHECKING:
    from collections.abc import Callable

app = typer.Typer()
_PANEL: Final = "Moves"
_COLUMNS: Final = ("migration_id", "state", "rows_copied", "created_at")
Watch = Annotated[
    bool,
    typer.Option(
        "--watch",
        help="Show how it goes on until it is over; exit status 0 only where it ended well. Ctrl-C stops"
        " looking, not the move.",
    ),
]


def _tell(token: str, ask: Callable[[], dict[str, Any]], ends: str, *, key: str, watch: bool, as_json: bool) -> None:
    """What is said to a move, or its way to the end: then the exit status says whether that is a good one.

    A short move may be over at the first look: the answer to what was asked bounds then how long its writes waited.
    Under a ``key`` that was given it may be an answer of long ago, and bounds nothing.
    """
    pause, asked_at = watching.Pause(), time.monotonic()
    move = ask()
    if not key:
        pause.look({"fenced": False} | move, asked_at, time.monotonic())  # no command's result is under a fence
    path = f"tenants/{move['tenant_id']}/migrations/{move['migration_id']}"
    if watch:
        well = watching.follow(lambda: calls.read(token, path), ends, pause, as_json=as_json)
        raise typer.Exit(0 if well else 1)
    calls.tell(move, f"{move['migration_id']} is {move['state']}", as_json=as_json)


@app.command(rich_help_panel=_PANEL)
def move(
    tenant: Tenant,
    token: Token,
    to: Annotated[Mode, typer.Option(help="The pool, a schema of its own, or a database of its own.")],
    region: Annotated[str | None, typer.Option(help="Where its placement shall be, unless where it is.")] = None,
    rows_per_second: Annotated[
        int | None,
        typer.Option(
            min=1, max=limits.MOVE_ROWS_PER_SECOND_MAX, help="Bound of the copy. Default: as fast as it goes."
        ),
    ] = None,
    watch: Watch = False,
    key: Key = "",
    as_json: AsJson = False,
) -> None:
    """Move a tenant to another placement. It is over when the target serves (soaking), or the move was given up.

    Example: millrace tenants move tn_1 --to dedicated --rows-per-second 500 --watch
    """
    payload: dict[str, Any] = {"placement": {"mode": to} | ({"region": region} if region else {})}
    if rows_per_second is not None:
        payload["rows_per_second"] = rows_per_second
    path = f"tenants/{tenant}/migrations"
    ask = partial(calls.command, token, path, payload, key, makes=True)
    _tell(token, ask, "move", key=key, watch=watch, as_json=as_json)


@app.command(rich_help_panel=_PANEL)
def moves(tenant: Tenant, token: Token, limit: Limit = 20, cursor: Cursor = "", as_json: AsJson = False) -> None:
    """Show a tenant's moves, newest first.

    Example: millrace tenants moves tn_1
    """
    found = calls.page(token, f"tenants/{tenant}/migrations", limit, cursor)
    calls.tell_page(found, _COLUMNS, as_json=as_json, none="it was never moved")


@app.command("move-show", rich_help_panel=_PANEL)
def show(tenant: Tenant, migration_id: Id, token: Token, watch: Watch = False, as_json: AsJson = False) -> None:
    """Show one move: its state, rows copied and compared, the digests of both sides, whether writes wait.

    Example: millrace tenants move-show tn_1 mg_1 --watch
    """
    ask = partial(calls.read, token, f"tenants/{tenant}/migrations/{migration_id}")
    if watch:
        _tell(token, ask, "move", key="", watch=True, as_json=as_json)
    calls.tell_facts(ask(), as_json=as_json)


def _word(verb: str, tenant: str, migration_id: str, token: str, key: str, *, watch: bool, as_json: bool) -> None:
    ask = partial(calls.command, token, f"tenants/{tenant}/migrations/{migration_id}/{verb}", {}, key)
    _tell(token, ask, verb, key=key, watch=watch, as_json=as_json)


@app.command("move-abort", rich_help_panel=_PANEL)
def abort(
    tenant: Tenant, migration_id: Id, token: Token, watch: Watch = False, key: Key = "", as_json: AsJson = False
) -> None:
    """Give up a move that is not committed: the source serves on, and the target is emptied.

    Example: millrace tenants move-abort tn_1 mg_1 --watch
    """
    _word("abort", tenant, migration_id, token, key, watch=watch, as_json=as_json)


@app.command("move-rollback", rich_help_panel=_PANEL)
def rollback(
    tenant: Tenant, migration_id: Id, token: Token, watch: Watch = False, key: Key = "", as_json: AsJson = False
) -> None:
    """Go back to the source of a move that soaks, with all writes since.

    Example: millrace tenants move-rollback tn_1 mg_1 --watch
    """
    _word("rollback", tenant, migration_id, token, key, watch=watch, as_json=as_json)


@app.command("move-complete", rich_help_panel=_PANEL)
def complete(
    tenant: Tenant, migration_id: Id, token: Token, watch: Watch = False, key: Key = "", as_json: AsJson = False
) -> None:
    """Empty the source of a move that soaks, now and not a day after: then there is no way back.

    Example: millrace tenants move-complete tn_1 mg_1
    """
    _word("complete", tenant, migration_id, token, key, watch=watch, as_json=as_json)
