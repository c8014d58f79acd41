"""``millrace maintenance``: new work of all merchants, off and on. Reads, facts and operators go on meanwhile."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from compose.cli.options import AsJson
from compose.operator_access import operator_connection, shell_user
from compose.stack.errors import StackError

app = typer.Typer(no_args_is_help=True)
Reason = Annotated[str, typer.Option("--reason", help="Why; kept with your name, and shown to operators only.")]


@app.command("on")
def on(reason: Reason, as_json: AsJson = False) -> None:
    """Refuse new work of merchants with 503 `maintenance`, in every ingress process within about a second."""
    _switch(on=True, reason=reason, as_json=as_json)


@app.command("off")
def off(reason: Reason, as_json: AsJson = False) -> None:
    """Take new work again."""
    _switch(on=False, reason=reason, as_json=as_json)


@app.command()
def show(as_json: AsJson = False) -> None:
    """Tell whether it is on, since when, by whom and why."""
    from reconciliation.audit.log import audited  # noqa: PLC0415 - imports the driver
    from reconciliation.maintenance import shown  # noqa: PLC0415

    with (
        operator_connection() as connection,
        audited(connection, shell_user(), "maintenance_policy.read", "maintenance"),
    ):
        found = shown(connection)
    if as_json:
        print(json.dumps(found))
    elif not found["version"]:
        print("off: nobody ever switched it on")
    else:
        print(f"{'on' if found['on'] else 'off'} since {found['since']}, by {found['author']}: {found['reason']}")


def _switch(*, on: bool, reason: str, as_json: bool) -> None:
    from reconciliation.maintenance import switch  # noqa: PLC0415
    from schemas.errors import InvalidCommand  # noqa: PLC0415

    with operator_connection() as connection:
        try:
            version = switch(connection, shell_user(), on=on, reason=reason)
        except InvalidCommand as error:
            raise StackError(f"--reason {error.errors[0]['reason']}") from error
    if as_json:
        print(json.dumps({"on": on, "version": version}))
    else:
        print(f"maintenance is {'on' if on else 'off'} (version {version}): in every ingress within about a second")
