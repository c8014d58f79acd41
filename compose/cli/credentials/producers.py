"""``millrace producers``: programs outside that write commands to Kafka themselves, each with a key and scopes."""

from __future__ import annotations

import json
import secrets
from typing import Annotated, Final

import typer

from compose.cli.options import AsJson
from compose.operator_access import operator_connection, shell_user
from compose.settings.kafka_access import written_outside
from compose.settings.settings import Settings, load_settings
from compose.stack.errors import StackError
from schemas import limits
from schemas.errors import Unavailable
from schemas.senders import OUTSIDE
from sinks.kafka.user import KafkaUser, credentials

app = typer.Typer(no_args_is_help=True)
_PASSWORD_BYTES: Final = 24
Name = Annotated[str, typer.Argument(metavar="NAME", help="Of the program: a to z, 0 to 9, _ and -.")]


@app.command()
def add(
    name: Name,
    merchant: Annotated[
        list[str] | None, typer.Option(help="A merchant that it speaks for; repeat for several.")
    ] = None,
    scope: Annotated[list[str] | None, typer.Option(help="Another scope: tenant:NAME or user:NAME.")] = None,
    as_json: AsJson = False,
) -> None:
    """Make a key. The program may send what those merchants could call, in their names, and nothing else."""
    from reconciliation.audit.log import announced  # noqa: PLC0415 - imports the driver
    from sinks.kafka.access import add_outside  # noqa: PLC0415 - imports the client

    scopes = _scopes(merchant or [], scope or [])
    settings = load_settings()
    keys = settings.sender_keys()
    with (
        operator_connection() as connection,  # it makes a line of a ValueError
        announced(connection, shell_user(), "producer.add", name, scopes=scopes),
    ):
        user = _kafka_user(settings, name)
        file = keys.add(name, scopes, credentials(user.name, user.password) if user else None)
        if user is not None:
            try:
                add_outside(settings.addresses().kafka.admin(), user)
            except Unavailable:
                keys.remove(name)
                raise
    print(json.dumps({"name": name, "scopes": scopes, "key_file": str(file)}) if as_json else f"the key is in {file}")


@app.command()
def remove(name: Name) -> None:
    """Take the key away: within a second, owners refuse what the program sends."""
    from reconciliation.audit.log import announced  # noqa: PLC0415 - imports the driver
    from sinks.kafka.access import remove_outside  # noqa: PLC0415 - imports the client

    settings = load_settings()
    with operator_connection() as connection, announced(connection, shell_user(), "producer.remove", name):
        settings.sender_keys().remove(name)
        if settings.kafka_bootstrap is None:
            remove_outside(settings.addresses().kafka.admin(), OUTSIDE + name)
    print(f"{name} is removed")


@app.command("list")
def list_(as_json: AsJson = False) -> None:
    """Show who may send, and for whom."""
    found = load_settings().sender_keys().outside()
    if as_json:
        print(json.dumps({"data": [{"name": name, "scopes": scopes} for name, scopes in found.items()]}))
        return
    for name, scopes in found.items():
        print(f"{name}  {' '.join(scopes)}")
    if not found:
        print("nobody outside may send")


def _kafka_user(settings: Settings, name: str) -> KafkaUser | None:
    """Whom the embedded broker is to know; at another one that is its operator's matter."""
    if settings.kafka_bootstrap is not None:
        return None
    writes = tuple(settings.kafka_prefix + topic for topic in written_outside())
    return KafkaUser(name=OUTSIDE + name, password=secrets.token_urlsafe(_PASSWORD_BYTES), writes=writes)


def _scopes(merchants: list[str], others: list[str]) -> tuple[str, ...]:
    from ingress.identity.caller import NAME  # noqa: PLC0415 - imports cryptography

    for merchant in merchants:
        if not NAME.match(merchant):
            raise StackError(f"--merchant {merchant!r} must be 1 to {limits.SCOPE_LENGTH_MAX} of A-Z a-z 0-9 _ -")
    for other in others:
        kind, _, rest = other.partition(":")
        if kind not in ("tenant", "user") or not NAME.match(rest):
            raise StackError(f"--scope {other!r} must be tenant:NAME or user:NAME")
    if not merchants and not others:
        raise StackError("say for whom it speaks: --merchant or --scope, once for each")
    return (*merchants, *others)
