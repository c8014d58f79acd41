"""``millrace vault``: the keys that card numbers are sealed with."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import typer

from compose.cli.options import AsJson
from compose.cli.printed import json_text
from compose.operator_access import operator_connection, shell_user
from compose.settings.settings import load_settings
from compose.stack.errors import StackError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psycopg

ROLE: Final = "millrace_vault"
app = typer.Typer(no_args_is_help=True)


@app.command()
def rotate(as_json: AsJson = False) -> None:
    """Seal with a new key from now on, re-wrap every card, and forget the old key. Run again, it goes on."""
    from reconciliation.audit.log import announced  # noqa: PLC0415
    from vault import rotation  # noqa: PLC0415 - imports the drivers and cryptography

    with (
        _vault_connection() as connection,
        operator_connection() as log,
        announced(log, shell_user(), "vault.rotate", "keys") as told,
    ):
        done = rotation.rotate(connection, load_settings().vault_keys())
        told |= {"active": done.active, "retired": done.retired, "rewrapped": done.rewrapped}
    if as_json:
        print(json.dumps({"active": done.active, "retired": done.retired, "rewrapped": done.rewrapped}))
    else:
        print(f"{done.rewrapped} cards are under {done.active} now; retired: {', '.join(done.retired)}")


@app.command()
def status(as_json: AsJson = False) -> None:
    """Show the keys and how many cards each seals."""
    from reconciliation.audit.log import audited  # noqa: PLC0415
    from vault.store import query  # noqa: PLC0415

    with (
        _vault_connection() as connection,
        operator_connection() as log,
        audited(log, shell_user(), "vault.read", "keys"),
    ):
        rows = connection.execute(query("cards_by_key")).fetchall()
    if as_json:
        names = ("key_id", "state", "created_at", "retired_at", "cards")
        print(json_text({"data": [dict(zip(names, row, strict=True)) for row in rows]}))
        return
    for key_id, state, created_at, _, cards in rows:
        print(f"{key_id}  {state:9}{cards:>9} cards  since {created_at:%Y-%m-%d %H:%M}")


@contextmanager
def _vault_connection() -> Iterator[psycopg.Connection]:
    """A connection of the vault's role; what went wrong is one line."""
    import psycopg  # noqa: PLC0415

    from schemas.errors import PlatformError  # noqa: PLC0415
    from sinks import limits  # noqa: PLC0415
    from vault.rotation import SETTINGS  # noqa: PLC0415

    dsn = load_settings().addresses().postgres_dsns[ROLE]
    try:
        with psycopg.connect(
            dsn, autocommit=True, connect_timeout=limits.POSTGRES_CONNECT_TIMEOUT_S, options=SETTINGS
        ) as connection:
            yield connection
    except psycopg.OperationalError as error:
        raise StackError(f"Postgres does not answer: {str(error).strip()}") from error
    except PlatformError as error:
        raise StackError(error.public) from error
