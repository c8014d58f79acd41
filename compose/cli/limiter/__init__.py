"""``millrace limiter``: policies in force, keys, shards, who is busy, and what other policies would decide."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from compose.cli.limiter import keys, shards
from compose.cli.limiter.gateways import gateways
from compose.cli.limiter.replay import replay
from compose.cli.limiter.top import top
from compose.cli.options import AsJson
from compose.cli.table import print_table
from compose.operator_access import operator_connection, shell_user
from compose.settings.settings import load_settings
from compose.stack.errors import StackError
from schemas.limiter import limits

if TYPE_CHECKING:
    from limiter.policy.shard_map import ShardMap
    from limiter.store.store import Counted
    from schemas.limiter.limit_policy import LimitPolicy

app = typer.Typer(no_args_is_help=True)
app.command()(top)
app.command()(replay)
app.command()(gateways)
app.add_typer(shards.app, name="shards")
app.add_typer(keys.app, name="keys")


@app.command()
def policies(as_json: AsJson = False) -> None:
    """Show every quota policy in force."""
    from schemas.limiter.limit_policy import rendered  # noqa: PLC0415

    rows = [rendered(policy) for policy in _read("limiter.policies", "policies")]
    if as_json:
        print(json.dumps({"data": rows}))
        return
    for row in rows:
        row["scope"] = ":".join(row["scope"].values())
    print_table(
        rows, ("policy_id", "version", "scope", "algorithm", "capacity", "consistency", "failure_mode", "shadow")
    )


@app.command()
def key(
    name: Annotated[str, typer.Argument(metavar="TENANT:USER:ROUTE")],
    network: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="A client: for what policies by network have counted of it.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show what every policy that governs a key has counted, without taking any."""
    found = asyncio.run(_counters(name, network, *_read_key(name, network)))
    if as_json:
        print(json.dumps(found))
        return
    print(found["limit_key"])
    columns = ("consistency", "shadow", "capacity", "used", "reserved", "remaining", "reset_ms")
    print_table(found["counters"], ("policy_id", "version", "network", *columns))
    if network is None and any(row["capacity"] and row["used"] is None for row in found["counters"]):
        print("Some policies count by network: --network ADDRESS shows what they have counted of a client.")


@app.command()
def withdraw(
    policy_id: Annotated[str, typer.Argument(metavar="POLICY_ID")],
    token: Annotated[
        str,
        typer.Option(
            "--token", envvar="MILLRACE_TOKEN", show_envvar=True, help="Of its publisher, with the scope limits:write."
        ),
    ],
) -> None:
    """Take a quota policy out of force, for good: no gateway decides by it two seconds later."""
    from compose.cli.decisions import decide  # noqa: PLC0415 - imports the HTTP client

    found = decide(token, f"policies/{policy_id}/withdraw", {}, is_identified=True)["result"]
    print(f"{policy_id} is withdrawn: version {found['version']}, the last")


def _read(action: str, what: str) -> list[LimitPolicy]:
    from limiter.store.inspection import policies as in_force  # noqa: PLC0415
    from reconciliation.audit.log import audited  # noqa: PLC0415

    with operator_connection() as connection, audited(connection, shell_user(), action, what):
        return in_force(connection)


def _read_key(name: str, network: str | None) -> tuple[list[LimitPolicy], dict[str, Counted], ShardMap]:
    from limiter.store.inspection import owned  # noqa: PLC0415
    from limiter.store.inspection import policies as in_force  # noqa: PLC0415
    from limiter.store.shard_changes import newest  # noqa: PLC0415
    from reconciliation.audit.log import audited  # noqa: PLC0415
    from schemas.errors import PlatformError  # noqa: PLC0415

    with operator_connection() as connection, audited(connection, shell_user(), "limiter.key", name):
        found = in_force(connection)
        try:
            return found, owned(connection, name, found, network), newest(connection)
        except PlatformError as error:
            raise StackError(error.line) from error


async def _counters(
    name: str, network: str | None, found: list[LimitPolicy], by_owners: dict[str, Counted], shard_map: ShardMap
) -> dict[str, Any]:
    from limiter.store.inspection import counters  # noqa: PLC0415
    from limiter.store.sharded_store import ShardedStore  # noqa: PLC0415
    from schemas.errors import PlatformError  # noqa: PLC0415

    settings, timeout_s = load_settings(), limits.LIMIT_SHARD_CALL_TIMEOUT_S
    store = ShardedStore(settings.addresses().redis_url, timeout_s=timeout_s, encrypted=settings.is_production)
    store.use(shard_map)
    try:
        return await counters(name, found, by_owners, store, network)
    except PlatformError as error:
        raise StackError(error.line) from error
    finally:
        await store.close()
