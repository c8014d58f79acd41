"""``millrace check`` finds what was planted, names it, and says nothing about a sound history.

A check that cannot fail proves nothing, so every invariant has its own planted violation here.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from reconciliation import limits as reconciliation_limits
from reconciliation.check.acknowledged import acknowledged_violations
from reconciliation.check.invariant import invariants
from reconciliation.check.run import run_check
from reconciliation.contract.snapshot import parameters, snapshot
from reconciliation.payments.repair.lists import aged_cases_open
from schemas.payments import limits as payments_limits
from sinks import limits as sinks_limits
from sinks.postgres.sql_files import queries
from tests.eventually import eventually, patient
from tests.gate import examples, matrix
from tests.worlds.committed_world import publish_all
from tests.worlds.payments.planted_money import OTHER_MONEY, PLANTED_MONEY
from tests.worlds.payments.planted_violations import CAPTURED, OTHER_WAYS, PLANTED
from tests.worlds.payments.tampered_stores import CLICKHOUSE_TAMPERED, POSTGRES_TAMPERED
from tests.worlds.rolled_back import finding_after
from tests.worlds.sink_stage import Stage, cloned, new_stage, processor

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.servers import World

pytestmark = [pytest.mark.servers, pytest.mark.timeout(240)]
BROKEN, WAYS = PLANTED | PLANTED_MONEY, OTHER_WAYS + OTHER_MONEY
CROSS_STORE = queries("reconciliation.payments", "stores.sql")


@pytest.fixture(scope="module")
def sound(stack: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """A finished history: stored, published, in ClickHouse, and carried out by a processor."""
    with (
        new_stage(stack.settings, payments=60) as stage,
        processor(stage, tmp_path_factory.mktemp("book")) as stage.processor_url,
    ):
        stage.store_and_publish()
        stage.drain()
        with psycopg.connect(stage.dsn("millrace_operator"), autocommit=True) as connection:
            opened = aged_cases_open(connection)  # the history is older than the horizon
            pending = [c.payout.id for c in stage.world.commits if c.command.operation == "create_payout"][-1:]
            assert [case["reference"] for case in opened] == ["payout_in_transit:sim:USD", *pending]
            assert aged_cases_open(connection) == []
        yield stage


@pytest.fixture
def stage(sound: Stage) -> Iterator[Stage]:
    with cloned(sound) as copied:
        yield copied


def test_a_sound_history_has_no_gap(sound: Stage) -> None:
    report = sound.check()
    assert {f.id: (f.gaps, f.note) for f in report.invariants if f.gaps} == {}
    assert report.gaps == 0
    assert len(report.invariants) >= 20
    assert {"1", "2", "3", "4", "5", "6", "7", "8", "9", "11", "18", "19", "20"} <= {f.id for f in report.invariants}
    noted = {f.id: f.note for f in report.invariants}
    assert noted["18"] == f"compared {len(sound.world.commits)} events"
    succeeded = [a for a in sound.world.carried_out if a.payment_method == "tok_sim_approve"]
    assert noted["19"].startswith(f"{len(succeeded)} effects")
    json.dumps(report.as_object(), default=str)


def test_every_invariant_has_a_planted_violation() -> None:
    elsewhere = {"18", "19", "20", "sinks", "valkey_rules"}  # their other side is not in Postgres
    of_others = {i.id for i in invariants() if i.id.startswith(("tenancy_", "social_"))}  # beside their own tests
    assert BROKEN.keys() | elsewhere | of_others == {i.id for i in invariants()}


@pytest.mark.parametrize("identity", BROKEN)
def test_a_planted_violation_is_found(sound: Stage, identity: str) -> None:
    finding = finding_after(sound, identity, *BROKEN[identity])
    assert finding.gaps > 0
    assert finding.sample
    assert not finding.note.startswith("could not")


@pytest.mark.parametrize("way", WAYS, ids=[f"{way[0]}-{n}" for n, way in enumerate(WAYS)])
def test_other_ways_to_break_it_are_found(sound: Stage, way: tuple[str, *tuple[str, ...]]) -> None:
    identity, *statements = way
    finding = finding_after(sound, identity, *statements)
    assert finding.gaps > 0
    assert finding.sample


def test_what_a_program_outside_may_send_is_none(sound: Stage) -> None:
    sent = "update idempotency set sender = 'producer.erp' where operation = 'create_payment_intent'"
    assert finding_after(sound, "senders", sent).gaps == 0


def test_what_was_planted_is_gone(sound: Stage) -> None:
    """Else what one of the tests above found could be another's."""
    assert finding_after(sound, "1", *PLANTED["1"]).gaps > 0
    assert sound.finding("1").gaps == finding_after(sound, "1").gaps == 0


def test_a_check_that_cannot_run_is_a_gap(stage: Stage) -> None:
    stage.sql("drop table attempt_dispatch")
    report = stage.check("12", "1")
    assert [(f.id, f.gaps) for f in report.invariants] == [("1", 0), ("12", 1)]
    assert report.invariants[1].note.startswith("could not be evaluated")


def test_all_rows_are_counted_and_a_sample_is_shown(stage: Stage) -> None:
    stage.sql("update account_balance set debits = debits + 1")
    accounts = stage.value("select count(*) from account_balance")
    finding = stage.finding("4")
    assert accounts > reconciliation_limits.CHECK_SAMPLE_MAX
    assert finding.gaps == accounts
    assert len(finding.sample) == reconciliation_limits.CHECK_SAMPLE_MAX


def test_an_unknown_id_is_refused(sound: Stage) -> None:
    with pytest.raises(ValueError, match=r"no invariant 77; there are 1, 2"):
        sound.check("77")


# -- tables that are so young that nothing is known of them ------------------------------------------------------
NO_STATISTICS = (
    "set allow_system_table_mods = on",
    "delete from pg_statistic where starelid >= 16384",
    "update pg_class set reltuples = -1, relpages = 0, relallvisible = 0 where oid >= 16384 and relkind = 'r'",
)
COPIES = 5  # of every event: the planner's choice changes with the size of the files
GROWN = (
    f"""insert into outbox select topic, partition, seq + 1000 * n, event_id || ' again ' || n, aggregate_key, version, scope, payload,
        occurred_at from outbox, generate_series(1, {COPIES - 1}) n""",
    f"""insert into idempotency select merchant_id, key || ' again ' || n, request_hash, response, status, operation, request_id,
        aggregate_key, event_id || ' again ' || n, partition, "offset" * 10 + n, created_at
        from idempotency, generate_series(1, {COPIES - 1}) n""",
    "update idempotency set operation = 'update_payment_intent' where operation = 'cancel_payment_intent'",
)
_REMOVED = ("Rows Removed by Join Filter", "Rows Removed by Filter")


def rows_handled(plan: dict[str, Any]) -> float:
    """How many rows the steps of an executed plan gave or threw away."""
    own = (plan["Actual Rows"] + sum(plan.get(key, 0) for key in _REMOVED)) * plan["Actual Loops"]
    return float(own) + sum(rows_handled(part) for part in plan.get("Plans", ()))


def test_no_query_multiplies_tables_without_statistics(stage: Stage) -> None:
    """Postgres joins young tables in loops: over two of them that is slow, over three the check never ends."""
    stage.sql(*GROWN, *NO_STATISTICS)
    events = stage.value("select count(*) from outbox")
    asked = {i.id: i.sql for i in invariants() if i.source != "comparison"}
    asked |= {"18": next(i.sql for i in invariants() if i.id == "18"), "18 updated": CROSS_STORE["updated_events"]}
    given = parameters(stage.world.events_topic, stage.world.commands_topic, grace_s=1) | {
        "partitions": list(range(stage.world.partitions)),
        "seqs": [1_000 * COPIES] * stage.world.partitions,
        "is_level": True,
    }
    handled = {}
    with psycopg.connect(stage.dsn(), autocommit=True) as connection:
        for name, sql in asked.items():
            explained = connection.execute(f"explain (analyze, timing off, format json) {sql}".encode(), given)
            handled[name] = sum(rows_handled(plan["Plan"]) for (plans,) in explained for plan in plans)
    assert {name: rows for name, rows in handled.items() if rows > events**2 * 4} == {}, events


# -- 18: the other stores ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", matrix(CLICKHOUSE_TAMPERED, gate=lambda way: way.endswith(" event")))
def test_clickhouse_must_hold_what_postgres_and_kafka_hold(stage: Stage, way: str) -> None:
    """18: and a replay with a swap repairs it."""
    stage.clickhouse_command(CLICKHOUSE_TAMPERED[way])
    finding = stage.finding("18")
    assert finding.gaps > 0
    versions = {f"{what}_version" for what in ("intent", "attempt", "refund", "dispute", "payout", "account")}
    parts = {"refund", "refund_current", "dispute", "dispute_current", "payout", "payout_current"}
    assert {row["what"] for row in finding.sample} <= {"event", "ledger_line", "journal_entry", *versions, *parts}
    repaired(stage)


def repaired(stage: Stage) -> None:
    report = stage.replay("clickhouse", swap=True)
    assert report.swapped
    assert report.differences > 0
    assert stage.finding("18").gaps == 0


@pytest.mark.timeout(360)  # what is tampered with must be repaired, for the tests that follow
def test_every_table_of_clickhouse_is_compared(stage: Stage) -> None:
    """18: all of them tampered with at once, and each is named; one replay repairs all."""
    for statement in CLICKHOUSE_TAMPERED.values():
        stage.clickhouse_command(statement)
    (found,) = run_check(stage.check_settings(), only=["18"], sample_max=None).invariants
    named = {row["what"] for row in found.sample}
    versions = {f"{what}_version" for what in ("intent", "attempt", "refund", "dispute", "payout", "account")}
    assert {"event", "ledger_line", *versions} <= named
    repaired(stage)


def test_postgres_must_hold_what_kafka_and_clickhouse_hold(sound: Stage) -> None:
    lost = "delete from ledger_entry where txn_id = (select min(txn_id) from ledger_entry)"
    finding = finding_after(sound, "18", lost)
    assert finding.gaps == 1
    assert finding.sample[0]["what"] == "ledger_line"
    assert finding.sample[0]["clickhouse"] == finding.sample[0]["kafka"] != finding.sample[0]["postgres"]


@pytest.mark.parametrize("what", POSTGRES_TAMPERED)
def test_parts_and_journal_in_postgres_must_be_what_the_other_stores_hold(sound: Stage, what: str) -> None:
    """18: a refund, dispute or journal entry that was lost or changed in Postgres alone."""
    finding = finding_after(sound, "18", POSTGRES_TAMPERED[what])
    assert finding.gaps >= 1
    assert what in {row["what"] for row in finding.sample}
    for row in finding.sample:
        assert row["postgres"] != row["clickhouse"]
        assert row.get("kafka", row["clickhouse"]) == row["clickhouse"]


def test_a_sink_that_stands_still_is_told(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """ClickHouse may be behind, which is no gap; that it does not move at all is one."""
    monkeypatch.setattr(reconciliation_limits, "CHECK_SINK_WAIT_S", 0.5)
    stage.world.payments_made(1)
    with psycopg.connect(stage.dsn(), autocommit=True) as connection:
        stage.world.store(connection)
    finding = stage.finding("sinks")
    assert finding.gaps == 1
    assert finding.sample[0]["reason"] == "the ClickHouse sink stands still"
    # The owner said that it published them; Kafka has never seen them.
    assert stage.finding("published").gaps > 0


def test_a_lagging_sink_is_no_gap(stack: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside a live system the check compares up to a common position and waits for the rest a little."""
    monkeypatch.setattr(sinks_limits, "SINK_BLOCK_EVENTS_MAX", 30)
    monkeypatch.setattr(sinks_limits, "SINK_READ_MESSAGES_MAX", 30)
    monkeypatch.setattr(reconciliation_limits, "CHECK_SINK_WAIT_S", patient(reconciliation_limits.CHECK_SINK_WAIT_S))
    with new_stage(stack.settings, seed=8) as stage, stage.sink() as (_, recorder):
        eventually(recorder.fed.is_set)  # it makes its tables first
        for _ in range(examples(3, 6)):
            stage.world.payments_made(25)
            stage.store_and_publish()
            everything_else = [i.id for i in invariants() if i.id != "19" and not i.id.startswith("aged")]  # long past
            report = stage.check(*everything_else)
            assert {f.id: f.sample for f in report.invariants if f.gaps} == {}


def test_events_that_were_never_committed_are_found(stack: World) -> None:
    """18: Kafka holds an event that Postgres knows nothing of, and the sink has believed it."""
    with new_stage(stack.settings, seed=9, payments=10) as stage:
        stage.store_and_publish()
        ghost = stage.world
        ghost.payments_made(1)
        fresh = ghost.commits[ghost._published :]
        publish_all(stage.kafka, ghost.events_topic, ((c.partition, "x", c.payload) for c in fresh))
        stage.drain()
        finding = stage.finding("18")
        assert {row["reason"] for row in finding.sample} == {"ClickHouse holds events that were never committed"}


# -- 19: the processor's book ------------------------------------------------------------------------------------
OURS = "update processor_attempt set"
BOOK_TAMPERED = {
    "the processor did what our record denies": f"{OURS} status = 'declined' where operation_id = {CAPTURED}",
    "the ledger and the processor's book differ": f"{OURS} amount = amount + 1 where operation_id = {CAPTURED}",
    "the processor moved money without any attempt of ours": (
        f"delete from processor_attempt where operation_id = {CAPTURED}"
    ),
    "the processor's book does not know it": f"{OURS} status = 'captured' where status = 'declined'",
}


@pytest.mark.parametrize("reason", BOOK_TAMPERED)
def test_the_processors_book_must_agree(sound: Stage, reason: str) -> None:
    """19, both directions: the only check that finds lost and doubled money."""
    finding = finding_after(sound, "19", BOOK_TAMPERED[reason])
    assert finding.gaps > 0
    assert {row["reason"] for row in finding.sample} == {reason}


def test_a_posting_that_the_book_does_not_know_is_found(sound: Stage) -> None:
    finding = finding_after(
        sound,
        "19",
        "update ledger_entry set credit = credit + 1 where account_id like 'merchant_pending:%' and credit > 0"
        " and txn_id = (select min(txn_id) from ledger_txn where kind = 'capture')",
    )
    assert [row["reason"] for row in finding.sample] == ["the ledger and the processor's book differ"]


def test_an_open_attempt_is_open_and_no_gap(sound: Stage) -> None:
    """The processor has answered and the fact is under way: that is not a discrepancy yet."""
    answered = f"update processor_attempt set status = 'unknown' where operation_id = {CAPTURED}"
    finding = finding_after(sound, "19", answered)
    assert finding.gaps == 0
    assert "1 of attempts that are open here" in finding.note


def test_a_book_that_cannot_be_read_is_a_gap(stage: Stage) -> None:
    stage.processor_url = "http://127.0.0.1:9"
    finding = stage.finding("19")
    assert finding.gaps == 1
    assert "cannot be read" in finding.note


# -- 20: what callers were told ------------------------------------------------------------------------------------
def acknowledgements(stage: Stage) -> list[dict[str, Any]]:
    return [
        {
            "merchant": c.command.scope,
            "idempotency_key": c.command.idempotency_key,
            "aggregate_key": c.command.aggregate_key,
            "event_id": c.event_id,
            "version": c.version,
        }
        for c in stage.world.commits
        if c.intent or c.payout
    ]


def written(folder: Path, rows: list[dict[str, Any]]) -> Path:
    file = folder / "acknowledged.ndjson"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


def test_everything_that_was_acknowledged_exists(stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reconciliation_limits, "CHECK_ACKNOWLEDGED_CHUNK", 17)
    told = acknowledgements(stage)
    assert stage.finding("20", acknowledged=written(tmp_path, told)).gaps == 0
    for field, wrong in (("event_id", "evt_x"), ("aggregate_key", "pi_x"), ("idempotency_key", "k"), ("version", 99)):
        file = written(tmp_path, [*told, told[5] | {field: wrong}])
        assert stage.finding("20", acknowledged=file).gaps == 1, field


def test_a_lost_acknowledged_command_is_found(stage: Stage, tmp_path: Path) -> None:
    told = acknowledgements(stage)
    stage.sql(f"delete from outbox where event_id = '{told[0]['event_id']}'")
    assert stage.finding("20", acknowledged=written(tmp_path, told)).gaps == 1


def test_what_a_load_generator_adds_meanwhile_is_not_looked_at(stage: Stage, tmp_path: Path) -> None:
    """Its newest lines may be about commits that the snapshot does not see, and the last one may be half written."""
    file = written(tmp_path, acknowledgements(stage))
    size = file.stat().st_size
    with file.open("a") as lines:
        lines.write(json.dumps(acknowledgements(stage)[0] | {"event_id": "evt_later"}) + '\n{"mer')
    (invariant,) = (i for i in invariants() if i.id == "20")
    with snapshot(stage.dsn("millrace_operator"), events_topic="", commands_topic="", grace_s=0) as view:
        assert list(acknowledged_violations(view, invariant.sql, file, size)) == []
        assert list(acknowledged_violations(view, invariant.sql, file, size - 1)) == []


def test_a_file_that_is_not_one_is_a_gap_with_its_line(stage: Stage, tmp_path: Path) -> None:
    file = written(tmp_path, [*acknowledgements(stage), {"merchant": 3}])
    finding = stage.finding("20", acknowledged=file)
    assert finding.gaps == 1
    assert f"line {len(acknowledgements(stage)) + 1} of" in finding.note


def test_a_case_whose_cause_stands_is_not_closed(stage: Stage) -> None:
    """Else what waits for longer than it may would have no case, and nobody would look."""
    with psycopg.connect(stage.dsn("millrace_operator"), autocommit=True) as connection:
        cases = dict(connection.execute("select kind, id from repair_case where state = 'open'").fetchall())
    stage.sql(
        "insert into repair_case (id, kind, reference, processor)"
        " select 'case_2', 'settlement_difference', reference, 'sim' from repair_case where kind = 'aged_balance' union all"
        " values ('case_3', 'attempt_review', (select operation_id from attempt_dispatch where status = 'waiting' limit 1), null)"
    )
    assert closed(stage, cases["aged_payout"]) == "payout_pending"
    assert closed(stage, "case_3") == "attempt_open"
    assert closed(stage, cases["aged_balance"]) == "proposed", "another case says that this money waits"
    assert closed(stage, "case_2") == "money_waits", "now it is the only one"
    assert stage.check("aged", "aged_payouts", "closings").gaps == 0


def closed(stage: Stage, case_id: str) -> str:
    with psycopg.connect(stage.dsn("millrace_ingress"), autocommit=True) as ingress:
        query = "select case_close(%s, %s, 'explained', 'n', 'ann', '', %s)"
        row = ingress.execute(query, (f"cc_{case_id}", case_id, payments_limits.SETTLEMENT_HORIZON_DAYS)).fetchone()
    assert row is not None
    return str(row[0])
