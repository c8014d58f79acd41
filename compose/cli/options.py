"""Options that mean the same at many commands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from compose.stack.errors import StackError

if TYPE_CHECKING:
    from schemas.service import Service

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Token = Annotated[
    str,
    typer.Option(
        "--token",
        envvar="MILLRACE_TOKEN",
        show_envvar=True,
        help="Who decides: a token of staff (millrace token --staff).",
    ),
]


def service_of(name: str) -> Service:
    """The service that an option names, of all that are installed. Raises StackError."""
    from schemas.services import BY_NAME  # noqa: PLC0415 - imports every service

    if name not in BY_NAME:
        raise StackError(f"no service {name!r}; there are {', '.join(BY_NAME)}")
    return BY_NAME[name]
