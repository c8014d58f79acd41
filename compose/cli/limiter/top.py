"""``millrace limiter top``: who asks most, and who is refused most, refreshed while it is looked at."""

from __future__ import annotations

import json
import time
from contextlib import contextmanager
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from compose.cli.limiter.gateways import COLUMNS, look, shown
from compose.operator_access import operator_connection, shell_user
from compose.settings.settings import load_settings
from compose.stack.errors import StackError
from schemas.limiter import limits

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psycopg
    from clickhouse_connect.driver.client import Client
    from rich.console import Group
    from rich.table import Table


class What(StrEnum):
    """What the lines are."""

    key = "key"
    tenant = "tenant"
    policy = "policy"
    route = "route"


class By(StrEnum):
    """What they are ordered by."""

    asked = "asked"
    denied = "denied"
    cost = "cost"
    degraded = "degraded"
    shadow = "shadow"


def top(
    what: Annotated[What, typer.Option(help="One line for each key, tenant, policy, or route of a tenant.")] = What.key,
    by: Annotated[
        By,
        typer.Option(
            help="Most decisions, refusals, admitted cost, decisions without the counter store, or what policies in "
            "shadow mode would have refused."
        ),
    ] = By.asked,
    minutes: Annotated[int, typer.Option(min=1, max=limits.LIMIT_TOP_MINUTES_MAX, help="Of the last minutes.")] = 5,
    limit: Annotated[int, typer.Option(min=1, max=limits.LIMIT_TOP_ROWS_MAX, help="So many lines.")] = 20,
    once: Annotated[
        bool, typer.Option("--once", help="Print it once; otherwise it is refreshed until Ctrl-C.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object, once.")] = False,
) -> None:
    """Show who asks most, or is refused most.

    The figures are exact, whatever the policies' audit setting keeps, and a few seconds old. Retries are not counted
    as asked. SHADOW is what policies in shadow mode would have refused, whatever was decided; with --what policy they
    have lines of their own. GAP are decisions that were lost on their way (Kafka away for long): in no figure here.
    Below, each gateway process of this machine with its own figures since it started.

    Examples: millrace limiter top --by denied
              millrace limiter top --what policy --by shadow
              millrace limiter top --what tenant --minutes 60 --once
    """
    from rich.console import Console  # noqa: PLC0415 - the help needs none of it
    from rich.live import Live  # noqa: PLC0415

    console = Console()
    with _stores() as (client, connection):
        found = _look(client, connection, what, by, minutes, limit)
        if as_json:
            print(json.dumps(found))
            return
        if once or not console.is_terminal:
            console.print(_tables(found))
            return
        with Live(_tables(found), console=console, screen=True, auto_refresh=False) as live:
            while True:
                time.sleep(limits.LIMIT_TOP_REFRESH_S)
                live.update(_tables(_look(client, connection, what, by, minutes, limit)), refresh=True)


@contextmanager
def _stores() -> Iterator[tuple[Client, psycopg.Connection[Any]]]:
    from reconciliation.audit.log import audited  # noqa: PLC0415
    from schemas.errors import PlatformError  # noqa: PLC0415
    from sinks.clickhouse.connection import ClickHouseConnection  # noqa: PLC0415

    try:
        client = ClickHouseConnection(url=load_settings().addresses().clickhouse_url).client()
    except PlatformError as error:
        raise StackError(f"{error}: see 'millrace status', or set MILLRACE_CLICKHOUSE_URL") from error
    try:
        with operator_connection() as connection, audited(connection, shell_user(), "limiter.top", "keys"):
            yield client, connection
    finally:
        client.close()


def _look(
    client: Client, connection: psycopg.Connection[Any], what: What, by: By, minutes: int, limit: int
) -> dict[str, Any]:
    from limiter.analytics.busiest import busiest  # noqa: PLC0415
    from schemas.errors import PlatformError  # noqa: PLC0415

    try:
        found = busiest(client, connection, what=what.value, by=by.value, minutes=minutes, limit=limit)
    except PlatformError as error:
        hint = "is 'clickhouse_sink' running? 'millrace status' says; 'millrace logs clickhouse_sink-0' says why not"
        raise StackError(f"{error}; {hint}") from error
    return found | {"gateways": look(load_settings())}


def _tables(found: dict[str, Any]) -> Group:
    from rich.console import Group  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415

    gateways = Table(title="gateways, since each started", title_justify="left", box=None, pad_edge=False)
    for name in COLUMNS:
        gateways.add_column(name, overflow="fold")
    for row in found["gateways"]:
        gateways.add_row(*(shown(row[name]) for name in COLUMNS))
    return Group(_table(found), *([gateways] if found["gateways"] else []))


def _table(found: dict[str, Any]) -> Table:
    from rich.table import Table  # noqa: PLC0415

    as_of = datetime.fromtimestamp(found["as_of"], UTC).strftime("%H:%M") if found["as_of"] else "never"
    title = f"by {found['by']}, last {found['minutes']} min; newest decision at {as_of} UTC, gap {found['gap']:,}"
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    table.add_column(found["what"], overflow="fold")
    for name in ("asked", "allowed", "denied", "denied %", "retries", "degraded", "cost", "shadow"):
        table.add_column(name, justify="right")
    table.add_column("policy")
    for row in found["data"]:
        share = f"{row['denied'] / row['asked']:.0%}" if row["asked"] else ""
        figures = (f"{row[name]:,}" for name in ("asked", "allowed", "denied"))
        rest = (f"{row[name]:,}" for name in ("repeated", "degraded", "cost", "shadow"))
        table.add_row(row["name"], *figures, share, *rest, row["policy_id"])
    if not found["data"]:
        table.add_row("nothing was decided")
    return table
