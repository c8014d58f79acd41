"""What a tenant's page begins with, as the console's role reads it: one row, whatever moves and keys there were."""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING, Any

import pytest
from psycopg.rows import dict_row

from tests.worlds.mover_world import world

if TYPE_CHECKING:
    from tests.worlds.mover_world import MoverWorld

__all__ = ["world"]  # the fixture of this module
pytestmark = [pytest.mark.servers]
ENDED = ["aborted", "completed", "rolled_back"]
GOES_ON = (
    *("planned", "prepared", "copying", "catching_up", "verifying", "fencing", "committed", "soaking"),
    *("aborting", "rolling_back"),
)
MOVES = """insert into tenant_migration (tenant_id, migration_id, state, source, target, from_generation, rows_per_second, version,
    created_at, updated_at) select 'tn_a', 'mg_' || s, s, 'a', 'b', 1, 1, 1, 1, 1 from unnest(%s::text[]) s"""
ROTATED = (
    "update tenant_key set state = 'decrypt_only' where tenant_id = 'tn_b'",
    "insert into tenant_key select tenant_id, 2, root_key_id, wrapped, 'active', 0 from tenant_key where tenant_id = 'tn_b'",
    "insert into tenant_reseal (tenant_id, key_version, looked_at, resealed, begun_at, updated_at) values ('tn_b', 2, 5, 3, 1, 1)",
)
SHREDDED = "update tenant_key set state = 'destroyed', wrapped = null, destroyed_at = 1 where tenant_id = 'tn_b'"


def facts(world: MoverWorld, tenant: str) -> dict[str, Any]:
    """Of one tenant, in one row."""
    text = (resources.files("ingress.tenancy.console") / "queries" / "tenant_facts.sql").read_text()
    with world.superuser.transaction(), world.superuser.cursor(row_factory=dict_row) as cursor:
        cursor.execute("set local role millrace_console")
        (found,) = cursor.execute(text.encode(), {"tenant": tenant}).fetchall()
    return found


def test_a_tenant_moves_while_one_of_its_moves_has_not_ended(world: MoverWorld) -> None:
    for name in ("tn_a", "tn_other"):
        world.tenant(name, 0)
    world.superuser.execute(MOVES, (ENDED,))
    assert facts(world, "tn_a")["moving"] is None
    for state in GOES_ON:
        world.superuser.execute(MOVES, ([state],))
        assert facts(world, "tn_a")["moving"] == state
        world.superuser.execute("delete from tenant_migration where state = %s", (state,))


def test_rows_are_sealed_anew_under_a_key_that_is_there(world: MoverWorld) -> None:
    told = ("key_version", "key_state", "looked_at", "resealed", "is_resealed")
    world.tenant("tn_b", 1)
    assert [facts(world, "tn_b")[name] for name in told] == [1, "active", None, None, False]
    for statement in ROTATED:
        world.superuser.execute(statement.encode())
    assert [facts(world, "tn_b")[name] for name in told] == [2, "active", 5, 3, False]
    world.superuser.execute("update tenant_reseal set finished_at = 9")
    assert [facts(world, "tn_b")[name] for name in told] == [2, "active", 5, 3, True]
    world.superuser.execute(SHREDDED)
    assert [facts(world, "tn_b")[name] for name in told] == [2, "destroyed", None, None, False]
