"""Rows of tenants in Postgres: a transaction reads and writes those that its signed context proves, and no others.

And their audit log, of which nobody changes a row unseen.
"""

from __future__ import annotations

import itertools
import secrets
import time
from typing import TYPE_CHECKING
from unittest import mock

import psycopg
import pytest

from dataflows.tenancy.mover.comparing import compare, compare_again
from dataflows.tenancy.mover.tenant_rows import Place, Places
from ingress.http.store import _SETTINGS, _read_queries
from reconciliation.tenancy.audit_chain import Chain, verify
from schemas.tenancy import limits
from sinks.tenancy import databases
from sinks.tenancy.contexts import Contexts
from sinks.tenancy.secrets_file import TenancySecrets
from tests.worlds.tenant_stores import STALE, stores

if TYPE_CHECKING:
    from tests.worlds.tenant_stores import Stores

__all__ = ["stores"]  # the fixture of this module
pytestmark = [pytest.mark.servers]
ROLES = ("ingress", "tenancy_owner", "tenancy_mover")


@pytest.mark.parametrize("role", ROLES)
def test_a_query_without_predicate_shows_one_tenant(stores: Stores, role: str) -> None:
    for store, tenant in itertools.product(stores.stores, ("tn_a", "tn_b")):
        assert stores.seen(role, stores.contexts.of(tenant, 3, "r"), store) == [(tenant, f"rs_{tenant}")]


@pytest.mark.parametrize("role", ROLES)
def test_without_a_context_that_holds_nothing_is_read(stores: Stores, role: str) -> None:
    """Missing, empty, unreadable, forged, expired, signed by another key, or of a tenant that was never here."""
    good = stores.contexts.of("tn_a", 3, "r")
    other_key = TenancySecrets("rk", {}, stores.held.context_key_id, secrets.token_bytes(32))
    bad = [
        None,
        "",
        "tn_a",
        good.replace("tn_a", "tn_b"),
        good.replace("|3|", "|9|"),
        good.replace("|r|", "|rw|"),
        good[:-1] + ("0" if good[-1] != "0" else "1"),
        stores.contexts.of("tn_a", 3, "r", now=time.time() - 3_600),
        Contexts(other_key).of("tn_a", 3, "r"),
        f"{good} {good.replace('tn_a', 'tn_b')}",
    ]
    for store in stores.stores:
        for context in bad:
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                stores.seen(role, context, store)
        with pytest.raises(psycopg.DatabaseError) as error:
            stores.seen(role, stores.contexts.of("tn_never", 1, "r"), store)
        assert error.value.sqlstate == STALE


def test_the_statement_of_the_ingress_sets_the_context_that_it_is_judged_by(stores: Stores) -> None:
    """One round trip, planned once: neither a context from before nor none at all is what its policy sees."""
    statement = _read_queries(("ingress",))["tenant_rows_pooled"]
    of_a, of_b = (stores.contexts.of(tenant, 3, "r") for tenant in ("tn_a", "tn_b"))
    asked = {"tenant_id": "tn_a", "ids": ["rs_tn_a", "rs_tn_b"]}
    row = ("rs_tn_a", 1, b"sealed", False)
    with psycopg.connect(stores.dsns["millrace_ingress"], autocommit=True, options=_SETTINGS) as connection:
        for _ in range(7):  # also once it is prepared
            assert connection.execute(statement, asked | {"context": of_a}).fetchall() == [row]
            assert connection.execute(statement, asked | {"context": of_b}).fetchall() == []
            with connection.transaction():
                connection.execute("select set_config('app.ctx', %s, true)", (of_b,))
                assert connection.execute(statement, asked | {"context": of_a}).fetchall() == [row]
            for bad in ("", "tn_a", of_a.replace("tn_a", "tn_b"), of_a[:-1], f"{of_a} {of_b}"):
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    connection.execute(statement, asked | {"context": bad})
            for alone in ("select * from tenancy.proven", "select count(*) from tenancy_pool.resource"):
                with pytest.raises(psycopg.errors.InsufficientPrivilege, match="no tenant context"):
                    connection.execute(alone.encode())
        with pytest.raises(psycopg.DatabaseError) as stale:
            connection.execute(statement, asked | {"context": stores.contexts.of("tn_a", 2, "r")})
        assert stale.value.sqlstate == STALE


def test_a_context_ends_with_its_transaction(stores: Stores) -> None:
    """The next borrower of the same connection starts without one, also after an error."""
    with stores.of("ingress") as connection:
        for fails in (False, True):
            try:
                with connection.transaction():
                    connection.execute("select set_config('app.ctx', %s, true)", (stores.contexts.of("tn_a", 3, "r"),))
                    assert connection.execute("select count(*) from tenancy_pool.resource").fetchone() == (1,)
                    if fails:
                        connection.execute("select 1 / 0")
            except psycopg.errors.DivisionByZero:
                assert fails
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute("select count(*) from tenancy_pool.resource")


def test_a_fence_and_a_newer_generation_stop_whoever_was_slow(stores: Stores) -> None:
    old = stores.contexts.of("tn_a", 3, "rw")
    row = ("rs_tn_a", 7, b"late", False)
    try:
        stores.gate("tn_a", 3, "fenced")
        with pytest.raises(psycopg.DatabaseError) as fenced:
            stores.apply("tenancy_owner", old, "tenancy_pool", "tn_a", row)
        assert stores.seen("ingress", old, "tenancy_pool") == [("tn_a", "rs_tn_a")]  # it is read meanwhile
        stores.gate("tn_a", 4)
        with pytest.raises(psycopg.DatabaseError) as stale:
            stores.apply("tenancy_owner", old, "tenancy_pool", "tn_a", row)
        assert (fenced.value.sqlstate, stale.value.sqlstate) == (STALE, STALE)
    finally:
        stores.gate("tn_a", 3)
    with pytest.raises(psycopg.DatabaseError):  # rights to read are none to write
        stores.apply("tenancy_owner", stores.contexts.of("tn_a", 3, "r"), "tenancy_pool", "tn_a", row)
    with pytest.raises(psycopg.errors.InsufficientPrivilege):  # nor are one tenant's another's
        stores.apply("tenancy_owner", old, "tenancy_pool", "tn_b", row)


@pytest.mark.parametrize("role", ROLES)
def test_what_an_older_policy_decided_is_refused_and_contexts_of_releases_before_hold(
    stores: Stores, role: str
) -> None:
    """As far as a fence goes: the mover's own context says no policy, for what it brings was decided long ago."""
    newest, stale = (stores.contexts.of("tn_a", 3, "rw", policy_version=version) for version in (7, 6))
    told_none = stores.contexts.of("tn_a", 3, "rw")
    longer = newest.replace("|7|", "|7|7|")
    row = ("rs_tn_a", 1, b"sealed", False)  # as it is: nothing changes
    stores.policy("tn_a", 7)
    try:
        for store in stores.stores:
            for context in (newest, told_none):
                assert stores.seen(role, context, store) == [("tn_a", "rs_tn_a")]
            with pytest.raises(psycopg.DatabaseError, match="of an older policy") as refused:
                stores.seen(role, stale, store)
            assert refused.value.sqlstate == STALE
            for forged in (stale.replace("|6|", "|7|"), longer, told_none.replace("|rw|", "|rw|7|")):
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    stores.seen(role, forged, store)
            if role == "tenancy_owner":
                stores.apply(role, newest, store, "tn_a", row)
                with pytest.raises(psycopg.DatabaseError, match="of an older policy"):
                    stores.apply(role, stale, store, "tn_a", row)
            if role == "tenancy_mover":
                move = stores.contexts.of("tn_a", 3, "move")
                stores.apply(role, move, store, "tn_a", row)
    finally:
        stores.policy("tn_a", 0)


def test_no_role_of_a_process_reads_the_key_or_goes_around_the_policies(stores: Stores) -> None:
    for role in (*ROLES, "reader", "operator", "owner", "sink"):
        with stores.of(role) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("select * from tenancy.context_key")
        for copy in ("pass", "pass_due"):
            with stores.of(role) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(f"select * from tenancy.{copy}".encode())
    for role in (*ROLES[:2], "reader"):
        for statement in ("truncate {}.resource", "alter table {}.resource no force row level security"):
            with stores.of(role) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(statement.format("tenancy_pool").encode())
    for role in ("ingress", "reader", "operator"):
        with stores.of(role) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("delete from tenancy_pool.resource")


_TELLS_ALL = """
create function pg_temp.tells(id text) returns boolean language plpgsql cost 0.0000001
as $$ begin raise notice 'told %', id; return true; end $$
"""


@pytest.mark.parametrize("role", ROLES)
def test_no_shape_of_a_question_tells_of_another_tenants_rows(stores: Stores, role: str) -> None:
    """COPY, plans with their counts, cursors, statistics, and a cheap function that tells all that it is given."""
    told: list[str] = []
    context = stores.contexts.of("tn_a", 3, "r")
    with stores.of(role) as connection, connection.transaction():
        connection.add_notice_handler(lambda notice: told.append(notice.message_primary or ""))
        connection.execute("select set_config('app.ctx', %s, true)", (context,))
        for rows in ("(select resource_id from tenancy_pool.resource)", "tenancy_pool.resource (resource_id)"):
            with connection.cursor().copy(f"copy {rows} to stdout".encode()) as copied:
                assert b"".join(copied) == b"rs_tn_a\n"
        plan = connection.execute("explain (analyze, timing off, format json) select from tenancy_pool.resource")
        (((node,),),) = plan.fetchall()
        assert node["Plan"]["Actual Rows"] == 1
        connection.execute("declare walk cursor for select resource_id from tenancy_pool.resource")
        assert connection.execute("fetch all from walk").fetchall() == [("rs_tn_a",)]
        statistics = "select from pg_stats where schemaname = 'tenancy_pool' and tablename = 'resource'"
        assert connection.execute(statistics).rowcount == 0
        try:
            with connection.transaction():
                connection.execute(_TELLS_ALL)
        except psycopg.errors.InsufficientPrivilege:
            return  # who makes no function has none that tells
        connection.execute("select from tenancy_pool.resource where pg_temp.tells(resource_id)")
    assert told == ["told rs_tn_a"]


def test_a_row_of_another_is_refused_before_it_is_compared_with_any(stores: Stores) -> None:
    """A unique violation would tell that the other tenant has it."""
    refusals = set()
    for id_ in ("rs_tn_b", "rs_of_nobody"):
        with pytest.raises(psycopg.DatabaseError) as refused:
            stores.apply(
                "tenancy_owner", stores.contexts.of("tn_a", 3, "rw"), "tenancy_pool", "tn_b", (id_, 1, b"x", False)
            )
        refusals.add((refused.value.sqlstate, str(refused.value).replace(id_, "")))
    assert len(refusals) == 1


@pytest.mark.parametrize("role", ROLES[1:])
def test_who_writes_for_one_tenant_inserts_no_row_of_another(stores: Stores, role: str) -> None:
    """A bare insert, for which neither what is read nor what is updated is judged beside."""
    for store in stores.stores:
        with stores.of(role) as connection, connection.transaction(force_rollback=True):
            connection.execute("select set_config('app.ctx', %s, true)", (stores.contexts.of("tn_a", 3, "rw"),))
            inserts = f"insert into {store}.resource values (%s, 'rs_new', 1, 'x', false)"
            connection.execute(inserts.encode(), ("tn_a",))
            with pytest.raises(psycopg.errors.InsufficientPrivilege, match="row-level security"):
                connection.execute(inserts.encode(), ("tn_b",))


def test_images_commute_and_a_tombstone_stays(stores: Stores) -> None:
    """Whatever the order, and how often each comes: the newest version is what is left."""
    images = [(1, b"one", False), (2, b"two", False), (3, b"", True)]
    context = stores.contexts.of("tn_a", 3, "move")
    for n, order in enumerate(itertools.permutations([*images, images[0]])):
        id_ = f"rs_order_{n}"
        for version, payload, deleted in order:
            stores.apply("tenancy_mover", context, stores.stores[1], "tn_a", (id_, version, payload, deleted))
        with stores.of("tenancy_mover") as connection:
            query = "select version, payload, deleted from tenancy.read_rows(%s, %s, 'tn_a', array[%s])"
            assert connection.execute(query, (context, stores.stores[1], id_)).fetchall() == [(3, b"", True)]
    analysts = stores.seen("reader", None, stores.stores[1])  # who sees what lives, sealed
    assert [id_ for _, id_ in analysts] == ["rs_tn_a", "rs_tn_b"]


@pytest.mark.parametrize("by_s", [-3_600, 3_600])
def test_a_mover_whose_clock_is_wrong_reads_and_lends_no_longer(
    stores: Stores, monkeypatch: pytest.MonkeyPatch, by_s: int
) -> None:
    right = time.time
    monkeypatch.setattr(time, "time", lambda: right() + by_s)
    with stores.of("tenancy_mover") as control:
        places = Places(control, stores.dsns["millrace_tenancy_mover"], stores.held)
        place = Place(
            tenant_id="tn_b", generation=3, placement_id="p", mode="pooled", shard_or_database=stores.stores[0]
        )
        assert [row[0] for row in places.rows_after(place, "", 9)] == ["rs_tn_b"]
        ends = int(places.context(place).split("|")[3])
    assert ends <= right() + limits.TENANT_CONTEXT_TTL_S + 1


def test_a_comparison_by_sums_finds_what_one_by_rows_finds(stores: Stores) -> None:
    """Pages are of a few rows: what differs lies within one, at its end, behind the last."""
    tenant, ids = "tn_compared", [f"rs_{n:03}" for n in range(23)]
    stores.gate(tenant, 1)
    context = stores.contexts.of(tenant, 1, "move")
    rows = [(id_, 2, id_.encode(), n % 5 == 0) for n, id_ in enumerate(ids)]
    for store in stores.stores:
        stores.apply("tenancy_mover", context, store, tenant, *rows)
    with psycopg.connect(stores.superuser) as heads, stores.of("tenancy_mover") as control:
        heads.execute(
            "insert into resource_head select %s, id, 2, deleted, 1, 1, 1 from unnest(%s::text[], %s::bool[]) t (id, deleted)",
            (tenant, ids, [row[3] for row in rows]),
        )
        heads.commit()
        places = Places(control, stores.dsns["millrace_tenancy_mover"], stores.held)
        source, target = (
            Place(tenant_id=tenant, generation=1, placement_id=store, mode="partitioned", shard_or_database=store)
            for store in stores.stores
        )

        ahead = set[str]()  # of both sides alike: sums cannot tell

        def found(change: str) -> dict[str, int]:
            """What a comparison says while the target is changed so."""
            table = f"{stores.stores[1]}.resource"
            with control.transaction(force_rollback=True):
                control.execute("select set_config('app.ctx', %s, true)", (context,))
                control.execute(change.format(table).encode())
                whole = compare(places, source, target)
                again = compare_again(places, source, target, 2, whole.unlike).found
            compared, unlike = whole.found, whole.unlike
            assert bool(unlike - ahead) == (whole.source_sum != whole.target_sum)
            counted = {name: n for name in compared.__struct_fields__ if (n := getattr(compared, name))}
            assert len(unlike) == 23 - compared.match
            assert {name: getattr(again, name) for name in counted} == counted | {"match": 0}
            return counted

        with mock.patch.object(limits, "MOVE_DIGEST_ROWS", 4), mock.patch.object(limits, "MOVE_PAGE_ROWS", 3):
            assert found("select 1") == {"match": 23}
            for id_ in ("rs_000", "rs_003", "rs_004", "rs_022"):
                one = f" where resource_id = '{id_}'"
                assert found("update {} set payload = payload || 'x'" + one) == {"match": 22, "diff": 1}
                assert found("update {} set deleted = not deleted" + one) == {"match": 22, "diff": 1}
                assert found("update {} set version = 1" + one) == {"match": 22, "target_behind": 1}
                assert found("update {} set version = 3" + one) == {"match": 22, "target_ahead": 1}
                assert found("delete from {}" + one) == {"match": 22, "missing": 1}
            swapped = "update {} set payload = case resource_id when 'rs_001' then 'rs_002'::bytea else 'rs_001' end"
            assert found(f"{swapped} where resource_id in ('rs_001', 'rs_002')") == {"match": 21, "diff": 2}
            for side in stores.stores:  # both sides agree, and neither has what the head says
                stores.apply("tenancy_mover", context, side, tenant, ("rs_007", 9, b"ahead", False))
            ahead.add("rs_007")
            assert found("select 1") == {"match": 22, "target_ahead": 1}
            heads.execute(
                "update resource_head set updated_at = 5 where tenant_id = %s and resource_id > 'rs_020'", (tenant,)
            )
            heads.commit()
            assert compare_again(places, source, target, 5, {"rs_001"}).found.match == 3
            assert compare_again(places, source, target, 6, ()).found.match == 0


def test_a_drop_that_a_crash_cut_short_is_carried_out(stores: Stores) -> None:
    """Postgres ends the session of whoever does anything else to such a database: no mover would get any further."""
    with stores.of("tenancy_mover") as control:
        name = databases.name_of(control.info.dbname, "pl_cut")
        with psycopg.connect(stores.superuser, autocommit=True) as superuser:
            superuser.execute(f"create database {name} owner millrace_tenancy_mover".encode())
            superuser.execute("update pg_database set datconnlimit = -2 where datname = %s", (name,))
        cut = Place(tenant_id="tn_a", generation=3, placement_id="pl_cut", mode="dedicated", shard_or_database="pl_cut")
        Places(control, stores.dsns["millrace_tenancy_mover"], stores.held).empty(cut)
        assert control.execute("select 1 from pg_database where datname = %s", (name,)).fetchone() is None


GRANTED = (
    "insert into support_grant (tenant_id, grant_id, partition, requester, reason, ticket, scopes, duration_s, state,"
    " needs_consent, approvers, created_at, expires_at, version) values (%s, 'sg_1', 0, 's_1', 'r', 't',"
    " 'resources:read', 600, 'active', false, '[\"s_2\"]', now(), now() + interval '1 hour', 1)"
)


@pytest.mark.parametrize(
    ("change", "broken_seq"),
    [
        ("select 1", None),
        ("update tenant_audit set object = 'rs_other' where seq = 2", 2),
        ("update tenant_audit set actor = 's_2' where seq = 3", 3),
        ("update tenant_audit set result = 'refused' where seq = 2", 2),
        ("update tenant_audit set end_hash = sha256(end_hash) where seq = 1", 1),
        ("update tenant_audit set end_link = null, end_hash = null where seq = 4", 4),
        ("update tenant_audit set end_link = null, end_hash = null, result = 'begun' where seq = 4", 4),
        ("update tenant_audit set end_link = null, end_hash = null, result = 'begun' where seq = 2", 3),
        ("delete from tenant_audit where seq = 2", 2),
        ("delete from tenant_audit where seq = 4", 4),
        ("delete from tenant_audit where tenant_id like 'tn_audit%%'", 1),
        ("update tenant_audit set seq = 9 where seq = 2", 2),
    ],
)
def test_a_changed_row_of_the_audit_log_is_found_and_named(stores: Stores, change: str, broken_seq: int | None) -> None:
    """Four calls, of which the third one never ended; what is done afterwards is done past every door, as superuser."""
    tenant = f"tn_audit_{secrets.token_hex(4)}"
    with psycopg.connect(stores.superuser, autocommit=True) as superuser, stores.of("ingress") as ingress:
        superuser.execute(GRANTED.encode(), (tenant,))
        for n in range(1, 5):
            begun = "select number from tenant_audit_begin(%s, 'sg_1', 's_1', 'GET /v1/resources', %s)"
            assert ingress.execute(begun.encode(), (tenant, f"rs_{n}")).fetchone() == (n,)
            if n != 3:
                ingress.execute("select tenant_audit_end(%s, %s, 'done')", (tenant, n))
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            ingress.execute("update tenant_audit set object = 'x' where seq = 1")

        def verified(noted: tuple[int, str] | None = None) -> Chain:
            with stores.of("operator") as operator:
                return verify(operator, tenant, noted)

        whole = verified()
        assert (whole.links, whole.rows, whole.broken_seq) == (7, 4, None)
        scoped = change.replace("where ", f"where tenant_id = '{tenant}' and ").replace("%%", "%")
        superuser.execute(f"set constraints all deferred; {scoped}".encode())
        found = verified((whole.links, whole.head) if broken_seq is None else None)
        assert (found.broken_seq, found.reason is None) == (broken_seq, broken_seq is None)
        assert verified((2, "0" * 64)).broken_seq in (1, broken_seq)
        on_page = _read_queries(("ingress.tenancy.console",))["grant_chain"]
        with stores.of("console") as console:
            (seen,) = console.execute(on_page, {"tenant": tenant, "limit": 100}).fetchall()
        assert (seen[2] is None and not seen[3]) == (broken_seq is None)
