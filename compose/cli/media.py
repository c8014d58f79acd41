"""``millrace media``: contents of social posts that are refused wherever they come from, and media that are stuck."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import typer

from compose.cli.options import AsJson
from compose.cli.printed import json_text
from compose.operator_access import operator_connection, shell_user
from compose.stack.errors import StackError

if TYPE_CHECKING:
    from collections.abc import Callable

    import psycopg

app = typer.Typer(no_args_is_help=True)
Content = Annotated[str, typer.Argument(metavar="SHA256", help="The SHA-256 of the whole content, in hex.")]
Reason = Annotated[str, typer.Option("--reason", help="Why; kept with your name.")]
_REFUSED: Final = {
    "already_blocked": "the content is blocked already",
    "not_waiting": "the medium waits for no scan",
    "not_found": "there is none such",
}


@app.command()
def block(sha256: Content, reason: Reason) -> None:
    """Refuse a content from now on; what is served already is for moderators to take down."""
    from reconciliation.social import media  # noqa: PLC0415 - imports the driver

    _decided(media.block, sha256, reason)
    print(f"{sha256} is refused from now on, wherever it comes from")


@app.command()
def lift(sha256: Content, reason: Reason) -> None:
    """Take a content again."""
    from reconciliation.social import media  # noqa: PLC0415

    _decided(media.lift, sha256, reason)
    print(f"{sha256} is taken again")


@app.command()
def retry(
    media_id: Annotated[str, typer.Argument(metavar="MEDIUM", help="Its id, as the media board shows it.")],
    reason: Reason,
) -> None:
    """Have a medium scanned and rendered again now, however often that failed."""
    from reconciliation.social import media  # noqa: PLC0415

    _decided(media.retry, media_id, reason)
    print(f"{media_id} is scanned and rendered next")


@app.command()
def blocked(as_json: AsJson = False) -> None:
    """Show the contents that are refused, the last first."""
    from reconciliation.audit.log import audited  # noqa: PLC0415
    from reconciliation.social import media  # noqa: PLC0415

    with operator_connection() as connection, audited(connection, shell_user(), "media.list", "media_blocked"):
        rows = media.blocked(connection)
    if as_json:
        print(json_text({"data": rows}))
        return
    for row in rows:
        print(f"{row['sha256']}  {row['added_at']:%Y-%m-%d %H:%M:%S}  by {row['added_by'] or '-'}: {row['reason']}")
    if not rows:
        print("no content is blocked")


def _decided(made: Callable[[psycopg.Connection, str, str, str], str], about: str, reason: str) -> None:
    from schemas.errors import InvalidCommand  # noqa: PLC0415

    with operator_connection() as connection:
        try:
            word = made(connection, about, reason, shell_user())
        except InvalidCommand as error:
            raise StackError(error.line) from error
    if word in _REFUSED:
        raise StackError(_REFUSED[word])
