"""Tenants as their members see them, while owners and movers die: quotas are exact, moves lose and double nothing."""

from __future__ import annotations

import itertools
import os
import signal
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, nullcontext
from typing import TYPE_CHECKING, Any, Literal

import psycopg
import pytest

from schemas import identity
from schemas.tenancy.operations import CREATE_RESOURCE
from sinks.tenancy import databases, store_files
from tests.eventually import becomes, eventually, patient
from tests.gate import matrix
from tests.worlds.key_holders import over_a_shred
from tests.worlds.public_system import system_of_its_own
from tests.worlds.tenancy_planted import BY_SQL, NOT_SEALED
from tests.worlds.tenancy_world import INVARIANTS, PROVED, Caller, Ledger, Tenancy, write

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.servers]
POINTS = ("move_after_page", "move_before_fence", "move_before_commit", "move_after_commit")
MODES = ("pooled", "partitioned", "dedicated")
#: every step of a move between any two modes; the gate has one
MOVES = [(*modes, point) for modes in itertools.permutations(MODES, 2) for point in POINTS]


@pytest.fixture(scope="module")
def tenancy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tenancy]:
    processes = ("tenancy_owner",)
    home = tmp_path_factory.mktemp("tenancy")
    with system_of_its_own(home, services=("ingress",), ingress_processes=1, processes=processes) as made:
        found = Tenancy(made)
        yield found
        found.close()


@pytest.mark.parametrize("case", matrix(MOVES, ("pooled", "dedicated", "move_before_commit").__eq__), ids=" ".join)
def test_a_move_goes_on_when_its_mover_is_killed_and_back_when_it_is_told(
    tenancy: Tenancy, case: tuple[str, str, str]
) -> None:
    """What was acknowledged is served throughout, retries get their stored answers, nothing deleted returns."""
    source, target, point = case
    ledger: Ledger = {}
    with nullcontext() if source == "pooled" else tenancy.mover():
        caller = tenancy.tenant(source)
    write(caller, ledger, 9)
    first = caller.send("POST", "/v1/resources", {"kept": 1}, "over the cutover")
    ledger[first.json()["result"]["resource_id"]] = (1, {"kept": 1})
    path = f"/v1/tenants/{caller.name}"
    move = tenancy.staff.done("POST", f"{path}/migrations", {"placement": {"mode": target}})
    second = tenancy.staff.send("POST", f"{path}/migrations", {"placement": {"mode": target}})
    assert (second.status_code, second.json()["code"]) == (409, "state_conflict")
    at = f"{path}/migrations/{move['migration_id']}"
    with tenancy.mover(point) as doomed:
        assert doomed.wait(timeout=patient(60)) == -signal.SIGKILL
    assert caller.resources() == ledger
    with tenancy.mover(), ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write, caller, ledger, 6)
        moved = tenancy.becomes(at, "soaking", "aborted")
        writing.result()
        assert moved["state"] == "soaking", moved
        assert (moved["from_generation"], moved["to_generation"], moved["mismatches"]) == (1, 2, 0)
        assert (moved["fenced"], moved["rows_copied"] > 0, moved["resources"] > 0) == (False, True, True)
        assert None not in (moved["source_digest"], moved["target_digest"])  # made while writes went on
        placed = tenancy.staff.get(path)["placement"]
        assert (placed["mode"], placed["generation"], placed["placement_id"]) == (target, 2, moved["target"])
        assert caller.resources() == ledger
        again = caller.send("POST", "/v1/resources", {"kept": 1}, "over the cutover")
        assert (again.content, again.headers["Idempotency-Replayed"]) == (first.content, "true")
        write(caller, ledger, 3)
        tenancy.staff.done("POST", f"{at}/rollback")
        write(caller, ledger, 3)
        tenancy.becomes(at, "rolled_back")
    assert tenancy.staff.get(path)["placement"]["generation"] == 3
    assert caller.resources() == ledger
    used = {q["dimension"]: q["used"] for q in caller.get("/v1/quotas")["data"]}
    assert used["resources"] == len(ledger)
    assert tenancy.broken_invariants() == {}


@pytest.mark.faults
@pytest.mark.parametrize("where", matrix(("before a command", "in its transaction"), "in its transaction".__eq__))
def test_an_owner_that_stands_still_over_a_whole_cutover_writes_where_its_tenant_is_then(
    tenancy: Tenancy, where: str
) -> None:
    """In a transaction it has the tenant's lock, and what it read: the database ends its session before the fence."""
    caller, ledger = tenancy.tenant(), {}
    write(caller, ledger, 2)
    written, path = min(ledger, key=ledger.__getitem__), f"/v1/tenants/{caller.name}"
    move = tenancy.staff.done("POST", f"{path}/migrations", {"placement": {"mode": "partitioned"}})

    def over(pool: ThreadPoolExecutor) -> Future[dict[str, Any]]:
        put = ("PUT", f"/v1/resources/{written}", {"over": "the cutover"})
        return pool.submit(caller.done, *put, version=1, key=f"over {where}")

    dsn = tenancy.system.settings.addresses().postgres_superuser_dsn
    with psycopg.connect(dsn) as heads, ThreadPoolExecutor(1) as pool, ExitStack() as frozen:
        if where == "in its transaction":
            heads.execute("lock table resource_head in access exclusive mode")
            writing = over(pool)
            waits = "select from pg_locks where relation = 'resource_head'::regclass and not granted"
            eventually(lambda: heads.execute(waits).rowcount)
        frozen.enter_context(tenancy.system.frozen("tenancy_owner"))
        heads.rollback()
        if where == "before a command":
            writing = over(pool)
        with tenancy.mover():
            tenancy.becomes(f"{path}/migrations/{move['migration_id']}", "soaking")
        frozen.close()
        ledger[written] = (writing.result()["version"], {"over": "the cutover"})
    assert ledger[written][0] == 2
    assert tenancy.staff.get(path)["placement"]["generation"] == 2
    assert caller.resources() == ledger
    assert tenancy.broken_invariants() == {}


def test_a_move_is_aborted_and_another_is_completed(tenancy: Tenancy) -> None:
    caller, ledger = tenancy.tenant(), {}
    write(caller, ledger, 6)
    path = f"/v1/tenants/{caller.name}"
    asked = {"placement": {"mode": "partitioned"}, "rows_per_second": 1}
    with tenancy.mover():
        slow = f"{path}/migrations/{tenancy.staff.done('POST', f'{path}/migrations', asked)['migration_id']}"
        tenancy.becomes(slow, "copying")
        tenancy.staff.done("POST", f"{slow}/abort")
        tenancy.becomes(slow, "aborted")
        assert tenancy.staff.get(path)["placement"]["generation"] == 1
        for version, said in ((None, ("state_conflict", "aborted")), (99, ("version_conflict", None))):
            refused = tenancy.staff.send("POST", f"{slow}/rollback", version=version)
            assert refused.status_code == 409
            assert (refused.json()["code"], refused.json().get("current_state")) == said
        asked["rows_per_second"] = 10_000
        quick = f"{path}/migrations/{tenancy.staff.done('POST', f'{path}/migrations', asked)['migration_id']}"
        tenancy.becomes(quick, "soaking")
        told = tenancy.staff.done("POST", f"{quick}/complete")
        assert (told["rows_copied"], told["rows_verified"], told["dual_reads"]["diff"]) == (6, 6, 0)
        tenancy.becomes(quick, "completed")
    assert caller.resources() == ledger
    left = "select count(*) from tenancy_pool.resource where tenant_id = %s"
    assert tenancy.system.rows(left, caller.name) == [(0,)]
    assert tenancy.broken_invariants() == {}


def test_what_callers_read_of_both_sides_gates_a_move(tenancy: Tenancy) -> None:
    """A difference that a caller met ends the move, also when the mover's own comparison finds none later."""
    caller, ledger = tenancy.tenant(), {}
    write(caller, ledger, 6)
    path = f"/v1/tenants/{caller.name}/migrations"
    move = tenancy.staff.done("POST", path, {"placement": {"mode": "partitioned"}})
    at, one = f"{path}/{move['migration_id']}", next(iter(ledger))
    with tenancy.mover("move_before_fence") as doomed:
        assert doomed.wait(timeout=patient(60)) == -signal.SIGKILL
    before = tenancy.staff.get(at)
    assert before["state"] == "verifying"

    def counted(kind: str) -> int:
        assert caller.get(f"/v1/resources/{one}")["payload"] == ledger[one][1]
        return int(tenancy.staff.get(at)["dual_reads"][kind]) - int(before["dual_reads"][kind])

    eventually(lambda: counted("match") > 0, 30, what="reads of both sides")
    told = tenancy.staff.get(at)
    assert told["served_reads"] - before["served_reads"] == told["dual_reads"]["match"] - before["dual_reads"]["match"]
    (schema,) = tenancy.system.rows("select shard_or_database from placement where placement_id = %s", move["target"])[
        0
    ]
    change = (
        f"update {schema}.resource set payload = overlay(payload placing %s from 20) where resource_id = %s returning 1"
    )
    with psycopg.connect(tenancy.system.settings.addresses().postgres_superuser_dsn, autocommit=True) as connection:
        own = f"select substr(payload, 20, 1) from {schema}.resource where resource_id = %s"
        (was,) = connection.execute(own.encode(), (one,)).fetchone() or (b"",)
        connection.execute(change.encode(), (bytes([was[0] ^ 1]), one))
        eventually(lambda: counted("diff") > 0, 30, what="a difference that a caller met")
        connection.execute(change.encode(), (was, one))
    with tenancy.mover():
        tenancy.becomes(at, "aborted")
    why = "select reason, served_mismatches > 0 from tenant_migration where migration_id = %s"
    assert tenancy.system.rows(why, move["migration_id"]) == [("callers read what the target has otherwise", True)]
    assert caller.resources() == ledger


def test_a_database_of_an_earlier_release_is_served_when_it_is_migrated(tenancy: Tenancy) -> None:
    """Until then its tenant hears why: nothing is read by functions that may answer otherwise."""
    addresses = tenancy.system.settings.addresses()
    with tenancy.mover(), psycopg.connect(addresses.postgres_superuser_dsn, autocommit=True) as connection:
        caller = tenancy.tenant("dedicated")
        made = caller.done("POST", "/v1/resources", {"n": 1})
        left = b"select count(*) from resource_feed where tenant_id = %s"
        becomes(lambda: connection.execute(left, (caller.name,)).fetchone(), (0,), 30, what="images on their way")
    placement = tenancy.staff.get(f"/v1/tenants/{caller.name}")["placement"]["placement_id"]
    with psycopg.connect(databases.dsn_of(addresses.postgres_superuser_dsn, placement)) as connection:
        assert store_files.missing(store_files.applied_in(connection)) == []
        connection.execute("drop table tenancy.store_file")
        connection.execute("drop function tenancy.digest_rows, tenancy.reseal_rows")
        connection.execute("drop view tenancy.proven cascade")  # with the policy of the ingress
        connection.execute("drop function tenancy.refused; alter table tenancy.gate drop column policy_version")
    one = f"/v1/resources/{made['resource_id']}"
    refused = caller.http.get(one)
    assert (refused.status_code, "millrace migrate" in refused.json()["detail"]) == (503, True), refused.text
    assert store_files.ensure_all(addresses.postgres_superuser_dsn, addresses.postgres_dsns) == {}
    assert caller.get(one)["payload"] == {"n": 1}
    with psycopg.connect(databases.dsn_of(addresses.postgres_superuser_dsn, placement)) as connection:
        assert store_files.missing(store_files.applied_in(connection)) == []


def test_a_hard_quota_is_exact_under_a_race_and_a_killed_owner(tenancy: Tenancy) -> None:
    caller = tenancy.tenant(quotas={"resources": 15})
    for pid in tenancy.system.pids("tenancy_owner"):
        os.kill(pid, signal.SIGKILL)

    def create(n: int) -> int:
        def ask() -> int:
            status = caller.send("POST", "/v1/resources", {"n": n}, f"race{n}").status_code
            return 0 if status in (202, 503, 504) else status

        return eventually(ask, 60)

    with ThreadPoolExecutor(8) as pool:
        assert Counter(pool.map(create, range(40))) == {201: 15, 429: 25}
    assert len(caller.resources()) == 15
    assert tenancy.broken_invariants() == {}


def test_a_life_ends_with_nothing_left_and_shredded_keys_open_nothing(tenancy: Tenancy) -> None:
    caller, staff = tenancy.tenant(), tenancy.staff
    made = caller.done("POST", "/v1/resources", {"mark": "a mark to find"})
    path, one = f"/v1/tenants/{caller.name}", f"/v1/resources/{made['resource_id']}"
    staff.done("POST", f"{path}/suspend", {"mode": "blocked", "reason": "unpaid"})
    becomes(lambda: caller.http.get(one).json().get("state"), "suspended", 10, what="reads of a blocked tenant")
    assert caller.http.get("/v1/events").json()["code"] == "tenant_not_active"
    staff.done("POST", f"{path}/resume")
    staff.done("POST", f"{path}/offboard", {"reason": "left"})
    refused = caller.send("POST", "/v1/resources", {"n": 1})
    assert (refused.status_code, refused.json()["code"]) == (403, "tenant_not_active")
    assert staff.send("POST", f"{path}/delete", {"reason": "left"}).status_code == 409
    export = staff.done("POST", f"{path}/export")["export_id"]
    other = tenancy.tenant()
    kept = other.done("POST", "/v1/resources", {"mark": "shredded"}, key="kept")
    staff.done("POST", f"/v1/tenants/{other.name}/keys/rotate")
    again = other.send("POST", "/v1/resources", {"mark": "shredded"}, "kept")
    assert (again.status_code, again.headers["Idempotency-Replayed"]) == (201, "true")
    assert other.send("POST", "/v1/resources", {"mark": "guessed"}, "kept").json()["code"] == "key_reused"
    guess = identity.request_hash(CREATE_RESOURCE, other.name, {"document": {"mark": "shredded"}, "path_id": None})
    assert tenancy.system.rows("select count(*) from idempotency where request_hash = %s", guess) == [(0,)]
    exported = tenancy.export(other)
    with tenancy.mover():
        tenancy.becomes(path, "exported")
        content = f"{path}/exports/{export}/content"
        dsn = tenancy.system.settings.addresses().postgres_superuser_dsn
        with psycopg.connect(dsn) as connection:
            connection.execute("lock table tenant_export_part in access exclusive mode")
            away = staff.http.get(content)
        assert (away.status_code, away.json()["code"]) == (503, "unavailable")
        lines = staff.http.get(content).text.splitlines()
        assert len(lines) == 1
        assert "a mark to find" in lines[0]
        with psycopg.connect(dsn) as connection:
            connection.execute("delete from tenant_export_part where export_id = %s", (export,))
        half = staff.http.get(content)
        assert (half.status_code, half.json()["code"]) == (404, "not_found")
        staff.done("POST", f"{path}/delete", {"reason": "left"})
        deleted = tenancy.becomes(path, "deleted")
        assert tenancy.shredded(other, exported) > PROVED
    assert staff.get(f"{path}/certificates/{deleted['certificate_id']}")["kind"] == "deletion"
    support = Caller(tenancy.system, "m_support", "merchant", ("support",))
    asked = support.send("POST", f"{path}/support_grants", {"reason": "a look", "ticket": "T-1"})
    assert (asked.status_code, asked.json()["code"]) == (409, "state_conflict")
    support.http.close()
    retried = other.send("POST", "/v1/resources", {"mark": "shredded"}, "kept")
    read = [other.http.get(at) for at in ("/v1/resources", f"/v1/resources/{kept['resource_id']}")]
    for answer in (*read, staff.http.get(f"{exported}/content"), retried):  # one of each purpose
        assert (answer.status_code, answer.json()["code"]) == (410, "key_shredded")
    assert other.http.get(one).status_code == 404
    assert tenancy.broken_invariants() == {}


def test_a_tenant_whose_keys_are_destroyed_is_deleted_without_an_export(tenancy: Tenancy) -> None:
    """Nobody can make one: what was asked for before ends, too."""
    caller, staff = tenancy.tenant(), tenancy.staff
    caller.done("POST", "/v1/resources", {"mark": "shredded"})
    path = f"/v1/tenants/{caller.name}"
    at = f"{path}/exports/{staff.done('POST', f'{path}/export')['export_id']}"
    staff.done("POST", f"{path}/keys/shred", {"reason": "asked for"})
    assert staff.send("POST", f"{path}/delete", {"reason": "left"}).status_code == 409  # it is active
    staff.done("POST", f"{path}/offboard", {"reason": "left"})
    becomes(lambda: staff.http.get(f"{at}/content").json()["code"], "key_shredded", 10)
    assert staff.send("POST", f"{path}/export").json()["code"] == "key_shredded"
    with tenancy.mover():
        assert tenancy.becomes(at, "failed")["sha256"] is None
        staff.done("POST", f"{path}/delete", {"reason": "left"})
        deleted = tenancy.becomes(path, "deleted")
    assert staff.get(f"{path}/certificates/{deleted['certificate_id']}")["kind"] == "deletion"
    assert tenancy.broken_invariants() == {}


@pytest.mark.faults
@pytest.mark.parametrize("holder", matrix(("frozen", "killed"), "frozen".__eq__))
def test_a_shred_is_certified_once_a_process_that_acknowledges_nothing_has_no_lease_any_more(
    tenancy: Tenancy, holder: Literal["frozen", "killed"]
) -> None:
    """It has the key in hand, and its answer waits for a row: going on, it opens nothing."""
    mark = "what only the key tells"
    seen = over_a_shred(tenancy, mark, holder)
    assert seen.lease_had_ended, "it was signed while the lease went on"
    acknowledged, ended = seen.holders
    assert (acknowledged > 0, ended > 0) == (True, True)
    assert [(a.status_code, a.json().get("code"), mark in a.text) for a in seen.answers] == [
        (410, "key_shredded", False)
    ] * 2


def test_a_key_that_is_away_is_never_told_as_destroyed_and_serves_again_when_it_is_back(tenancy: Tenancy) -> None:
    """Its root key, another one under that name, a row that is lost: 503 for that tenant's payloads, and nothing else."""
    caller, other = tenancy.tenant(), tenancy.tenant()
    made = caller.done("POST", "/v1/resources", {"mark": "kept"}, key="kept")
    gone = caller.done("POST", "/v1/resources", {"mark": "gone"})
    beside = other.done("POST", "/v1/resources", {"mark": "beside"})
    one, path = f"/v1/resources/{made['resource_id']}", f"/v1/tenants/{caller.name}"
    away = (
        b"update tenant_key set root_key_id = 'rk_away' where tenant_id = %s",
        b"update tenant_key set wrapped = reverse(wrapped) where tenant_id = %s",
        b"delete from tenant_key where tenant_id = %s",
    )
    back = b"""insert into tenant_key select * from kept_key on conflict (tenant_id, key_version)
               do update set root_key_id = excluded.root_key_id, wrapped = excluded.wrapped"""
    dsn = tenancy.system.settings.addresses().postgres_superuser_dsn
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(
            "create temp table kept_key as select * from tenant_key where tenant_id = %s", (caller.name,)
        )
        for n, how in enumerate(away):
            connection.execute(how, (caller.name,))
            becomes(lambda: caller.http.get(one).json().get("code"), "unavailable", 10)
            for answer in (
                caller.http.get("/v1/resources"),
                caller.send("POST", "/v1/resources", {"mark": "new"}, f"away {n}"),
                caller.send("POST", "/v1/resources", {"mark": "kept"}, "kept"),
            ):
                assert (answer.status_code, answer.json()["code"]) == (503, "unavailable"), answer.text
            assert other.get(f"/v1/resources/{beside['resource_id']}")["payload"] == {"mark": "beside"}
            assert tenancy.staff.get(path)["state"] == "active"
            if n == 0:
                assert caller.done("DELETE", f"/v1/resources/{gone['resource_id']}", version=1)["deleted"]
            assert n < len(away) - 1 or tenancy.staff.send("POST", f"{path}/keys/rotate").status_code == 503
            connection.execute(back)
            becomes(lambda: caller.http.get(one).json().get("payload"), {"mark": "kept"}, 10)
    again = caller.send("POST", "/v1/resources", {"mark": "kept"}, "kept")
    assert (again.status_code, again.headers["Idempotency-Replayed"]) == (201, "true")
    assert list(caller.resources()) == [made["resource_id"]]
    assert tenancy.broken_invariants() == {}


def test_who_asks_is_in_the_token_alone(tenancy: Tenancy) -> None:
    caller, stranger = tenancy.tenant(), tenancy.tenant()
    made = caller.done("POST", "/v1/resources", {"n": 1})
    one = f"/v1/resources/{made['resource_id']}"
    for name in ("tenant", "tenant_id", "tenantid"):
        assert caller.send("POST", "/v1/resources", {name: caller.name}).status_code == 400
        assert caller.http.get(one, params={name: caller.name}).status_code == 400
    assert caller.http.get(one, headers={"X-Tenant-Id": caller.name}).status_code == 400
    for method in ("GET", "PUT", "DELETE"):
        answers = []
        for path in (one, f"/v1/resources/rs_{made['resource_id'][:2:-1]}"):
            sent = stranger.http.get(path) if method == "GET" else stranger.send(method, path, {"n": 2}, version=1)
            answers.append((sent.status_code, sent.content))
        assert answers[0] == answers[1]
        assert answers[0][0] == 404
    assert caller.resources() == {made["resource_id"]: (1, {"n": 1})}
    assert stranger.http.get(f"/v1/tenants/{caller.name}").status_code == 404
    assert caller.http.get("/v1/tenants").status_code == 403


def test_each_invariant_finds_what_is_planted(tenancy: Tenancy) -> None:
    assert BY_SQL.keys() == set(INVARIANTS)
    caller = tenancy.tenant()
    caller.done("POST", "/v1/resources", {"n": 1})
    moved = "insert into tenant_migration (tenant_id, migration_id, state, source, target, from_generation, rows_per_second,"
    moved += " version, created_at, updated_at) values ('tn_x', 'mg_x', 'completed', 'a', 'b', 1, 1, 1, 1, 1)"
    with psycopg.connect(tenancy.system.settings.addresses().postgres_superuser_dsn) as connection:
        connection.execute(moved.replace("'tn_x'", f"'{caller.name}'").encode())
        for name, statement in (*BY_SQL.items(), *(("tenancy_sealed", planted) for planted in NOT_SEALED)):
            assert tenancy.found_by(connection, name) == []
            connection.execute("savepoint clean")
            connection.execute(statement.encode())
            assert tenancy.found_by(connection, name), name
            connection.execute("rollback to clean")
        connection.rollback()
