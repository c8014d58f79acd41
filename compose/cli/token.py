"""``millrace token``: a bearer token of the development issuer, for trying things out."""

from __future__ import annotations

from typing import Annotated

import typer

from compose.settings.settings import load_settings
from compose.stack.errors import StackError
from schemas import limits

app = typer.Typer()


@app.command()
def token(
    merchant: Annotated[str, typer.Option(help="The merchant that the token speaks for.")],
    scope: Annotated[
        list[str] | None, typer.Option(help="A scope; repeat it for several. Default: read and write payments.")
    ] = None,
    ttl: Annotated[int, typer.Option(help="Seconds until it expires.")] = limits.TOKEN_TTL_DEFAULT_S,
) -> None:
    """Print a token and nothing else."""
    from ingress.identity.issuer import SCOPES_DEFAULT, KeyFolder, issue_token  # noqa: PLC0415 - imports cryptography
    from schemas.errors import PlatformError  # noqa: PLC0415

    keys = KeyFolder(load_settings().the_home().path / "keys")
    scopes = tuple(part for text in scope for part in text.split()) if scope else SCOPES_DEFAULT
    try:
        print(issue_token(keys, merchant, scopes, ttl))
    except PlatformError as error:
        raise StackError(error.public) from error
