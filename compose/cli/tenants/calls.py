"""Calls about tenants over the API: commands that may be sent again, reads, and waiting for what happens by itself.

Whoever decides shows a token, as everybody does who calls the API; no login name of a machine decides.
"""

from __future__ import annotations

import json
import sys
import time
import uuid
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Any

import typer

from compose import limits
from compose.cli.tenants import shown
from compose.stack.errors import StackError
from schemas.operation import ID

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def _an_id(text: str) -> str:
    if not ID.fullmatch(text):
        raise typer.BadParameter("an id is 1 to 64 of A-Z a-z 0-9 _")
    return text


AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, as the API gives it.")]
Tenant = Annotated[str, typer.Argument(metavar="TENANT", callback=_an_id, help="Its id, tn_...")]
Id = Annotated[str, typer.Argument(metavar="ID", callback=_an_id, help="As its list shows it.")]
Reason = Annotated[str, typer.Option("--reason", help="Why, for people; it is kept.")]
Token = Annotated[
    str,
    typer.Option(
        "--token",
        envvar="MILLRACE_TOKEN",
        show_envvar=True,
        help="Who asks: a token with the scope tenants:admin, or the one that is named above.",
    ),
]


def _not_empty(context: typer.Context, parameter: typer.CallbackParam, key: str) -> str:
    """An empty one would be a new one each time, which is what a shell's unset variable must not lead to."""
    source = context.get_parameter_source(parameter.name or "")
    if not key and source is not None and source.name != "DEFAULT":
        raise typer.BadParameter("must not be empty")
    return key


Key = Annotated[
    str,
    typer.Option(
        "--idempotency-key",
        callback=_not_empty,
        help="Of a call that was cut: sent again under it, nothing is done twice.",
    ),
]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask for the tenant's name.")]
Limit = Annotated[int, typer.Option(min=1, max=100, help="So many lines.")]
Cursor = Annotated[str, typer.Option(help="Go on behind a page, as it says at its end.")]


def read(token: str, path: str, **query: str | int) -> dict[str, Any]:
    """What stands there. Raises StackError with the API's own words."""
    from compose.cli import decisions  # noqa: PLC0415 - imports the HTTP client

    found: dict[str, Any] = decisions.read(token, path, query)
    return found


def command(
    token: str,
    path: str,
    payload: Mapping[str, Any],
    key: str = "",
    *,
    method: str = "POST",
    makes: bool = False,
    version: int | None = None,
) -> dict[str, Any]:
    """The result of one command, decided once under its key.

    ``makes``: something new, so a key of our own is told before it is sent: a call that is cut, even by a kill, can be
    repeated. Raises StackError with the API's own words; where nobody knows whether it is done, with the key.
    """
    from compose.cli import decisions  # noqa: PLC0415

    if makes and not key:
        key = uuid.uuid4().hex
        print(f"idempotency key {key}", file=sys.stderr, flush=True)
    key = key or uuid.uuid4().hex
    headers = {"Idempotency-Key": key, "Prefer": f"wait={limits.API_COMMAND_WAIT_S}"}
    if version is not None:
        headers["If-Match"] = f'"{version}"'
    try:
        answer = decisions.call(method, token, path, body=dict(payload), headers=headers)
    except decisions.UndecidedError as error:
        raise StackError(f"{error}; {_again(key)}") from error
    if answer.status_code == HTTPStatus.ACCEPTED:
        raise StackError(f"it is taken, and waits for its owner; {_again(key)}")
    result: dict[str, Any] = decisions.document(answer)["result"]
    return result


def _again(key: str) -> str:
    return f"send it again with --idempotency-key {key}: nothing is done twice"


def require_name(tenant: str, name: str, act: str) -> None:
    """Asks for the name of a tenant before what nobody can undo. Raises StackError unless it is typed."""
    print(f"Type the name of {tenant} to {act}: ", end="", file=sys.stderr, flush=True)
    typed = sys.stdin.readline().rstrip("\n")
    if not sys.stdin.isatty():
        print(file=sys.stderr)  # as the key that was not pressed
    if typed != name:
        raise StackError("that is not its name: nothing was done")


def patiently(ask: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What is read, asked for again while nobody answers, for a minute. A refusal is raised at once."""
    from compose.cli import decisions  # noqa: PLC0415

    began = time.monotonic()
    while True:
        try:
            return ask()
        except decisions.UndecidedError:
            if time.monotonic() - began > limits.API_SILENCE_MAX_S:
                raise
            time.sleep(limits.TENANT_WATCH_S)


def becomes(
    ask: Callable[[], dict[str, Any]], is_there: Callable[[dict[str, Any]], bool], what: str, *, grace_s: int = 0
) -> dict[str, Any]:
    """What is read once it is as it shall be. Raises StackError when it is not ten minutes after the grace."""
    began = time.monotonic()
    while not is_there(found := patiently(ask)):
        if time.monotonic() - began > grace_s + limits.TENANT_WAIT_S:
            raise StackError(f"{what} is still {found.get('state')}; it goes on by itself: look again later")
        time.sleep(limits.TENANT_WATCH_S)
    return found


def tell(found: dict[str, Any], line: str, *, as_json: bool) -> None:
    """What a command found or did: the API's document, or a line for people."""
    print(json.dumps(found) if as_json else line)


def tell_facts(found: dict[str, Any], *, as_json: bool) -> None:
    """One document, a line for each of its fields."""
    print(json.dumps(found) if as_json else "\n".join(shown.facts(found)))


def tell_page(found: dict[str, Any], columns: tuple[str, ...], *, as_json: bool, none: str) -> None:
    """One page of a list, as a table."""
    if as_json:
        print(json.dumps(found))
        return
    print("\n".join(shown.table(found["data"], columns)) if found["data"] else none)
    if found.get("has_more"):
        print(f"there is more: --cursor {found['next_cursor']}")


def page(token: str, path: str, limit: int, cursor: str) -> dict[str, Any]:
    """One page of a list."""
    return read(token, path, limit=limit, **({"cursor": cursor} if cursor else {}))
