"""Tenants as their members see them, while owners and movers die: quotas are exact, moves lose and double nothing."""

from __future__ import annotations

import os
import signal
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from tests.eventually import becomes, eventually, patient
from tests.gate import matrix
from tests.worlds.public_system import system_of_its_own
from tests.worlds.tenancy_world import INVARIANTS, Caller, Tenancy

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.servers]
POINTS = ("move_after_page", "move_before_commit", "move_after_commit")
Ledger = dict[str, tuple[int, Any]]


@pytest.fixture(scope="module")
def tenancy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tenancy]:
    processes = ("tenancy_owner",)
    home = tmp_path_factory.mktemp("tenancy")
    with system_of_its_own(home, services=("ingress",), ingress_processes=1, processes=processes) as made:
        found = Tenancy(made)
        yield found
        found.close()


def write(caller: Caller, ledger: Ledger, count: int) -> None:
    """Creates, and of every three one is replaced and one is deleted."""
    for n in range(count):
        made = caller.done("POST", "/v1/resources", {"n": n, "text": "\u00e9 \u2028"})
        path = f"/v1/resources/{made['resource_id']}"
        if n % 3 == 1:
            made = caller.done("PUT", path, {"n": n, "again": True}, version=1)
        if n % 3 == 2:
            assert caller.done("DELETE", path, version=1)["deleted"]
        else:
            ledger[made["resource_id"]] = (made["version"], made["payload"])


@pytest.mark.parametrize("point", matrix(POINTS, "move_before_commit".__eq__))
def test_a_move_goes_on_when_its_mover_is_killed_and_back_when_it_is_told(tenancy: Tenancy, point: str) -> None:
    """What was acknowledged is served throughout, retries get their stored answers, nothing deleted returns."""
    caller, ledger = tenancy.tenant(), {}
    write(caller, ledger, 9)
    first = caller.send("POST", "/v1/resources", {"kept": 1}, "over the cutover")
    ledger[first.json()["result"]["resource_id"]] = (1, {"kept": 1})
    path = f"/v1/tenants/{caller.name}"
    move = tenancy.staff.done("POST", f"{path}/migrations", {"placement": {"mode": "dedicated"}})
    second = tenancy.staff.send("POST", f"{path}/migrations", {"placement": {"mode": "partitioned"}})
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
        placed = tenancy.staff.get(path)["placement"]
        assert (placed["mode"], placed["generation"], placed["placement_id"]) == ("dedicated", 2, moved["target"])
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
        assert tenancy.staff.send("POST", f"{slow}/rollback").status_code == 409
        asked["rows_per_second"] = 10_000
        quick = f"{path}/migrations/{tenancy.staff.done('POST', f'{path}/migrations', asked)['migration_id']}"
        tenancy.becomes(quick, "soaking")
        tenancy.staff.done("POST", f"{quick}/complete")
        tenancy.becomes(quick, "completed")
    assert caller.resources() == ledger
    left = "select count(*) from tenancy_pool.resource where tenant_id = %s"
    assert tenancy.system.rows(left, caller.name) == [(0,)]
    assert tenancy.broken_invariants() == {}


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
    kept = other.done("POST", "/v1/resources", {"mark": "shredded"})
    with tenancy.mover():
        tenancy.becomes(path, "exported")
        lines = staff.http.get(f"{path}/exports/{export}/content").text.splitlines()
        assert len(lines) == 1
        assert "a mark to find" in lines[0]
        staff.done("POST", f"{path}/delete", {"reason": "left"})
        deleted = tenancy.becomes(path, "deleted")
        staff.done("POST", f"/v1/tenants/{other.name}/keys/shred", {"reason": "asked for"})
        keys = f"/v1/tenants/{other.name}/keys"
        eventually(lambda: staff.get(keys)["certificate_id"], 30)
    assert staff.get(f"{path}/certificates/{deleted['certificate_id']}")["kind"] == "deletion"
    for answer in (other.http.get("/v1/resources"), other.http.get(f"/v1/resources/{kept['resource_id']}")):
        assert (answer.status_code, answer.json()["code"]) == (410, "key_shredded")
    assert other.http.get(one).status_code == 404
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


PLANTED = {
    "tenancy_quotas_counted": "update quota_usage set used = used + 1",
    "tenancy_rows_at_heads": "delete from tenancy_pool.resource",
    "tenancy_gates": "update tenancy.gate set generation = generation + 1",
    "tenancy_keys": "update tenant_key set state = 'decrypt_only' where state = 'active'",
    "tenancy_deleted_is_empty": "update tenant set state = 'deleted' where state = 'active'",
    "tenancy_moves": "update tenant_migration set fenced = true",
}


def test_each_invariant_finds_what_is_planted(tenancy: Tenancy) -> None:
    assert PLANTED.keys() == set(INVARIANTS)
    caller = tenancy.tenant()
    caller.done("POST", "/v1/resources", {"n": 1})
    moved = "insert into tenant_migration (tenant_id, migration_id, state, source, target, from_generation, rows_per_second,"
    moved += " version, created_at, updated_at) values ('tn_x', 'mg_x', 'completed', 'a', 'b', 1, 1, 1, 1, 1)"
    with psycopg.connect(tenancy.system.settings.addresses().postgres_superuser_dsn) as connection:
        connection.execute(moved.replace("'tn_x'", f"'{caller.name}'").encode())
        for name, statement in PLANTED.items():
            assert tenancy.found_by(connection, name) == []
            connection.execute("savepoint clean")
            connection.execute(statement.encode())
            assert tenancy.found_by(connection, name), name
            connection.execute("rollback to clean")
        connection.rollback()
