"""``millrace token``: a bearer token of the development issuer, for trying things out."""

from __future__ import annotations

import difflib
import sys
from typing import Annotated

import typer

from compose.settings.settings import load_settings
from compose.stack.errors import StackError
from schemas import limits

app = typer.Typer()


@app.command()
def token(
    merchant: Annotated[str | None, typer.Option(help="The merchant that the token speaks for.")] = None,
    tenant: Annotated[str | None, typer.Option(help="The tenant that it speaks for, instead.")] = None,
    user: Annotated[
        list[str] | None, typer.Option(help="The user that it is of, instead; repeated, one token a line.")
    ] = None,
    staff: Annotated[
        str | None,
        typer.Option(help="The person of our staff that it is of, instead: an operator, who speaks for nobody."),
    ] = None,
    subject: Annotated[str | None, typer.Option(help="The person that holds it. Default: whom it speaks for.")] = None,
    scope: Annotated[
        list[str] | None,
        typer.Option(
            help="A scope; repeat it for several. Default for a merchant: read and write payments, payouts and their"
            " destinations; for a tenant: resources and usage; for a user: posts; for staff: operator. Roles of staff:"
            " operator:support, operator:finance, operator:risk, operator:platform, and console:read."
        ),
    ] = None,
    ttl: Annotated[int, typer.Option(help="Seconds until it expires.")] = limits.TOKEN_TTL_DEFAULT_S,
) -> None:
    """Print a token and nothing else: of a merchant, a tenant or a user (of several, one each), or of staff."""
    from ingress.identity.issuer import KNOWN_SCOPES, SCOPES_OF, issue_token  # noqa: PLC0415 - imports cryptography
    from ingress.identity.roles import STAFF  # noqa: PLC0415
    from schemas.errors import PlatformError  # noqa: PLC0415
    from schemas.fields import validation  # noqa: PLC0415

    kinds = {
        "merchant": [merchant] if merchant else [],
        "tenant": [tenant] if tenant else [],
        "user": user or [],
        "staff": [staff] if staff else [],
    }
    named = [(kind, names) for kind, names in kinds.items() if names]
    if len(named) != 1:
        raise StackError("name one of --merchant, --tenant, --user and --staff: a token is of one of them")
    if subject is not None and not validation.is_person(subject):
        raise StackError("--subject names a person: a short line, with nothing in it that nobody sees")
    ((kind, names),) = named
    settings = load_settings()
    keys = settings.development_issuer(settings.the_home().path / "keys")
    scopes = tuple(part for text in scope for part in text.split()) if scope else SCOPES_OF[kind]
    for unknown in (one for one in scopes if one not in KNOWN_SCOPES):
        raise StackError(_unknown(unknown, KNOWN_SCOPES))
    if kind == "merchant" and STAFF.issuperset(scopes):
        print(f"A token of staff names no merchant: this one is of the person {names[0]} (--staff).", file=sys.stderr)
        kind = "staff"
    try:
        for name in names:
            print(issue_token(keys, name, scopes, ttl, kind=kind, subject=subject, audience=settings.audience[0]))  # type: ignore[arg-type] # one of the kinds
    except PlatformError as error:
        raise StackError(error.public) from error


def _unknown(scope: str, known: frozenset[str]) -> str:
    near = difflib.get_close_matches(scope, known, n=1)
    meant = f"; did you mean {near[0]}?" if near else "."
    return f"there is no scope {scope[: limits.SCOPE_LENGTH_MAX]!r}{meant} There are {', '.join(sorted(known))}"
