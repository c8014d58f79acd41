"""Changes of the shard map: taken in the database, then true at the stores, then published. Each may be run again.

1. Epochs are taken for the shards that the change concerns: the next version of the map, by compare-and-set.
2. Their stores get these epochs: from here on they refuse every gateway that has the old map.
3. The next version says so. Gateways fetch it, signed, with their policies.
So no store answers gateways of the old map and of the new one. A command that was killed after 2 leaves its shards
refusing everybody, in state ``changing``: run it again. Source: reference limiter 2.7.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import psycopg

from limiter.policy.keys import name as normal_name
from limiter.policy.shard_map import Shard, ShardMap, ShardsRefused, decoded, encoded, plain_address, url_of
from limiter.store.inspection import policies
from limiter.store.restoration import Restored, restore
from limiter.store.shard_server import Seen, connected
from schemas.limiter.limit_policy import spans_tenants
from sinks.postgres import database_clock
from sinks.postgres.sql_files import queries

if TYPE_CHECKING:
    from collections.abc import Callable

SQL: Final = queries("sinks.postgres.queries.limiter", "policies.sql")
_NAMED_MAX: Final = 5  # policies that a refusal names


class Promoted(NamedTuple):
    """What became of a promotion."""

    shard_map: ShardMap
    #: whether the new primary has all that was charged at the old one; None when the old one did not answer
    is_whole: bool | None
    heard_s: int  # how long ago the new primary had heard of the old one
    restored: Restored | None  # from the stream of leases; None when nothing was lost, or nobody wanted it


def newest(connection: psycopg.Connection[Any]) -> ShardMap:
    """The map in force."""
    row = connection.execute(SQL["shard_map_newest"].encode()).fetchone()
    assert row is not None  # noqa: S101 - the migration makes the first one
    return decoded(row[0])


class ShardChanges:
    """An operator's changes. Every method raises ShardsRefused, and says what to do then."""

    def __init__(
        self, connection: psycopg.Connection[Any], own_url: str, actor: str, *, encrypted: bool = False
    ) -> None:
        self._connection = connection
        self._own_url = own_url
        self._encrypted = encrypted  # no shard may be where our password is read on the way
        self._actor = actor

    def add(self, name: str, url: str) -> ShardMap:
        """A further shard, empty. Tenants that move there take their counters along when they are asked for.

        Of this and the publication of a policy that counts over tenants, whoever commits later is refused.
        """
        found, address = newest(self._connection), plain_address(url, encrypted=self._encrypted)
        found.check_new(name, address)
        self._check_tenants()
        with connected(self._url_of(address)) as server:
            seen = server.check_fit()
            if not seen.is_primary or seen.epoch > 1:
                was = f"was a shard before (it is at epoch {seen.epoch}): empty it first"
                raise ShardsRefused(f"{server.place} {was if seen.is_primary else 'is a replica: give a primary'}.")
            server.raise_epoch(1)
        losing = found.layout.shards
        return self._moved(found, losing, lambda m: m.with_shard(name, address, losing), self._written_of_tenants)

    def pin(self, tenant: str, name: str | None) -> ShardMap:
        """A tenant on the shard of that name, whatever its hash; None: where its hash puts it, again."""
        found, tenant = newest(self._connection), normal_name("tenant", tenant)
        losing = found.losing_by_pin(tenant, name)
        return self._moved(found, losing, lambda m: m.with_pin(tenant, name, losing))

    def promote(self, name: str, url: str, *, restores: bool = True) -> Promoted:
        """Another primary for a shard. The old one is fenced first when it answers; then nothing is lost.

        Otherwise it ``restores`` what the stream of leases knows, before anybody asks the new one.
        """
        found, address = newest(self._connection), plain_address(url, encrypted=self._encrypted)
        shard = found.shard(name)
        if any(other.address == address for other in found.shards if other.name != name):
            raise ShardsRefused(f"The server {address} is another shard's.")
        old_url, new_url = self._url_of(shard.address), self._url_of(address)
        with connected(new_url) as server:
            seen = server.check_fit()
            epoch = max(shard.reserved, seen.epoch) + 1
            taken = self._written(found.with_reserved({name: epoch}))
            fenced = _fenced(old_url, epoch)
            is_whole = None if fenced is None else keeps_all(shard, seen) and server.has_all_of(fenced)
            if not seen.is_primary:
                server.become_primary()
            server.raise_epoch(epoch)
        promoted = taken.with_primary(name, address, database_clock.now_s(self._connection))
        restored = None if is_whole or not restores else self._restored(promoted.shard(name))
        return Promoted(self._written(promoted), is_whole, seen.heard_s, restored)

    def begin(self) -> ShardMap:
        """Every shard has an epoch afterwards: from then on a store that says none has lost its counters."""
        found = newest(self._connection)
        without = tuple(shard.name for shard in found.shards if shard.epoch == 0)
        return self._moved(found, without, lambda m: m.with_fences(without)) if without else found

    def restore(self, name: str) -> Restored:
        """What the stream of leases knows by now is charged at a shard. Where nothing is missing nothing changes.

        A store that lost everything, its epoch too, gets the next one, and answers again when it was told.
        """
        found = newest(self._connection)
        shard = found.shard(name)
        if shard.epoch == 0 or _epoch_at(self._url_of(shard.address)) > 0:
            return self._restored(shard)
        taken = self._written(found.with_reserved({name: shard.reserved + 1}))
        with connected(self._url_of(shard.address)) as server:
            server.check_fit()
            server.raise_epoch(shard.reserved + 1)
        promoted = taken.with_primary(name, shard.address, database_clock.now_s(self._connection))
        restored = self._restored(promoted.shard(name))
        self._written(promoted)
        return restored

    def _restored(self, shard: Shard) -> Restored:
        return restore(self._connection, shard, self._own_url, encrypted=self._encrypted)

    def _url_of(self, address: str | None) -> str:
        return url_of(address, self._own_url, encrypted=self._encrypted)

    def _moved(
        self,
        found: ShardMap,
        losing: tuple[str, ...],
        change: Callable[[ShardMap], ShardMap],
        write: Callable[[ShardMap], ShardMap] | None = None,
    ) -> ShardMap:
        """A change that takes tenants from these shards. When one of them cannot be fenced, nobody moves.

        The same when ``write`` refuses the change in the end.
        """
        urls = {name: self._url_of(found.shard(name).address) for name in losing}
        epochs = {name: max(found.shard(name).reserved, _epoch_at(url)) + 1 for name, url in urls.items()}
        taken = self._written(found.with_reserved(epochs)) if losing else found
        fenced: list[str] = []
        try:
            for name, url in urls.items():
                with connected(url) as server:
                    server.raise_epoch(epochs[name])
                fenced.append(name)
            return (write or self._written)(change(taken))
        except ShardsRefused:
            self._written(taken.with_fences(tuple(fenced)))  # those go on under their new epochs
            raise

    def _written_of_tenants(self, shard_map: ShardMap) -> ShardMap:
        """``_written``, unless a policy in force counts over tenants; none comes into force meanwhile."""
        with self._connection.transaction():
            self._connection.execute(SQL["shards_added"].encode())
            self._check_tenants()
            return self._written(shard_map)

    def _written(self, shard_map: ShardMap) -> ShardMap:
        """It is in force: the next version, and nobody else's."""
        values = (shard_map.version, encoded(shard_map), self._actor)
        try:
            self._connection.execute(SQL["shard_map_insert"].encode(), values)
        except (psycopg.errors.UniqueViolation, psycopg.errors.SerializationFailure) as error:
            raise ShardsRefused("Somebody else changed the shards just now: look, then run it again.") from error
        return shard_map

    def _check_tenants(self) -> None:
        spanning = [policy.policy_id for policy in policies(self._connection) if spans_tenants(policy)]
        if spanning:
            named = ", ".join(spanning[:_NAMED_MAX])
            raise ShardsRefused(
                f"{len(spanning)} policies count over tenants, which several shards cannot: {named}. Publish versions"
                " of them whose `per` names the tenant, or whose scope names one."
            )


def _epoch_at(url: str) -> int:
    with connected(url) as server:
        seen = server.look()
        if not seen.is_primary:
            raise ShardsRefused(f"{server.place} is a replica now: promote the shard first.")
        return seen.epoch


def _fenced(old_url: str, epoch: int) -> Seen | None:
    """The old primary, with all that it took: it takes no more. None when it does not answer."""
    try:
        with connected(old_url) as server:
            server.raise_epoch(epoch)
            return server.look()
    except ShardsRefused:
        return None


def keeps_all(shard: Shard, seen: Seen) -> bool:
    """Whether a server that is to be promoted may have all counters: its epoch is lost, or older, where they are.

    A primary without one may have lost them before the shard had an epoch.
    """
    return seen.epoch >= shard.epoch and (seen.epoch > 0 or not seen.is_primary)
