"""The audit log on a real Postgres: whatever is done to its rows is found, and named."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import psycopg
import pytest

from compose.cli.credentials import keys
from compose.operator_access import shell_user
from reconciliation.audit.log import append, audited, entries
from reconciliation.audit.verify import Verdict, verify
from schemas.errors import StateConflict
from tests.integration.operator_shell import Operator
from tests.worlds.payments.settlement_world import SettlementWorld, settlement_world

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.servers import World

pytestmark = pytest.mark.servers

ROWS = 6
ODD = "Ä \u2028 ,7:x, \U0001f600 '\" \\"
UNLOCKED = "alter table audit_log disable trigger user"


@pytest.fixture
def world(stack: World) -> Iterator[SettlementWorld]:
    with settlement_world(stack.settings) as made:
        yield made


def written(world: SettlementWorld) -> Verdict:
    """A few rows with texts that are hard to hash alike, and the verdict on them."""
    with world.operator() as connection:
        for n in range(ROWS):
            append(connection, f"ann {ODD}", "case.read", f"case_{n}", "done", number=n, text=ODD, big=2**63)
        return verify(connection)


def verdict(world: SettlementWorld, noted: tuple[int, str] | None = None) -> Verdict:
    with world.operator() as connection:
        return verify(connection, noted)


def test_what_was_written_is_whole(world: SettlementWorld) -> None:
    assert verdict(world) == Verdict(rows=0, head="00" * 32)
    found = written(world)
    assert (found.rows, found.broken_seq) == (ROWS, None)
    ((head,),) = world.sql("select encode(hash, 'hex') from audit_head")
    assert found.head == head
    assert verdict(world, (ROWS, found.head)).broken_seq is None


@pytest.mark.parametrize(
    ("statement", "broken"),
    [
        ("update audit_log set actor = 'bob' where seq = 3", 3),
        ("update audit_log set at = at + interval '1 microsecond' where seq = 3", 3),
        ("update audit_log set outcome = 'refused' where seq = 3", 3),
        ("update audit_log set db_role = 'postgres' where seq = 3", 3),
        ("update audit_log set details = details || '{\"number\": 7}' where seq = 3", 3),
        ("update audit_log set action = 'case.rea', object = 'd' || object where seq = 3", 3),
        ("update audit_log set hash = sha256(hash) where seq = 3", 3),
        ("delete from audit_log where seq = 3", 4),
        ("delete from audit_log where seq = 1", 2),
        ("delete from audit_log where seq = 6", 6),
        ("delete from audit_log", 1),
        ("insert into audit_log select 0, at, actor, db_role, action, object, outcome, details, prev_hash, hash"
         " from audit_log where seq = 1", 0),
        ("insert into audit_log select 7, at, actor, db_role, action, object, outcome, details, hash, sha256(hash)"
         " from audit_log where seq = 6", 7),
        ("update audit_log set seq = case seq when 3 then -4 else -3 end where seq in (3, 4);"
         " update audit_log set seq = -seq where seq < 0", 3),
        ("delete from audit_log where seq = 3; update audit_log set seq = -seq + 1 where seq > 3;"
         " update audit_log set seq = -seq where seq < 0", 3),
    ],
)  # fmt: skip
def test_whatever_is_done_to_a_row_is_found(world: SettlementWorld, statement: str, broken: int) -> None:
    """Changed, deleted (also at the end), inserted and reordered, by somebody whom no trigger stops."""
    written(world)
    world.sql(UNLOCKED)
    for part in statement.split(";"):
        world.sql(part)
    found = verdict(world)
    assert (found.broken_seq, bool(found.reason)) == (broken, True)


def test_a_chain_that_was_made_anew_is_found_by_a_noted_head(world: SettlementWorld) -> None:
    """A superuser can rewrite rows and head alike; what was noted elsewhere he cannot."""
    noted = written(world)
    world.sql("alter table audit_head disable trigger user")
    world.sql(UNLOCKED)
    world.sql("truncate audit_log")
    world.sql("update audit_head set seq = 0, hash = decode(repeat('00', 32), 'hex')")
    with world.operator() as connection:
        for n in range(ROWS):
            append(connection, "bob", "case.read", f"case_{n}", "done")
    assert verdict(world).broken_seq is None
    assert verdict(world, (noted.rows, noted.head)).broken_seq == ROWS
    assert verdict(world, (ROWS + 1, noted.head)).reason == "the noted row is missing"


def test_many_append_at_once_and_the_chain_is_one(world: SettlementWorld) -> None:
    together = threading.Barrier(8)

    def write(number: int) -> None:
        with world.operator() as connection:
            together.wait()
            for n in range(20):
                append(connection, f"person_{number}", "case.read", str(n), "done")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(8)))
    assert (verdict(world).rows, verdict(world).broken_seq) == (160, None)
    ((count, in_order),) = world.sql(
        "select count(*), bool_and(at >= before) from (select at, lag(at, 1, at) over (order by seq) as before"
        " from audit_log) t"
    )
    assert (count, in_order) == (160, True)


def test_an_aborted_append_leaves_no_hole(world: SettlementWorld) -> None:
    written(world)
    with world.operator() as connection:
        with connection.transaction(force_rollback=True):
            append(connection, "ann", "case.read", "lost", "done")
        append(connection, "ann", "case.read", "kept", "done")
    assert (verdict(world).rows, verdict(world).broken_seq) == (ROWS + 1, None)


def _refuse_late(connection: psycopg.Connection) -> None:
    with audited(connection, "ann", "parked.retry", "place", note="n"):
        connection.execute("insert into repair_case (id, kind, reference) values ('c', 'k', 'r')")
        raise StateConflict


def test_what_is_refused_is_kept_and_what_it_did_is_not(world: SettlementWorld) -> None:
    with world.operator() as connection:
        with pytest.raises(StateConflict):
            _refuse_late(connection)
        with audited(connection, "ann", "parked.retry", "place", note="n"):
            pass
        rows = entries(connection, actor="ann", name="place", limit=10)
        assert [(row["seq"], row["outcome"], row["details"]) for row in rows] == [
            (1, "refused", {"note": "n", "code": "state_conflict"}),
            (2, "done", {"note": "n"}),
        ]
        assert entries(connection, actor="bob", limit=10) == []
        assert [row["seq"] for row in entries(connection, limit=1)] == [2]
    assert world.sql("select count(*) from repair_case") == [(0,)]


def test_no_role_changes_the_log(world: SettlementWorld) -> None:
    written(world)
    for statement in (
        "update audit_log set actor = 'x'",
        "delete from audit_log",
        "truncate audit_log",
        "delete from audit_head",
    ):
        with pytest.raises(psycopg.Error, match="append-only"):
            world.sql(statement)
        with world.operator() as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute(statement.encode())
    with world.operator() as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute("insert into audit_log select * from audit_log")


@pytest.mark.parametrize(
    ("words", "action", "outcome"),
    [
        ("checkpoints list", "checkpoint.list", "done"),
        ("checkpoints create mine --by somebody", "checkpoint.create", "done"),
        ("checkpoints show nothing", "checkpoint.read", "refused"),
        ("tenants list", "tenant.list", "done"),
        ("tenants list --after tn_none", "tenant.list", "refused"),
        ("tenants show tn_none", "tenant.read", "done"),
        ("tenants where tn_none", "tenant.where", "done"),
        ("tenants audit tn_none", "tenant.verify_audit", "refused"),
        ("tenants noisy", "tenant.noisy", "done"),
        ("tenants isolation", "isolation.read", "done"),
    ],
)
def test_what_an_operator_looks_at_is_in_the_log(stack: World, words: str, action: str, outcome: str) -> None:
    """Under the login name, whatever ``--by`` says."""
    Operator.of(stack.settings).run(*words.split())
    with psycopg.connect(stack.addresses.postgres_superuser_dsn) as connection:
        (newest,) = entries(connection, limit=1)
    assert (newest["actor"], newest["action"], newest["outcome"]) == (shell_user(), action, outcome)


def test_keys_that_were_being_replaced_when_it_was_interrupted_are_in_the_log(
    stack: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in Operator.of(stack.settings).environment().items():
        monkeypatch.setenv(name, value)

    class Interrupted:
        def rotate(self, **_: object) -> None:
            raise KeyboardInterrupt

    monkeypatch.setattr(keys, "_issuers", lambda: {"callers": Interrupted()})
    with pytest.raises(KeyboardInterrupt):
        keys.rotate(at_once=True)
    with psycopg.connect(stack.addresses.postgres_superuser_dsn) as connection:
        found = entries(connection, name="callers", limit=2)
    assert [(row["action"], row["outcome"]) for row in found] == [("keys.rotate", "begun"), ("keys.rotate", "failed")]
