"""``millrace token``: a bearer token of the development issuer, for trying things out."""

from __future__ import annotations

from typing import Annotated

import typer

from compose.settings.settings import load_settings
from compose.stack.errors import StackError
from ingress import limits

app = typer.Typer()


@app.command()
def token(
    merchant: Annotated[str | None, typer.Option(help="The merchant that the token speaks for.")] = None,
    tenant: Annotated[str | None, typer.Option(help="The tenant that it speaks for, instead.")] = None,
    user: Annotated[
        list[str] | None, typer.Option(help="The user that it is of, instead; repeated, one token a line.")
    ] = None,
    subject: Annotated[str | None, typer.Option(help="The person that holds it. Default: whom it speaks for.")] = None,
    scope: Annotated[
        list[str] | None,
        typer.Option(
            help="A scope; repeat it for several. Default for a merchant: read and write payments;"
            " for a tenant: resources and usage; for a user: posts."
        ),
    ] = None,
    ttl: Annotated[int, typer.Option(help="Seconds until it expires.")] = limits.TOKEN_TTL_DEFAULT_S,
) -> None:
    """Print a token and nothing else. It speaks for one merchant, tenant or user; for several users, one each."""
    from ingress.identity.issuer import SCOPES_OF, issue_token  # noqa: PLC0415 - imports cryptography
    from schemas.errors import PlatformError  # noqa: PLC0415

    kinds = {"merchant": [merchant] if merchant else [], "tenant": [tenant] if tenant else [], "user": user or []}
    named = [(kind, names) for kind, names in kinds.items() if names]
    if len(named) != 1:
        raise StackError("name one of --merchant, --tenant and --user: a token speaks for one of them")
    ((kind, names),) = named
    settings = load_settings()
    keys = settings.development_issuer(settings.the_home().path / "keys")
    scopes = tuple(part for text in scope for part in text.split()) if scope else SCOPES_OF[kind]
    try:
        for name in names:
            print(issue_token(keys, name, scopes, ttl, kind=kind, subject=subject, audience=settings.audience[0]))  # type: ignore[arg-type] # one of the kinds
    except PlatformError as error:
        raise StackError(error.public) from error
