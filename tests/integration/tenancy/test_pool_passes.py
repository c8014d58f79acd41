"""One row of the pool is read quickly where a pass lets its context in, and is judged as any other read where none does."""

from __future__ import annotations

import secrets
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import psycopg
import pytest

from ingress.http.store import _SETTINGS, _read_queries
from sinks.tenancy import contexts
from sinks.tenancy.contexts import Contexts
from sinks.tenancy.secrets_file import TenancySecrets
from tests.eventually import eventually
from tests.worlds.tenant_stores import STALE, stores

if TYPE_CHECKING:
    from tests.worlds.tenant_stores import Stores

__all__ = ["stores"]  # the fixture of this module
pytestmark = [pytest.mark.servers]
_TENANT_WITH_A_HEAD = """
insert into tenant (tenant_id, partition, name, tier, state, timezone, home_currency, quotas, prices, placement_id, generation,
                    key_ref, policy_version, version, created_at, updated_at)
values ('tn_a', 0, 'a', 'standard', 'active', 'UTC', 'USD', '{}', '{}', 'pl_pool', 3, 'tk', 1, 1, 1, 1);
insert into resource_head values ('tn_a', 'rs_tn_a', 1, false, 1, 1, 1)
"""


def test_one_row_and_its_head_are_read_under_the_context_that_the_statement_sets(stores: Stores) -> None:
    """In every transaction: one that held another tenant's shows nothing of it, and what is refused is refused here."""
    statement = _read_queries(("ingress",))["resource_pooled_by_id"]
    of_a, of_b = (stores.contexts.of(tenant, 3, "r", policy_version=1) for tenant in ("tn_a", "tn_b"))
    asked = {"tenant_id": "tn_a", "resource_id": "rs_tn_a", "placement_id": "pl_pool", "policy_version": 1}
    head = (True, "rs_tn_a", 1, 1, None)
    with psycopg.connect(stores.superuser, autocommit=True) as superuser:
        superuser.execute(_TENANT_WITH_A_HEAD)
    namesake = ("rs_tn_a", 1, b"of another", False)
    stores.apply("tenancy_owner", stores.contexts.of("tn_b", 3, "rw"), "tenancy_pool", "tn_b", namesake)
    with psycopg.connect(stores.dsns["millrace_ingress"], autocommit=True, options=_SETTINGS) as connection:
        for _ in range(7):  # also once it is prepared
            assert connection.execute(statement, asked | {"context": of_a}).fetchall() == [(*head, 1, b"sealed", False)]
            assert connection.execute(statement, asked | {"context": of_b}).fetchall() == [(*head, None, None, None)]
            with connection.transaction():
                connection.execute("select set_config('app.ctx', %s, true)", (of_b,))
                found = connection.execute(statement, asked | {"context": of_a}).fetchall()
                assert found == [(*head, 1, b"sealed", False)]
            with pytest.raises(psycopg.errors.InsufficientPrivilege, match="no tenant context"):
                connection.execute("select count(*) from tenancy_pool.resource")
            for bad in ("", "tn_a", of_a.replace("tn_a", "tn_b"), of_a[:-1], f"{of_a} {of_b}"):
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    connection.execute(statement, asked | {"context": bad})
        with pytest.raises(psycopg.DatabaseError) as stale:
            connection.execute(statement, asked | {"context": stores.contexts.of("tn_a", 2, "r", policy_version=1)})
        assert stale.value.sqlstate == STALE


PASSED = b"select tenant_id from tenancy.passed"


def test_a_pass_is_of_the_gate_and_of_the_newest_key_and_what_it_lacks_is_judged(stores: Stores) -> None:
    """While keys rotate both are believed; the key that is gone, or another under its name, lets nothing in any more."""
    newer = TenancySecrets("rk", {}, "ck_0002", secrets.token_bytes(32))
    replaced = TenancySecrets("rk", {}, "ck_0002", secrets.token_bytes(32))
    by_first, by_newer, by_replaced = (Contexts(held).of("tn_a", 3, "r") for held in (stores.held, newer, replaced))

    def shown(context: str) -> tuple[bool, bool]:
        """Whether a pass lets it in, and whether it is believed."""
        with stores.of("ingress") as connection, connection.transaction():
            connection.execute("select set_config('app.ctx', %s, true)", (context,))
            quickly = ("tn_a",) in connection.execute(PASSED).fetchall()
        try:
            return quickly, stores.seen("ingress", context, "tenancy_pool") == [("tn_a", "rs_tn_a")]
        except psycopg.DatabaseError as error:
            assert error.sqlstate in (STALE, "42501")
            return quickly, False

    with psycopg.connect(stores.superuser, autocommit=True) as superuser:
        try:
            assert [shown(c) for c in (by_first, by_newer)] == [(True, True), (False, False)]
            contexts.install(superuser, newer)
            assert [shown(c) for c in (by_first, by_newer)] == [(False, True), (True, True)]
            made = superuser.execute("select xmin, said from tenancy.pass").fetchall()
            contexts.install(superuser, newer)  # again, as each start does
            assert superuser.execute("select xmin, said from tenancy.pass").fetchall() == made
            stores.gate("tn_a", 4)  # whose pass is made under two keys
            assert [shown(c) for c in (by_first, by_newer)] == [(False, False)] * 2
            stores.gate("tn_a", 3)
            assert [shown(c) for c in (by_first, by_newer)] == [(False, True), (True, True)]
            contexts.install(superuser, replaced)
            assert [shown(c) for c in (by_first, by_newer, by_replaced)] == [
                (False, True),
                (False, False),
                (True, True),
            ]
            superuser.execute("delete from tenancy.context_key where key_id = 'ck_0002'")
            assert [shown(c) for c in (by_first, by_newer, by_replaced)] == [
                (True, True),
                (False, False),
                (False, False),
            ]
        finally:
            superuser.execute("delete from tenancy.context_key where key_id = 'ck_0002'")
        first, policy = stores.contexts, 7
        stores.policy("tn_a", policy)
        try:
            told = {version: shown(first.of("tn_a", 3, "r", policy_version=version)) for version in (6, 7, 8)}
            assert told == {6: (False, False), 7: (True, True), 8: (False, True)}
            assert shown(by_first) == (False, True)  # of a release before, it says none
            assert shown(first.of("tn_a", 4, "r", policy_version=7)) == (False, True)  # of a move that is ahead of us
            assert shown(first.of("tn_a", 3, "rw", policy_version=7)) == (False, True)
            late = first.of("tn_a", 3, "r", now=time.time() - 3_600, policy_version=7)
            assert shown(late) == (False, False)
        finally:
            stores.policy("tn_a", 0)
        apart = superuser.execute("table tenancy.pass except table tenancy.pass_due").fetchall()
        assert apart == superuser.execute("table tenancy.pass_due except table tenancy.pass").fetchall() == []
        superuser.execute(
            "insert into tenancy.gate values ('tn_gone', 1, 'rw'); delete from tenancy.gate where tenant_id = 'tn_gone'"
        )
        assert superuser.execute("select from tenancy.pass where tenant_id = 'tn_gone'").rowcount == 0


def test_a_gate_and_a_key_that_are_written_at_once_know_of_each_other(stores: Stores) -> None:
    """The pass would be of the key before, or of the generation before: whoever comes second waits for the first."""
    newer = TenancySecrets("rk", {}, "ck_0003", secrets.token_bytes(32))
    waits = "select from pg_locks where not granted and relation = 'tenancy.gate'::regclass"
    with (
        psycopg.connect(stores.superuser) as gates,
        psycopg.connect(stores.superuser, autocommit=True) as keys,
        psycopg.connect(stores.superuser, autocommit=True) as looks,
        ThreadPoolExecutor(1) as pool,
    ):
        try:
            gates.execute("update tenancy.gate set generation = 5 where tenant_id = 'tn_a'")
            installed = pool.submit(contexts.install, keys, newer)
            eventually(lambda: looks.execute(waits).rowcount == 1)
            gates.commit()
            installed.result(30)
            assert looks.execute("select said from tenancy.pass where tenant_id = 'tn_a'").fetchone() == (
                r"tn\_a|5|r|__________|%ck\_0003|",
            )
        finally:
            gates.rollback()
            keys.execute("delete from tenancy.context_key where key_id = 'ck_0003'")
            stores.gate("tn_a", 3)
