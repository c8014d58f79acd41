"""Keys of tenants under an old root key: gone through once for each newest one, and again later for one that came late."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from dataflows.tenancy.mover.shredding import Shredding
from dataflows.tenancy.mover.wrapping import Wrapping
from dataflows.tenancy.partition import SQL as OWNER
from reconciliation.tenancy.tenant_stores import keys_by_root_key, keys_held_still
from schemas import errors
from schemas.tenancy import limits
from sinks.tenancy import root_keys, secrets_file
from sinks.tenancy.shredded import Shredded

if TYPE_CHECKING:
    from pathlib import Path

    from tests.servers import World

pytestmark = [pytest.mark.servers]
KEYS = 2 * limits.MOVER_ITEMS_MAX + 1
AGAIN_US = limits.MOVER_KEYS_AGAIN_S * 1_000_000
_KEY = "insert into tenant_key values (%s, 1, %s, %s, 'active', 0)"
_DESTROYED = "insert into tenant_key values ('tn_gone', 1, %s, null, 'destroyed', 0, 1)"


def test_every_key_is_wrapped_anew_by_the_movers_own_role(stack: World, tmp_path: Path) -> None:
    held = root_keys.RootKeys(secrets_file.ensure(tmp_path))
    made = {f"tn_{n:03}": held.new_wrapped(f"tn_{n:03}", 1) for n in range(KEYS + 1)}
    opened = {tenant: held.unwrap(tenant, 1, *wrapped) for tenant, wrapped in made.items()}
    late, (old, wrapped) = made.popitem()
    with (
        psycopg.connect(stack.addresses.postgres_superuser_dsn, autocommit=True) as connection,
        psycopg.connect(stack.addresses.postgres_dsns["millrace_tenancy_mover"], autocommit=True) as control,
    ):
        connection.cursor().executemany(_KEY, [(tenant, *key) for tenant, key in made.items()])
        connection.execute(_DESTROYED, (old,))
        places: Any = SimpleNamespace(control=control)
        wrapping = Wrapping(places, root_keys.RootKeys(secrets_file.read(tmp_path)))
        assert not wrapping.further(0)
        new = root_keys.rotate(tmp_path)
        assert [wrapping.further(1) for _ in range(4)] == [True, True, True, False]
        rows = connection.execute(
            "select tenant_id, root_key_id, wrapped from tenant_key where wrapped is not null"
        ).fetchall()
        assert {root for _, root, _ in rows} == {new}
        assert {tenant: held.unwrap(tenant, 1, new, key) for tenant, _, key in rows} == {t: opened[t] for t in made}
        connection.execute(_KEY, (late, old, wrapped))  # an owner was in the middle of it
        assert not wrapping.further(AGAIN_US)
        assert [wrapping.further(AGAIN_US + 1) for _ in range(2)] == [True, False]
        ((key,),) = connection.execute("select wrapped from tenant_key where tenant_id = %s", (late,)).fetchall()
        assert held.unwrap(late, 1, new, key) == opened[late]


def test_a_root_key_is_not_taken_away_under_a_key_that_is_not_committed_yet(stack: World, tmp_path: Path) -> None:
    """Who makes a key holds the table from before it chooses the root key: a count waits for it, and it for a removal."""
    held = root_keys.RootKeys(secrets_file.ensure(tmp_path))
    old, owner = held.newest, stack.addresses.postgres_dsns["millrace_tenancy_owner"]
    with (
        psycopg.connect(owner, autocommit=True) as making,
        psycopg.connect(stack.addresses.postgres_dsns["millrace_operator"], autocommit=True) as removing,
    ):
        with making.transaction():
            making.execute(OWNER["keys_held"].encode())
            chosen = held.new_wrapped("tn_late", 1)
            root_keys.rotate(tmp_path)
            with pytest.raises(errors.StateConflict, match="being made"), keys_held_still(removing):
                raise AssertionError("a key is on its way")
            making.execute(_KEY, ("tn_late", *chosen))
        with keys_held_still(removing):
            assert keys_by_root_key(removing)[old] == 1
            making.execute("set lock_timeout = 100")
            with pytest.raises(psycopg.errors.LockNotAvailable), making.transaction():
                making.execute(OWNER["keys_held"].encode())


def test_keys_that_a_database_has_again_are_destroyed_again(stack: World, tmp_path: Path) -> None:
    """It was put back from before; what is destroyed in it stands in the file from now on."""
    held = root_keys.RootKeys(secrets_file.ensure(tmp_path))
    shredded = Shredded(tmp_path)
    shredded.add(["tn_back"])
    with (
        psycopg.connect(stack.addresses.postgres_superuser_dsn, autocommit=True) as connection,
        psycopg.connect(stack.addresses.postgres_dsns["millrace_tenancy_mover"], autocommit=True) as control,
    ):
        connection.execute("delete from tenant_key")
        for tenant in ("tn_back", "tn_other"):
            connection.execute(_KEY, (tenant, *held.new_wrapped(tenant, 1)))
        connection.execute(_DESTROYED, (held.newest,))
        places: Any = SimpleNamespace(control=control)
        shredding = Shredding(places, shredded)
        assert [shredding.further(7) for _ in range(2)] == [True, False]
        rows = connection.execute("select tenant_id, state, destroyed_at from tenant_key order by 1").fetchall()
        assert rows == [("tn_back", "destroyed", 7), ("tn_gone", "destroyed", 1), ("tn_other", "active", None)]
    assert Shredded(tmp_path).all() == {"tn_back", "tn_gone"}
