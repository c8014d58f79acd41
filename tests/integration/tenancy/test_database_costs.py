"""What tenants' statements take of the database: measured as they are answered, kept, and the noisy stand on the board."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import psycopg
import pytest

from dataflows.tenancy.domain.database_noise import noisy_in
from ingress.http.store import Store
from ingress.tenancy.database_costs import DatabaseCosts
from reconciliation.tenancy.tenant_stores import noisy
from sinks.postgres.migrate import migrate
from tests.each import each
from tests.worlds.mover_world import TENANT

if TYPE_CHECKING:
    from tests.servers import World

pytestmark = [pytest.mark.servers]
SLOWLY = """
create or replace function slowly(text) returns text language plpgsql as 'begin perform pg_sleep(case $1 when ''tn_slow'' then 0.2 else 0 end); return $1; end';
alter table quota_usage enable row level security;
create policy slow on quota_usage for select to millrace_ingress using (tenant_id = slowly(tenant_id));
insert into quota_usage values ('tn_slow', 'resources', 1), ('tn_fast', 'other', 1)
"""


@each(
    ("spent", "found"),
    [
        ({"tn_a": 9.0}, []),  # nobody else
        ({"tn_a": 4.0, "tn_b": 0.9}, []),  # the database had little to do
        ({"tn_a": 4.0, "tn_b": 1.0}, ["tn_a"]),
        ({"tn_a": 5.0, "tn_b": 5.0}, []),
        ({f"tn_{n}": 1.0 for n in range(20)} | {"tn_a": 4.0}, []),  # below a fifth
        ({f"tn_{n}": 1.0 for n in range(20)} | {"tn_a": 6.0}, ["tn_a"]),
    ],
)
def test_noisy_is_who_has_far_more_than_a_fair_share_of_a_busy_window(
    spent: dict[str, float], found: list[str]
) -> None:
    assert [one.tenant_id for one in noisy_in(spent, 10.0)] == found


def test_what_statements_of_tenants_took_is_kept_and_who_took_most_is_noisy(stack: World) -> None:
    superuser = stack.addresses.postgres_superuser_dsn
    migrate(superuser, stack.settings.role_passwords())  # a clone has no grants on itself
    with psycopg.connect(superuser, autocommit=True) as connection:
        connection.execute(SLOWLY)
        for name in ("tn_slow", "tn_fast"):
            connection.execute(TENANT, (name, "active", "pl_pool_default"))

    async def asked() -> None:
        store = Store(stack.addresses.postgres_dsns["millrace_ingress"])
        await store.open()
        costs = DatabaseCosts(store, 3)
        store.heard = costs.heard
        for _ in range(3):
            await store.rows("quota_usage", {"tenant_id": "tn_slow"})
            await store.rows("quota_usage", {"tenant_id": "tn_fast"})
            await store.rows("tenant_stores", {})  # nobody's
            await store.rows("quota_usage", {"tenant_id": "tn_nobody"})  # as a path may name one
        for _ in range(3):
            await costs.judge(0.5)
            await store.rows("quota_usage", {"tenant_id": "tn_slow"})
            await store.rows("quota_usage", {"tenant_id": "tn_fast"})
        await costs.keep()
        await costs.keep()  # nothing since
        await store.rows("quota_usage", {"tenant_id": "tn_fast"})
        await costs.close()
        await store.close()

    asyncio.run(asked())
    with psycopg.connect(superuser, autocommit=True) as connection:
        slices = connection.execute(
            "select seq, tenant_id, source, calls, database_us >= 1000000 from tenant_cost_slice order by seq"
        ).fetchall()  # fmt: skip
        assert slices == [
            (1, "tn_fast", "ingress-3", 6, False),
            (2, "tn_slow", "ingress-3", 6, True),
            (3, "tn_fast", "ingress-3", 1, False),
        ]
    with psycopg.connect(stack.addresses.postgres_dsns["millrace_operator"]) as connection:
        (found,) = noisy(connection)
    assert (found["topic"], found["caller"], found["partition"]) == ("database", "tenant:tn_slow", 3)
    assert found["share_percent"] > 90
    assert (found["units_left"] >= 200, found["windows"]) == (True, 1)
