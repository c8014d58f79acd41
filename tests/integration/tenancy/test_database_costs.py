"""What tenants' statements take of the database: measured as they are answered, kept, and the noisy stand on the board."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import psycopg
import pytest

from dataflows.tenancy.domain.database_noise import noisy_in
from ingress import limits
from ingress.http.store import Store
from ingress.identity.asking import ASKING
from ingress.tenancy.database_costs import DatabaseCosts
from reconciliation.tenancy.tenant_stores import noisy
from schemas import errors
from sinks.postgres.migrate import migrate
from tests.each import each
from tests.eventually import eventually, patient
from tests.worlds.mover_world import TENANT

if TYPE_CHECKING:
    from tests.servers import World

pytestmark = [pytest.mark.servers]
#: two statements of the slow tenant at once are told from one by a lock that nobody waits for; whoever holds the gate
#: (4712) decides when they end
SLOWLY = """
create function slowly(text) returns text language plpgsql as
'begin
    if $1 = ''tn_slow'' then
        if not pg_try_advisory_lock(4711) then raise exception ''two at once''; end if;
        perform pg_sleep(0.2);
        perform pg_advisory_lock_shared(4712);
        perform pg_advisory_unlock_shared(4712);
        perform pg_advisory_unlock(4711);
    end if;
    return $1;
end';
alter table quota_usage enable row level security;
create policy slow on quota_usage for select to millrace_ingress using (tenant_id = slowly(tenant_id));
insert into quota_usage values ('tn_slow', 'resources', 1), ('tn_fast', 'other', 1)
"""
_AT_THE_GATE = """select from pg_locks l join pg_database d on d.oid = l.database
where datname = current_database() and locktype = 'advisory' and objid = 4712 and not granted"""


@pytest.fixture(scope="module")
def ingress_dsn(stack: World) -> str:
    """Of a database in which the statements of one tenant are slow."""
    superuser = stack.addresses.postgres_superuser_dsn
    migrate(superuser, stack.settings.role_passwords())  # a clone has no grants on itself
    with psycopg.connect(superuser, autocommit=True) as connection:
        connection.execute(SLOWLY)
        for name in ("tn_slow", "tn_fast"):
            connection.execute(TENANT, (name, "active", "pl_pool_default"))
    return stack.addresses.postgres_dsns["millrace_ingress"]


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


def test_what_statements_of_tenants_took_is_kept_and_who_took_most_is_noisy(stack: World, ingress_dsn: str) -> None:
    superuser = stack.addresses.postgres_superuser_dsn

    async def asked() -> None:
        store = Store(ingress_dsn)
        await store.open()
        costs = DatabaseCosts(store, 3)
        store.heard = costs.heard
        for _ in range(3):
            await store.rows("quota_usage", {"tenant_id": "tn_slow"})
            await store.rows("quota_usage", {"tenant_id": "tn_fast"})
            await store.rows("tenant_stores", {})  # nobody's
            await store.rows("quota_usage", {"tenant_id": "tn_nobody"})  # as a path may name one
        for window_s in (0.5, 10.0, 10.0):  # of which the others have little to do, however slow the machine is
            await costs.judge(window_s)
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


def test_who_was_noisy_takes_turns_and_leaves_connections_to_others(
    stack: World, ingress_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For a window; who finds no turn in time is told so, and the database is not taken for one that is away."""
    gate = psycopg.connect(stack.addresses.postgres_superuser_dsn, autocommit=True)

    async def asked() -> None:
        store = Store(ingress_dsn)
        costs = DatabaseCosts(store, 4)
        store.heard, store.turn = costs.heard, costs.turn

        async def of(tenant_id: str, asks: str = "") -> str:
            ASKING.set(asks or f"tenant:{tenant_id}")
            await store.rows("quota_usage", {"tenant_id": tenant_id})
            return tenant_id

        async def three() -> list[str]:
            found = await asyncio.gather(*(of("tn_slow") for _ in range(3)), return_exceptions=True)
            return [one if isinstance(one, str) else getattr(one, "code", type(one).__name__) for one in found]

        async def two_are_at_once() -> None:
            """Sooner or later: the first ones may be waiting for the pool to grow."""
            async with asyncio.timeout(patient(20)):
                while await three() == 3 * ["tn_slow"]:
                    pass

        async def at_the_gate() -> None:
            await asyncio.to_thread(
                eventually, lambda: gate.execute(_AT_THE_GATE).rowcount, what="one waits at the gate"
            )

        async with AsyncExitStack() as held:
            held.push_async_callback(store.close)
            held.callback(gate.close)
            await store.open()
            await two_are_at_once()
            await of("tn_fast")
            await costs.judge(0.1)
            gate.execute("select pg_advisory_lock(4712)")
            slow = asyncio.gather(*(of("tn_slow") for _ in range(8)))
            await at_the_gate()
            assert [await of("tn_fast") for _ in range(3)] == 3 * ["tn_fast"]
            with pytest.raises(psycopg.errors.RaiseException, match="two at once"):
                await of("tn_slow", "staff:ann")
            assert not slow.done(), "others were answered meanwhile, and who looks at it"
            gate.execute("select pg_advisory_unlock(4712)")
            assert await slow == 8 * ["tn_slow"], "one after the other"
            monkeypatch.setattr(limits, "STORE_POOL_WAIT_S", 0.1)
            gate.execute("select pg_advisory_lock(4712)")
            first = asyncio.ensure_future(of("tn_slow"))
            await at_the_gate()
            for _ in range(2):
                with pytest.raises(errors.Overloaded):
                    await of("tn_slow")
            gate.execute("select pg_advisory_unlock(4712)")
            assert await first == "tn_slow"
            assert await of("tn_slow") == "tn_slow"
            await costs.judge(1_000.0)  # the database had little to do
            await two_are_at_once()

    asyncio.run(asked())
