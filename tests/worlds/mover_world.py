"""Tenants as rows of a database, and the mover's parts over them: a test says what happens between two of its steps."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import psycopg
import pytest

from dataflows.tenancy.mover import endings
from dataflows.tenancy.mover.tenant_rows import Places
from sinks.postgres.migrate import migrate
from sinks.tenancy import contexts, secrets_file
from sinks.tenancy.contexts import Contexts
from sinks.tenancy.key_lease import KeyLease
from sinks.tenancy.root_keys import RootKeys
from sinks.tenancy.seals import TenantKey
from tests.worlds.tenancy_world import sealed_before

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.servers import World

POOL: Final = "pl_pool_home"
TENANT: Final = """insert into tenant (tenant_id, partition, name, tier, state, timezone, home_currency, quotas, prices, placement_id,
    generation, key_ref, policy_version, version, created_at, updated_at)
    values (%s, 0, 'A', 'standard', %s, 'UTC', 'USD', '{}', '{}', %s, 1, 'tk', 1, 1, 1, 1)"""
PLACEMENT: Final = """insert into placement values (%s, %s, %s, %s, 'active', %s) on conflict do nothing"""
HEAD: Final = """insert into resource_head values (%(t)s, %(r)s, %(v)s, false, 1, 1, %(at)s) on conflict (tenant_id, resource_id)
    do update set version = excluded.version, updated_at = excluded.updated_at"""
_ROW: Final = """insert into {}.resource values (%(t)s, %(r)s, %(v)s, %(s)s, false) on conflict (tenant_id, resource_id)
    do update set version = excluded.version, payload = excluded.payload"""
_FEED: Final = """insert into resource_feed (placement_id, tenant_id, resource_id, version, payload, deleted)
    values (%(further)s, %(t)s, %(r)s, %(v)s, %(s)s, false)"""
_MOVE: Final = """insert into tenant_migration (tenant_id, migration_id, state, source, target, from_generation, rows_per_second, fenced,
    closing, fence_until, version, created_at, updated_at) values (%s, %s, %s, %s, %s, 1, 100000, %s, %s, %s, 1, 1, 1)"""


class MoverWorld:
    """Its database, keys, and one connection of the mover's role."""

    def __init__(self, world: World, keys: Path) -> None:
        self._held = secrets_file.ensure(keys)
        self.root_keys = RootKeys(self._held)
        self.contexts = Contexts(self._held)
        dsn = world.addresses.postgres_superuser_dsn
        migrate(dsn, world.settings.role_passwords())  # a clone has no grants on itself
        self.superuser = psycopg.connect(dsn, autocommit=True)
        contexts.install(self.superuser, self._held)
        mover = world.addresses.postgres_dsns["millrace_tenancy_mover"]
        self.control = psycopg.connect(mover, autocommit=True)
        self.places = Places(self.control, mover, self._held)
        self.lease = KeyLease("world")
        self._keys: dict[str, TenantKey] = {}

    def close(self) -> None:
        """Disconnects."""
        self.places.close()
        self.control.close()
        self.superuser.close()

    def one(self, query: str, *given: object) -> Any:
        """The first row."""
        return self.superuser.execute(query.encode(), given).fetchone()

    def tenant(self, name: str, resources: int, *, state: str = "active", placement: str = POOL) -> str:
        """One in the pool, with that many resources."""
        region = placement.removeprefix("pl_pool_")
        self.superuser.execute(PLACEMENT, (placement, region, "pooled", "tenancy_pool", None))
        self.superuser.execute(TENANT, (name, state, placement))
        self.superuser.execute("insert into tenancy.gate values (%s, 1, 'rw')", (name,))
        root, wrapped = self.root_keys.new_wrapped(name, 1)
        self._keys[name] = TenantKey(name, 1, self.root_keys.unwrap(name, 1, root, wrapped))
        self.superuser.execute("insert into tenant_key values (%s, 1, %s, %s, 'active', 0)", (name, root, wrapped))
        for n in range(resources):
            self.written(name, f"rs_{n:03}", 1)
        return name

    def written(self, tenant: str, resource: str, version: int, *, further: str | None = None, at: int = 1) -> None:
        """As an owner commits it: head, row, and image for another placement; the payload says which version it is."""
        plain = json.dumps({"version": version}).encode()
        sealed = self._keys[tenant].seal("resources", resource, plain)
        named = {"t": tenant, "r": resource, "v": version, "s": sealed, "further": further, "at": at}
        with self.superuser.transaction():
            self.superuser.execute(HEAD, named)
            self.superuser.execute(_ROW.format("tenancy_pool").encode(), named)
            if further is not None:
                self.superuser.execute(_FEED, named)

    def written_before(self, tenant: str, resource: str, version: int) -> None:
        """What lies there is sealed as releases did before there were purposes."""
        root, wrapped = self.one("select root_key_id, wrapped from tenant_key where tenant_id = %s", tenant)
        key, plain = self.root_keys.unwrap(tenant, 1, root, bytes(wrapped)), json.dumps({"version": version}).encode()
        changed = "update tenancy_pool.resource set payload = %s where tenant_id = %s and resource_id = %s"
        self.superuser.execute(changed, (sealed_before(key, tenant, resource, plain), tenant, resource))

    def own_store(self, tenant: str, placement: str, mode: str = "partitioned") -> str:
        """A placement of the tenant's own that is asked for: a schema, or a database."""
        self.superuser.execute(PLACEMENT, (placement, "home", mode, placement, tenant))
        return placement

    def move(
        self,
        tenant: str,
        state: str,
        source: str,
        target: str,
        *,
        closing: bool = False,
        fence_until: int | None = None,
    ) -> str:
        """An open move of the tenant."""
        id_ = f"mg_{tenant}"
        given = (tenant, id_, state, source, target, fence_until is not None, closing, fence_until)
        self.superuser.execute(_MOVE, given)
        return id_

    def export(self, tenant: str) -> str:
        """One that is asked for."""
        id_ = f"ex_{tenant}"
        self.superuser.execute("insert into tenant_export values (%s, %s, 'running', 0, null, 1)", (tenant, id_))
        return id_

    def exported(self, now: int = 1) -> None:
        """One turn of the mover at exports."""
        if self.lease.term is None:
            self.lease.answered(self.lease.asking(), [(0,)])
        endings.export(self.places, self.root_keys, self.lease, now)

    def lines(self, tenant: str) -> list[dict[str, Any]]:
        """What an export says."""
        asked = "select part, sealed from tenant_export_part where tenant_id = %s order by part"
        parts = self.superuser.execute(asked, (tenant,)).fetchall()
        key = self._keys[tenant]
        texts = [key.unseal("exports", f"ex_{tenant}:{part}", bytes(sealed)) for part, sealed in parts]
        return [json.loads(line) for line in b"".join(texts).splitlines()]


@pytest.fixture(scope="module")
def world(stack: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MoverWorld]:
    made = MoverWorld(stack, tmp_path_factory.mktemp("keys"))
    yield made
    made.close()
