"""Stores of tenants' rows in a database of their own, and who reads and writes there under which context."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any, Final

import psycopg
import pytest

from sinks.postgres.migrate import migrate
from sinks.tenancy import contexts, secrets_file
from sinks.tenancy.contexts import Contexts

if TYPE_CHECKING:
    from sinks.tenancy.secrets_file import TenancySecrets
    from tests.servers import World

STALE: Final = "TN001"
APPLY: Final = (
    "select tenancy.apply_rows"
    "(%s::text[], %s::text[], %s::text[], %s::text[], %s::bigint[], %s::bytea[], %s::boolean[])"
)


class Stores:
    """A database with two tenants, in the pool and in a schema that the mover made."""

    def __init__(self, world: World, held: TenancySecrets) -> None:
        self.dsns = world.addresses.postgres_dsns
        self.superuser = world.addresses.postgres_superuser_dsn
        self.held = held
        self.contexts = Contexts(held)
        self.stores = ("tenancy_pool", f"pl_{secrets.token_hex(4)}")

    def of(self, role: str) -> psycopg.Connection[Any]:
        return psycopg.connect(self.dsns[f"millrace_{role}"], autocommit=True)

    def gate(self, tenant: str, generation: int, access: str = "rw") -> None:
        with psycopg.connect(self.superuser) as connection:
            connection.execute(
                "insert into tenancy.gate values (%s, %s, %s) on conflict (tenant_id) do update"
                " set generation = excluded.generation, access = excluded.access",
                (tenant, generation, access),
            )

    def policy(self, tenant: str, version: int) -> None:
        with psycopg.connect(self.superuser) as connection:
            connection.execute("update tenancy.gate set policy_version = %s where tenant_id = %s", (version, tenant))

    def apply(self, role: str, context: str, store: str, tenant: str, *rows: tuple[str, int, bytes, bool]) -> None:
        ids, versions, payloads, deleted = (list(column) for column in zip(*rows, strict=True))
        n = len(rows)
        with self.of(role) as connection:
            connection.execute(APPLY, ([context] * n, [store] * n, [tenant] * n, ids, versions, payloads, deleted))

    def seen(self, role: str, context: str | None, store: str) -> list[tuple[str, str]]:
        """What a query without any predicate shows, under this context."""
        with self.of(role) as connection, connection.transaction():
            if context is not None:
                connection.execute("select set_config('app.ctx', %s, true)", (context,))
            query = f"select tenant_id, resource_id from {store}.resource order by 1, 2"
            return connection.execute(query.encode()).fetchall()


@pytest.fixture(scope="module")
def stores(stack: World, tmp_path_factory: pytest.TempPathFactory) -> Stores:
    held = secrets_file.ensure(tmp_path_factory.mktemp("keys"))
    found = Stores(stack, held)
    migrate(found.superuser, stack.settings.role_passwords())  # a clone has no grants on itself
    with psycopg.connect(found.superuser) as connection:
        contexts.install(connection, held)
    with found.of("tenancy_mover") as connection:
        connection.execute("select tenancy.make_store(%s)", (found.stores[1],))
    for tenant in ("tn_a", "tn_b"):
        found.gate(tenant, 3)
        for store in found.stores:
            context = found.contexts.of(tenant, 3, "rw")
            found.apply("tenancy_owner", context, store, tenant, (f"rs_{tenant}", 1, b"sealed", False))
    return found
