"""The life of a tenant at a shell, with ``millrace tenants`` alone: two persons, a mover, wrong words."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import uuid
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from ingress.identity.issuer import KeyFolder, issue_token
from reconciliation.tenancy.tenant_stores import capacities, declare
from schemas import errors
from schemas.tenancy import limits
from tests.eventually import becomes, eventually, patient
from tests.freezing import freeze
from tests.worlds.desk_world import DAY, MEMBER, OPEN, TODAY, Caller, an_event, zulu
from tests.worlds.public_system import system_of_its_own
from tests.worlds.tenancy_world import TRY_AGAIN, Tenancy

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.worlds.public_system import PublicSystem

pytestmark = [pytest.mark.servers]
NOBODY = "tn_" + "a" * 26


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PublicSystem]:
    home, processes = tmp_path_factory.mktemp("shell"), ("tenancy_owner", "tenancy_mover", "tenancy_metering")
    with system_of_its_own(home, services=("ingress",), ingress_processes=1, processes=processes) as made:
        yield made
        while OPEN:
            OPEN.pop().close()


class Person:
    """Somebody at a shell, with a token."""

    def __init__(self, system: PublicSystem, *scopes: str, tenant: str = "") -> None:
        keys, self.name = KeyFolder(system.settings.the_home().path / "keys"), f"s_{uuid.uuid4().hex[:8]}"
        kind: Any = "tenant" if tenant else "merchant"
        self.token = issue_token(keys, tenant or "m_ops", scopes, kind=kind, subject=self.name)
        self.environment = os.environ | system.settings.environment()

    def run(self, *words: str, typed: str = "") -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "tests.worlds.command_line", "tenants", *words]
        environment = self.environment | {"MILLRACE_TOKEN": self.token, "COLUMNS": "80"}
        done = subprocess.run(
            command, env=environment, input=typed, capture_output=True, text=True, check=False, timeout=patient(120)
        )
        assert not self.token or self.token not in done.stdout + done.stderr
        assert "Traceback" not in done.stderr, done.stderr
        return done

    def lines(self, *words: str) -> list[str]:
        done = self.run(*words)
        assert done.returncode == 0, done.stdout + done.stderr
        lines = done.stdout.splitlines()
        assert max(map(len, lines), default=0) <= 80, lines
        return lines

    def json(self, *words: str) -> dict[str, Any]:
        (line,) = self.lines_of_any_length(*words, "--json")
        found: dict[str, Any] = json.loads(line)
        return found

    def lines_of_any_length(self, *words: str) -> list[str]:
        done = self.run(*words)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.splitlines()

    def refused(self, *words: str, typed: str = "") -> tuple[int, str]:
        """Exit status and the one line that says why."""
        done = self.run(*words, typed=typed)
        assert done.returncode != 0, done.stdout
        *_, line = done.stderr.strip().splitlines()
        return done.returncode, line.removeprefix("millrace: ").partition(":")[0]


@pytest.mark.timeout(240)  # twenty commands of the shell
def test_the_life_of_a_tenant_at_a_shell(system: PublicSystem, tmp_path: Path) -> None:
    """Made once though the call is repeated, moved, billed, suspended, exported, deleted with a certificate."""
    ops, key = Person(system, "tenants:admin"), uuid.uuid4().hex
    words = ("create", "A shell's", "--quota", "resources=10", "--price", "tokens=0.5", "--idempotency-key", key)
    made = ops.json(*words)
    assert ops.json(*words) == made
    tenant = str(made["tenant_id"])
    assert (made["state"], made["quotas"], made["prices"]) == ("active", {"resources": 10}, {"tokens": "0.5"})
    asked = ops.run("create", "Another")
    assert asked.stderr.startswith("idempotency key ")
    member = Caller(system, tenant, "tenant", "u_1", MEMBER)
    kept = [member.done("POST", "/v1/resources", {"n": n}) for n in range(5)]
    assert member.meter([an_event("e", 30)]) == 202
    becomes(lambda: member.used("tokens"), [(30, 1)])

    assert ops.json("change", tenant, "--quota", "resources=20")["quotas"] == {"resources": 20}
    assert ops.refused("change", tenant, "--tier", "enterprise", "--expected-version", "1") == (1, "version_conflict")
    moves_and_comes_back(ops, tenant)
    is_billed(ops, Person(system, *MEMBER, tenant=tenant), tenant, tmp_path)

    assert ops.lines("suspend", tenant, "--mode", "read_only", "--reason", "unpaid") == [
        f"{tenant} is suspended (read_only)"
    ]
    assert ops.lines("resume", tenant) == [f"{tenant} is active"]
    assert ops.refused("resume", tenant) == (1, "state_conflict")
    assert ops.refused("delete", tenant, "--reason", "r", "--yes") == (1, "state_conflict")
    assert ops.lines("offboard", tenant, "--reason", "over") == [f"{tenant} is offboarding"]
    file = tmp_path / "export.ndjson"
    export = ops.json("export", tenant, "--output", str(file))
    assert hashlib.sha256(file.read_bytes()).hexdigest() == export["sha256"]
    assert ops.lines("exports", tenant)[1].split()[:2] == [export["export_id"], "ready"]
    assert {json.loads(line)["resource_id"] for line in file.read_text().splitlines()} == {
        one["resource_id"] for one in kept
    }
    assert ops.refused("delete", tenant, "--reason", "over", typed="Another\n") == (1, "that is not its name")
    assert ops.refused("delete", tenant, "--reason", "over") == (1, "that is not its name")
    assert ops.json("show", tenant)["state"] == "exported"
    changes = ops.lines("history", tenant)
    newest = ops.json("history", tenant)["data"][0]
    assert changes[0].startswith(f"version {newest['version']}  "), changes
    assert any(f"{ops.name} as m_ops" in line for line in changes), changes
    assert any(line.split() == ["state", newest["changed"]["state"]["from"], "->", "exported"] for line in changes), (
        changes
    )
    done = ops.run("delete", tenant, "--reason", "over", typed="A shell's\n")
    certificate = done.stdout.split()[-1]
    assert done.stdout == f"{tenant} is deleted\ncertificate {certificate}\n"
    assert ops.json("certificate", tenant, certificate)["kind"] == "deletion"
    assert ops.lines("delete", tenant, "--reason", "over") == [
        f"{tenant} is deleted",
        f"certificate {certificate}",
    ]


def moves_and_comes_back(ops: Person, tenant: str) -> None:
    """Watched to its end, refused where its state is another, and back."""
    *_, looks, _ = lines = ops.lines("move", tenant, "--to", "partitioned", "--rows-per-second", "1000", "--watch")
    move = next(line.split()[0] for line in lines if line.startswith("mg_"))
    assert f"{move} is soaking" in lines
    assert looks.startswith("writes waited ")
    assert any(line.startswith("soaking      5/5 copied  5 equal  0 not  ") for line in lines)
    shown = ops.json("move-show", tenant, move)
    assert (shown["state"], shown["fenced"], shown["resources"]) == ("soaking", False, 5)
    assert shown["source_digest"] == shown["target_digest"] != None  # noqa: E711 - both sides were summed
    assert ops.refused("move", tenant, "--to", "dedicated") == (1, "state_conflict")
    assert ops.refused("move-abort", tenant, move) == (1, "state_conflict")
    assert ops.refused("move-show", tenant, "mg_1") == (1, "not_found")
    assert f"{move} is rolled_back" in ops.lines("move-rollback", tenant, move, "--watch")
    assert ops.run("move-show", tenant, move, "--watch").returncode == 1  # it is not where it was moved to
    head, row = ops.lines("moves", tenant)
    assert (head.split()[0], row.split()[:2]) == ("migration_id", [move, "rolled_back"])


def is_billed(ops: Person, member: Person, tenant: str, folder: Path) -> None:
    """Once; the invoice is read by staff and its tenant, its bytes are those that are made again."""
    period = ("--from", zulu(TODAY - DAY), "--to", zulu(TODAY))
    credit = ops.json("credit", tenant, "--amount", "4", "--reason", "an outage")
    said, invoice = ops.lines("bill", tenant, *period, "--grace-s", "0", "--wait")
    (run,) = ops.json("bills", tenant)["data"]
    assert (said, invoice) == (f"{run['billing_run_id']} is finalized", f"invoice {run['invoice_id']}")
    assert ops.lines("bills", tenant)[1].split()[:2] == [run["billing_run_id"], "finalized"]
    assert ops.refused("bill", tenant, *period) == (1, "state_conflict")
    invoice = str(run["invoice_id"])
    lines = ops.lines("invoice", invoice)
    assert [line.split()[:1] + line.split()[-2:] for line in lines[-2:]] == [
        ["usage", "15", "tokens"],
        ["credit", "-4", "-"],
    ]
    assert ops.json("invoice", invoice)["payment"]["state"] == "unpaid"
    document, again = folder / "invoice.json", folder / "again.json"
    ops.lines("invoice", invoice, "--document", "-o", str(document))
    ops.lines("invoice", invoice, "--document", "--recompute", "-o", str(again))
    assert json.loads(document.read_bytes())["total"] == 11
    assert document.read_bytes() == again.read_bytes() == member.run("invoice", invoice, "--document").stdout.encode()
    assert ops.lines("entries", tenant)[1].startswith(str(credit["entry_id"]))
    for command, id_ in (("bills", run["billing_run_id"]), ("entries", credit["entry_id"])):
        told = ops.lines(command, tenant, "--who")[1].split()
        assert (told[0], told[-2:]) == (id_, ["m_ops", ops.name])
    used = member.json("usage", "--dimension", "tokens", *period)["data"]
    assert [(row["quantity"], row["events"]) for row in used] == [(30, 1)]
    assert ops.refused("usage", "--dimension", "tokens", *period) == (1, "forbidden")
    assert ops.refused("invoice", "in_1") == (1, "not_found")


def test_two_persons_give_support_access_at_a_shell(system: PublicSystem, tmp_path: Path) -> None:
    ops, asks, allows = Person(system, "tenants:admin"), Person(system, "support"), Person(system, "support:approve")
    tenant = str(ops.json("create", "Helped", "--tier", "enterprise")["tenant_id"])
    member = Person(system, *MEMBER, tenant=tenant)
    words = ("grant-ask", tenant, "--reason", "a report is empty", "--ticket", "T-1")
    begins = "2026-01-01T00:00:00Z"
    asked = asks.json(*words, "--scope", "resources:read", "--duration-s", "600", "--not-before", begins)
    grant = str(asked["grant_id"])
    assert asked["not_before"] == begins
    assert asks.refused("grant-approve", tenant, grant) == (1, "forbidden")
    assert allows.refused("grant-ask", tenant, "--reason", "r", "--ticket", "T") == (1, "forbidden")
    assert asks.refused("grant-token", tenant, grant, "-o", str(tmp_path / "t")) == (1, "grant_inactive")
    assert allows.lines("grant-approve", tenant, grant) == [f"{grant} is approved; the tenant has to consent"]
    assert ops.refused("grant-consent", tenant, grant) == (1, "forbidden")
    line, less = member.lines("grant-consent", tenant, grant, "--duration-s", "300", "--mask", "email")
    assert line.startswith(f"{grant} is active until ")
    assert less == "the tenant consented to 300 of 600 s, with 1 more masks"
    file = tmp_path / "support.token"
    asks.json("grant-token", tenant, grant, "--output", str(file))
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.read_text().count(".") == 2
    assert allows.refused("grant-review", tenant, grant, "--findings", "f") == (1, "state_conflict")
    assert member.lines("grant-revoke", tenant, grant)[:1] == [f"{grant} is revoked"]
    assert allows.lines("grant-review", tenant, grant, "--findings", "nothing was read")[:1] == [f"{grant} is reviewed"]

    both, third = Person(system, "support", "support:approve"), Person(system, "support:approve")
    glass = str(both.json(*words, "--break-glass")["grant_id"])
    assert both.refused("grant-approve", tenant, glass) == (1, "four_eyes_required")
    assert allows.lines("grant-approve", tenant, glass) == [f"{glass} is requested; one more person approves it"]
    assert third.lines("grant-approve", tenant, glass)[0].startswith(f"{glass} is active until ")
    assert third.refused("grant-deny", tenant, glass) == (1, "state_conflict")
    rows = [line.split()[:3] for line in ops.lines("grants", tenant)[1:]]
    assert rows == [[glass, "active", "yes"], [grant, "reviewed", "no"]]
    assert ops.json("grant-show", tenant, glass)["approvers"] == [allows.name, third.name]

    log = ops.json("audit", tenant)
    assert (log["whole"], log["rows"], ops.run("audit", tenant, "--noted", log["head"]).returncode) == (True, 1, 0)
    with psycopg.connect(system.settings.addresses().postgres_superuser_dsn, autocommit=True) as connection:
        connection.execute("update tenant_audit set actor = 's_else' where tenant_id = %s", (tenant,))
    changed = ops.run("audit", tenant)
    assert (changed.returncode, changed.stdout.startswith("broken at row 1: ")) == (1, True)


def test_keys_are_rotated_and_destroyed_at_a_shell(system: PublicSystem) -> None:
    ops = Person(system, "tenants:admin")
    tenant = str(ops.json("create", "Sealed", "--mode", "partitioned", "--wait")["tenant_id"])
    assert ops.lines("keys-rotate", tenant) == [f"{tenant} seals with key version 2"]
    assert [line.split() for line in ops.lines("keys", tenant)[1:]] == [
        ["1", "decrypt_only", "-"],
        ["2", "active", "-"],
    ]
    assert ops.refused("keys-shred", tenant, "--reason", "T-9") == (1, "that is not its name")
    *_, line = ops.lines("keys-shred", tenant, "--reason", "T-9", "--yes")
    assert ops.json("certificate", tenant, line.split()[-1])["kind"] == "key_shred"
    assert ops.refused("keys-rotate", tenant) == (1, "key_shredded")


def test_wrong_words_are_one_line_and_an_exit_status(system: PublicSystem) -> None:
    ops, other = Person(system, "tenants:admin"), Person(system, "support")
    for words in (("resume", NOBODY), ("keys", NOBODY), ("moves", NOBODY), ("delete", NOBODY, "--reason", "r")):
        assert ops.refused(*words) == (1, "not_found"), words
    for words in (("create", "B"), ("keys", NOBODY), ("move", NOBODY, "--to", "dedicated")):
        assert other.refused(*words) == (1, "forbidden"), words
    assert ops.refused("create", "B", "--timezone", "Mars/Base") == (1, "invalid_command")
    ops.token = "no token of ours"
    assert ops.refused("resume", NOBODY) == (1, "this is no token")
    ops.token = "x.y.z"
    assert ops.refused("resume", NOBODY) == (1, "unauthenticated")
    ops.token = ""  # as if the variable was never set
    done = ops.run("resume", NOBODY)
    assert (done.returncode, "--token" in done.stderr) == (2, True)


def test_what_stores_hold_and_may_is_said_at_a_shell(system: PublicSystem) -> None:
    ops = Person(system, "tenants:admin")
    assert ops.lines("store", "tenancy_pool", "--tenants", "70000", "--bytes", "9000000000")[0].endswith(
        "of 70,000 tenants, and 9,000,000,000 bytes"
    )
    told = {row["store"]: row for row in ops.json("stores")["data"]}
    assert [(told[name]["mode"], told[name]["has_room"]) for name in ("tenancy_pool", "schemas", "databases")] == [
        ("pooled", True),
        ("partitioned", True),
        ("dedicated", True),
    ]
    assert (told["tenancy_pool"]["tenants_max"], told["tenancy_pool"]["bytes_max"]) == (70_000, 9_000_000_000)
    assert ops.lines("stores")[0].split()[:3] == ["store", "tenants", "tenants_max"]
    said = ops.json("store", "tenancy_pool", "--tenants", "default", "--bytes", "none")
    assert (said["tenants_max"], said["bytes_max"]) == (limits.STORE_TENANTS_MAX["pooled"], None)
    assert ops.refused("store", "elsewhere", "--tenants", "1") == (1, "there is no store elsewhere")
    assert ops.refused("store", "tenancy_pool", "--tenants", "many")[0] == 2


def test_no_store_takes_more_tenants_than_it_may_and_a_further_one_takes_the_next(system: PublicSystem) -> None:
    """Exactly as many as there are places, though owners of all partitions decide at once; a refusal is not kept."""
    tenancy = Tenancy(system)
    first = tenancy.tenant()
    first.done("POST", "/v1/resources", {"n": 1})
    dsns = system.settings.addresses().postgres_dsns

    def create(n: int) -> tuple[int, str]:
        def ask() -> tuple[int, str] | None:
            answer = tenancy.staff.send("POST", "/v1/tenants", {"name": "A tenant"}, f"place{n}")
            found = answer.json()
            said = found.get("code") or found["result"]["placement"]["shard_or_database"]
            return None if answer.status_code in TRY_AGAIN else (answer.status_code, said)

        return eventually(ask, 60)

    with psycopg.connect(dsns["millrace_operator"], autocommit=True) as operator:
        try:
            used = {row["store"]: row["tenants"] for row in capacities(operator)}
            declare(operator, "tenancy_pool", {"tenants_max": used["tenancy_pool"] + 3})
            declare(operator, "databases", {"tenants_max": used["databases"]})
            with ThreadPoolExecutor(8) as pool:
                answers = list(pool.map(create, range(12)))
            assert Counter(answers) == {(201, "tenancy_pool"): 3, (409, "placement_full"): 9}
            path = f"/v1/tenants/{first.name}/migrations"
            refused = tenancy.staff.send("POST", path, {"placement": {"mode": "dedicated"}}).json()
            full = {"mode": "dedicated", "used": used["databases"], "capacity": used["databases"]}
            assert {name: refused.get(name) for name in ("code", *full)} == {"code": "placement_full"} | full
            assert tenancy.staff.get(path)["data"] == []
            with pytest.raises(errors.StateConflict):
                declare(operator, "pl_pool_home", {"tenants_max": 1})
            declare(operator, "tenancy_pool_2", {"tenants_max": 2})
            eventually(lambda: {r["store"]: r["has_room"] for r in capacities(operator)}["tenancy_pool_2"], 60)
            again = answers.index((409, "placement_full"))
            assert create(again) == (201, "tenancy_pool_2")
            move = tenancy.staff.done("POST", path, {"placement": {"mode": "pooled"}})
            tenancy.becomes(f"{path}/{move['migration_id']}", "soaking")
            first.done("POST", "/v1/resources", {"n": 2})
            assert sorted(payload["n"] for _, payload in first.resources().values()) == [1, 2]
            eventually(lambda: all(row["bytes"] is not None for row in capacities(operator)), 90)
            assert {row["store"]: row["tenants"] for row in capacities(operator)}["tenancy_pool_2"] == 2
            assert create(answers.index((409, "placement_full"), again + 1)) == (409, "placement_full")
            tenancy.staff.done("POST", f"{path}/{move['migration_id']}/complete")
            tenancy.becomes(f"{path}/{move['migration_id']}", "completed")
        finally:
            for store in ("tenancy_pool", "databases"):
                declare(operator, store, {"tenants_max": None})
            tenancy.close()
        assert tenancy.found_by(operator, "tenancy_stores_counted") == []
    assert tenancy.broken_invariants() == {}


def test_root_keys_are_changed_while_tenants_are_served(system: PublicSystem) -> None:
    """All keys are wrapped anew behind it, though the mover is killed; one that does not open stays as it is and is told."""
    ops = Person(system, "tenants:admin")
    tenant = str(ops.json("create", "Wrapped")["tenant_id"])
    member = Caller(system, tenant, "tenant", "u_1", MEMBER)
    path = f"/v1/resources/{member.done('POST', '/v1/resources', {'n': 1})['resource_id']}"
    with psycopg.connect(system.settings.addresses().postgres_superuser_dsn, autocommit=True) as connection:
        connection.execute("insert into tenant_key values ('tn_', 1, 'rk_away', '\\x00', 'active', 0)")

    def wraps() -> dict[str, tuple[str, int]]:
        return {row["root_key_id"]: (row["state"], row["wraps"]) for row in ops.json("root-keys")["data"]}

    ((old, (state, keys)), away) = wraps().items()
    assert (state, away) == ("wraps", ("rk_away", ("not at hand", 1)))
    (new,) = ops.lines("root-keys-prepare")
    assert wraps()[new] == ("prepared", 0)
    assert ops.refused("root-keys-prepare") == (1, "A root key is prepared already")
    (mover,) = system.pids("tenancy_mover")
    freeze(mover)
    assert ops.lines("root-keys-rotate") == [new]
    assert ops.refused("root-keys-remove", old) == (1, f"{old} wraps {keys} keys of tenants")
    os.kill(mover, signal.SIGKILL)
    becomes(wraps, {old: ("unwraps", 0), new: ("wraps", keys), **dict([away])}, 60)
    assert ops.lines("root-keys")[0].split() == [old, "unwraps", "0"]
    assert ops.lines("root-keys-remove", old) == [old]
    later = str(ops.json("create", "Later")["tenant_id"])
    assert wraps()[new] == ("wraps", keys + 1)
    assert member.http.get(path).json()["payload"] == {"n": 1}
    of_later = Caller(system, later, "tenant", "u_1", MEMBER)
    assert of_later.done("POST", "/v1/resources", {"n": 2})["version"] == 1
    with psycopg.connect(system.settings.addresses().postgres_dsns["millrace_operator"]) as connection:
        told = connection.execute(
            "select action, outcome from audit_log where action like 'tenancy.root_keys.%'"
            " and action <> 'tenancy.root_keys.list' order by seq"
        ).fetchall()
    assert told == [
        (f"tenancy.root_keys.{what}", outcome)
        for what, last in (
            ("prepare", "done"),
            ("prepare", "refused"),
            ("rotate", "done"),
            ("remove", "failed"),
            ("remove", "done"),
        )
        for outcome in ("begun", last)
    ]
