"""``millrace keys``: the keys that this home signs tokens with, replaced while everything runs."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from compose.operator_access import operator_connection, shell_user
from compose.settings.settings import load_settings
from ingress import limits

if TYPE_CHECKING:
    from ingress.identity.issuer import KeyFolder

app = typer.Typer(no_args_is_help=True)
#: verifiers that just looked do so again only after this time: by then each can have a new key
_SETTLE_S = limits.JWKS_REFRESH_COOLDOWN_S + 1


@app.command()
def rotate(
    at_once: Annotated[
        bool, typer.Option("--at-once", help="A key was stolen: believe nothing that it signed, within 90 seconds.")
    ] = False,
) -> None:
    """Sign tokens, cursors and cookies with new keys; those of before are believed for as long as they are needed."""
    from ingress.identity.issuer import KeyFolder  # noqa: PLC0415 - imports cryptography
    from reconciliation.audit.log import announced  # noqa: PLC0415 - imports the driver

    issuers = _issuers()
    names = ", ".join(issuers)
    asked = {"at_once": at_once}
    with operator_connection() as connection, announced(connection, shell_user(), "keys.rotate", names, **asked):
        for folder in issuers.values():
            folder.rotate(at_once=at_once, settle=_settle)
        home = KeyFolder(load_settings().the_home().path / "keys")
        home.ensure()
        home.rotate_cursors(at_once=at_once, settle=_settle)
    print(f"new keys sign tokens ({names}), cursors and cookies")


@app.command("list")
def list_() -> None:
    """Show the keys that are believed, and until when."""
    for name, folder in _issuers().items():
        signs = folder.signs()
        for row in folder.public_keys():
            until = f"until {datetime.fromtimestamp(row['exp'], UTC):%Y-%m-%d %H:%M:%S}" if "exp" in row else ""
            print(f"{name:12}{row['kid']}  {until or ('signs' if row['kid'] == signs else 'believed')}")


def _settle() -> None:
    time.sleep(_SETTLE_S)


def _issuers() -> dict[str, KeyFolder]:
    """The issuers of this home; that of callers only where it is believed."""
    settings = load_settings()
    keys = settings.the_home().path / "keys"
    of_callers = {} if settings.issuer is not None else {"callers": settings.development_issuer(keys)}
    ours = {"services": settings.service_issuer(keys), "support": settings.support_issuer(keys)}
    return of_callers | ours | {"monitor": settings.monitor_issuer(keys)}
