"""``millrace limiter shards``: where counters are, how the shards are, and the changes of both."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from compose.cli.options import AsJson
from compose.cli.table import print_table
from compose.operator_access import operator_connection, shell_user
from compose.settings.settings import load_settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from limiter.policy.shard_map import ShardMap
    from limiter.store.restoration import Restored
    from limiter.store.shard_changes import ShardChanges

app = typer.Typer()
Name = Annotated[str, typer.Argument(metavar="SHARD")]
Tenant = Annotated[str, typer.Argument(metavar="TENANT")]
Url = Annotated[
    str, typer.Argument(metavar="URL", help="redis://HOST:PORT/DB or rediss://, without name and password.")
]


@app.callback(invoke_without_command=True)
def show(context: typer.Context, as_json: AsJson = False) -> None:
    """Show every shard: its server, epoch, share of the tenants, pins and health; or change them.

    All buckets of one decision are on one shard, chosen by the tenant. A store answers only gateways whose map names
    its epoch; every change raises the epochs that it has to, and gateways have the new map within a second. Until then
    the shard's answers are degraded: leases go on, and the rest is what each policy's failure mode says.
    """
    if context.invoked_subcommand is not None:
        return
    from limiter.store.shard_changes import newest  # noqa: PLC0415 - imports the drivers
    from limiter.store.shard_health import rows  # noqa: PLC0415
    from reconciliation.audit.log import audited  # noqa: PLC0415

    with operator_connection() as connection:
        with audited(connection, shell_user(), "limiter.shards", "shards"):
            found = newest(connection)
        settings = load_settings()
        shown = rows(found, settings.addresses().redis_url, encrypted=settings.is_production)
    if as_json:
        print(json.dumps({"version": found.version, "shards": shown, "pins": found.pins}))
        return
    print(f"map version {found.version}")
    columns = ("shard", "address", "epoch", "state", "share", "pins", "replicas", "learning", "health")
    print_table([row | {"share": f"{row['share']:.1%}"} for row in shown], columns)
    for tenant, name in sorted(found.pins.items()):
        print(f"{tenant} is pinned to {name}")


@app.command()
def add(name: Name, url: Url) -> None:
    """Add a shard: an empty primary with maxmemory-policy noeviction that has our users ('users').

    It takes its share of the tenants from the others. Their counters follow when they are asked for, so nobody gets a
    quota twice. Policies that count over tenants (`per` without the tenant, scope of any) have to be changed first.
    """
    with _changes("add", name, url=_shown(url)) as (changes, told):
        _told(changes.add(name, url), told)
    print(f"{name} takes its share; 'millrace limiter shards' shows it")


@app.command()
def pin(tenant: Tenant, shard: Name) -> None:
    """Put a tenant on a shard of its choice: a hot one on a shard of its own. Its counters follow.

    The shard that loses it refuses the old map at once, so no gateway counts the tenant at both.
    """
    with _changes("pin", tenant, shard=shard) as (changes, told):
        _told(changes.pin(tenant, shard), told)
    print(f"{tenant} is on {shard}")


@app.command()
def unpin(tenant: Tenant) -> None:
    """Put a tenant back where its hash puts it. Its counters follow."""
    with _changes("unpin", tenant) as (changes, told):
        found = _told(changes.pin(tenant, None), told)
    print(f"{tenant} is on {found.layout.home_of(tenant)}")


@app.command()
def promote(
    name: Name,
    url: Annotated[
        str, typer.Option("--to", metavar="URL", help="The new primary; a replica of the old one is made it.")
    ],
    restores: Annotated[
        bool, typer.Option("--restore/--no-restore", help="Restore windows from the stream of leases first.")
    ] = True,
) -> None:
    """Fail a shard over: take epoch + 1, fence the old primary if it answers, promote the new one, publish the map.

    The old primary may come back at any time: no gateway that has the new map is answered by it. Run it again after any
    failure. With the server that is in the map already it makes a shard whose store lost its data answer again. For a
    second gateways grant no new leases; those that are held go on, and the new primary is told of them.

    Unless the old primary handed everything over, the new one is told what leases spent in windows longer than a minute
    before any gateway asks it. --no-restore: at once, and 'restore' later.
    """
    with _changes("promote", name, url=_shown(url)) as (changes, told):
        done = changes.promote(name, url, restores=restores)
        _told(done.shard_map, told)
        told |= {"is_whole": done.is_whole, "restored": done.restored and done.restored._asdict()}
    print(f"{name} is at epoch {done.shard_map.shard(name).epoch} on {done.shard_map.shard(name).address}")
    if done.is_whole:
        print("the old primary was fenced first, and the new one has everything that it took")
    elif done.is_whole is None:
        print(f"the old primary does not answer; {done.heard_s} s ago it was heard of last: what it took since is lost")
    else:
        print("the new primary is not in step with the old one: what it does not have is lost")
    if done.restored is not None:
        print(_restored(done.restored))


@app.command()
def restore(name: Name) -> None:
    """Tell a shard again what leases spent in windows longer than a minute: it has charged at least so much afterwards.

    'promote' does it by itself, and once more the process that settles leases, when those of gateways that were lost
    too are settled. Where nothing is missing it changes nothing.
    """
    with _changes("restore", name) as (changes, told):
        found = changes.restore(name)
        told["restored"] = found._asdict()
    print(_restored(found))


@app.command()
def users() -> None:
    """Print the commands that make our users at a server elsewhere, with hashes of their passwords alone.

    One user for each kind of process, and the default user off. Every server of a shard needs them, replicas too:
    'millrace limiter shards users | valkey-cli -u URL', as who may use ACL there; then 'ACL SAVE' or 'CONFIG REWRITE'.
    """
    for user in load_settings().valkey_users():
        print(f"ACL SETUSER {user.name} reset {user.rules()}")
    print("ACL SETUSER default reset")


@contextmanager
def _changes(action: str, name: str, **details: object) -> Iterator[tuple[ShardChanges, dict[str, object]]]:
    """Announced in the audit log before anything happens; what became of it stands there afterwards."""
    from limiter.store.shard_changes import ShardChanges  # noqa: PLC0415
    from reconciliation.audit.log import announced  # noqa: PLC0415
    from schemas.fields.validation import visible  # noqa: PLC0415

    actor, settings = shell_user(), load_settings()
    own_url = settings.addresses().redis_url
    with (
        operator_connection() as connection,
        announced(connection, actor, f"limiter.shards.{action}", visible(name), **details) as told,
    ):
        yield ShardChanges(connection, own_url, actor, encrypted=settings.is_production), told


def _restored(found: Restored) -> str:
    return f"restored from leases: {found.missing} tokens that were missing, {found.buckets} counters looked at"


def _told(found: ShardMap, told: dict[str, object]) -> ShardMap:
    told |= {"version": found.version, "epochs": {shard.name: shard.epoch for shard in found.shards}}
    return found


def _shown(url: str) -> str:
    """For the log: an address with a secret is refused, and must not be kept there either."""
    return url.rpartition("@")[2]
