"""``millrace access``: who is not let in any more. Every door follows within 5 s; what is open ends."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from compose.cli.options import AsJson
from compose.cli.printed import json_text
from compose.operator_access import operator_connection, shell_user
from compose.stack.errors import StackError

app = typer.Typer(no_args_is_help=True)
Kind = Annotated[
    Literal["merchant", "tenant", "user", "subject", "token"],
    typer.Argument(help="What the name is: whom callers act for, the person, or a token's jti."),
]
Name = Annotated[str, typer.Argument(help="Who.")]
Reason = Annotated[str, typer.Option("--reason", help="Why; kept with your name.")]


@app.command()
def deny(
    kind: Kind,
    name: Name,
    reason: Reason,
    so_far: Annotated[
        bool, typer.Option("--so-far", help="Only tokens that were issued until now: sign in again, and go on.")
    ] = False,
) -> None:
    """Refuse a merchant, tenant, user, person or token at every door."""
    from reconciliation import access  # noqa: PLC0415 - imports the driver
    from schemas.errors import InvalidCommand  # noqa: PLC0415

    with operator_connection() as connection:
        try:
            word = access.deny(connection, kind, name, reason, shell_user(), so_far=so_far)
        except InvalidCommand as error:
            raise StackError(error.line) from error
    if word == "too_many":
        raise StackError("the list is full: lift what need not be on it (millrace access list)")
    print(f"{kind} {name} is refused at every door within 5 s")


@app.command()
def lift(kind: Kind, name: Name, reason: Reason) -> None:
    """Let somebody in again."""
    from reconciliation import access  # noqa: PLC0415
    from schemas.errors import InvalidCommand  # noqa: PLC0415

    with operator_connection() as connection:
        try:
            word = access.lift(connection, kind, name, reason, shell_user())
        except InvalidCommand as error:
            raise StackError(error.line) from error
    if word == "not_found":
        raise StackError(f"{kind} {name} is not denied access")
    print(f"{kind} {name} is let in again")


@app.command("list")
def list_(as_json: AsJson = False) -> None:
    """Show who is denied access now."""
    from reconciliation import access  # noqa: PLC0415
    from reconciliation.audit.log import audited  # noqa: PLC0415

    with operator_connection() as connection, audited(connection, shell_user(), "access.list", "access_denials"):
        rows = access.listed(connection)
    if as_json:
        print(json_text({"data": rows}))
        return
    for row in rows:
        until = f"tokens until {row['issued_before']:%Y-%m-%d %H:%M:%S}" if row["issued_before"] else "all"
        print(f"{row['kind']:9}{row['name']}  {until}  by {row['denied_by']}: {row['reason']}")
    if not rows:
        print("nobody is denied access")
