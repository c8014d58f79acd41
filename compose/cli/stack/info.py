"""``millrace info``: where everything of this home is, for a person or a script that comes to it."""

from __future__ import annotations

import json
import re
import sys
from importlib import metadata
from typing import TYPE_CHECKING, Annotated, Any, Final
from urllib.parse import urlsplit, urlunsplit

import typer

from compose.cli.options import AsJson
from compose.settings.settings import load_settings
from compose.stack.errors import StackError
from compose.supervise.state import read_state
from sinks.kafka.user import READER

if TYPE_CHECKING:
    from compose.settings.addresses import Addresses
    from compose.settings.settings import Settings

app = typer.Typer()
_LIBRARIES: Final = ("bytewax", "confluent-kafka", "fastapi", "granian", "psycopg", "redis")
_HIDDEN: Final = "***"
_PASSWORD: Final = re.compile("(?i)((?:^|&)(?:ssl)?password=)[^&]*")
_WORDS: Final = {True: "yes", False: "no", None: "-"}


@app.command()
def info(
    name: Annotated[str | None, typer.Argument(help="Only this one, such as http; bare, for a script.")] = None,
    as_json: AsJson = False,
    secrets: Annotated[bool, typer.Option("--secrets", help="Print passwords, too.")] = False,
) -> None:
    """Say where everything is: addresses, topics, versions. Passwords are shown with --secrets alone."""
    settings = load_settings()
    found = _found(settings, settings.addresses(), with_secrets=secrets)
    if name is not None and name not in found:
        raise StackError(f"there is no {name}; there are {', '.join(found)}")
    if name is not None:
        print(_text(found[name]) if isinstance(found[name], str | bool) else json.dumps(found[name]))
        return
    if as_json:
        print(json.dumps(found))
        return
    for line in _lines(found):
        print(line)


def _found(settings: Settings, addresses: Addresses, *, with_secrets: bool) -> dict[str, Any]:
    from schemas import services  # noqa: PLC0415 - the command's help comes without it

    def client_setting(name: str, value: str) -> str:
        return f"{name}={_HIDDEN if name.endswith('password') and not with_secrets else value}"

    def shown(url: str) -> str:
        return url if with_secrets else _without_password(url)

    state = read_state(settings.the_home())
    entries = [] if state is None else state.processes
    return {
        "home": str(settings.the_home().path),
        "running": state is not None and state.running(),
        "http": addresses.base_url,
        "openapi": f"{addresses.base_url}/openapi.json",
        "console": f"{addresses.base_url}/console",
        "sign_in": "millrace token --staff ann" if settings.issuer is None else settings.issuer,
        "vault": addresses.vault_url,
        "limiter": addresses.rls_address,
        "processors": addresses.processor_urls,
        "kafka": {
            "bootstrap": addresses.kafka_bootstrap,
            "prefix": addresses.kafka.prefix,
            "client": [client_setting(name, value) for name, value in settings.kafka_security(READER).items()],
            "topics": [addresses.kafka.prefix + topic.name for topic in services.TOPICS],
        },
        "postgres": shown(addresses.postgres_reader_dsn),
        "valkey": shown(addresses.redis_url),
        "social_homes": shown(addresses.social_homes_url),
        "clickhouse": shown(addresses.clickhouse_reader_url),
        "metrics": {entry.name: f"{entry.ops_url}/metrics" for entry in entries if entry.ops_url},
        "versions": {"millrace": _version("millrace"), "python": sys.version.split()[0]}
        | {name: _version(name) for name in _LIBRARIES},
    }


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _without_password(url: str) -> str:
    parts = urlsplit(url)
    parts = parts._replace(query=_PASSWORD.sub(rf"\1{_HIDDEN}", parts.query))
    if parts.password is not None:
        user, at, host = parts.netloc.rpartition("@")
        parts = parts._replace(netloc=f"{user.partition(':')[0]}:{_HIDDEN}{at}{host}")
    return urlunsplit(parts)


def _lines(found: dict[str, Any]) -> list[str]:
    """One fact a line, names in a column; what is many lies below its name."""
    width = max(len(name) for value in found.values() if isinstance(value, dict) for name in value) + 2
    lines: list[str] = []
    for name, value in found.items():
        if not isinstance(value, dict):
            lines.append(f"{name:{width + 2}}{_text(value)}")
            continue
        lines.append(name)
        for part, of_it in value.items():
            for n, text in enumerate(of_it if isinstance(of_it, list) else [of_it]):
                lines.append(f"  {part if n == 0 else '':{width}}{_text(text)}")
    return [line.rstrip() for line in lines]


def _text(value: object) -> str:
    return _WORDS[value] if value is None or isinstance(value, bool) else str(value)
