"""The ClickHouse sink on real servers: every committed event is there once, whatever is repeated or missing."""

from __future__ import annotations

import dataclasses
import threading
from collections import defaultdict
from decimal import Decimal
from typing import TYPE_CHECKING

import psycopg
import pytest

from schemas import errors
from schemas.avro import codec
from schemas.fields import currency
from sinks import limits
from sinks.clickhouse import tables
from sinks.clickhouse.block import EventBlock
from sinks.clickhouse.insert import Inserter
from sinks.clickhouse.payments.service import SINKS
from sinks.clickhouse.plans import Fence
from sinks.clickhouse.sink import Sink
from sinks.streams.intake import Intake, Position
from tests.eventually import becomes, eventually
from tests.worlds.committed_world import publish_all
from tests.worlds.sink_stage import Recorder, Stage, new_stage
from tests.worlds.stream_positions import expire, stored
from tests.worlds.upgraded_service import NEXT_SCHEMA_ID, of_next_release

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.servers import World

pytestmark = [pytest.mark.servers, pytest.mark.timeout(240)]


@pytest.fixture
def stage(stack: World) -> Iterator[Stage]:
    with new_stage(stack.settings, payments=60) as made:
        yield made


@pytest.fixture(scope="module")
def drained(stack: World) -> Iterator[Stage]:
    """A history that ClickHouse holds, for tests that only read it."""
    with new_stage(stack.settings, payments=60) as made:
        made.store_and_publish()
        made.drain()
        yield made


def test_every_event_is_there_once_though_much_was_published_again(stage: Stage) -> None:
    """After a crash an owner publishes again from its stored position."""
    stage.store_and_publish()
    stage.world.payments_made(20)
    stage.store_and_publish(repeat_last=90)
    recorder = stage.drain()
    assert stage.counts() == stage.expected_counts()
    assert recorder.events == len(stage.world.commits)
    assert not recorder.failures


def test_views_of_refunds_and_disputes(drained: Stage) -> None:
    """Per merchant and currency, summed over the days: what the newest refunds, disputes and intents say."""
    intents = {c.intent.id: c.intent for c in drained.world.commits if c.intent}
    refunds = {c.refund.id: c.refund for c in drained.world.commits if c.refund}
    disputes = {c.dispute.id: c.dispute for c in drained.world.commits if c.dispute}
    expected: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0] * 8)
    for intent in intents.values():
        if intent.amount_received:
            mine = [r for r in refunds.values() if r.intent_id == intent.id]
            bad = [d for d in disputes.values() if d.intent_id == intent.id]
            found = expected[intent.merchant_id, intent.currency]
            counts = (1, any(r.state == "succeeded" for r in mine), len(mine), sum(r.state == "failed" for r in mine))
            ends = (intent.amount_refunded, len(bad), sum(d.state == "won" for d in bad), sum(d.amount for d in bad))
            for place, count in enumerate((*counts, *ends)):
                found[place] += count
    rows = drained.clickhouse_rows(
        "select r.merchant_id, r.currency, sum(r.payments_received), sum(payments_refunded), sum(refunds),"
        " sum(refunds_failed), sum(refunded_minor), sum(disputes), sum(disputes_won), sum(disputed_minor)"
        " from refund_rate_daily r join dispute_rate_daily d using (merchant_id, currency, day)"
        " group by r.merchant_id, r.currency"
    )
    assert {(merchant, currency): [int(n) for n in rest] for merchant, currency, *rest in rows} == dict(expected)
    assert sum(found[4] for found in expected.values()) > 0
    rates = drained.clickhouse_rows(
        "select refund_rate, refunded_share, dispute_rate from refund_rate_daily r join dispute_rate_daily d using (merchant_id, currency, day)"
    )
    assert all(0 <= rate <= 1 for row in rates for rate in row)


def test_the_deadline_of_a_dispute_is_there_until_it_ends(drained: Stage) -> None:
    said = {(c.dispute.version, c.dispute.evidence_due_by) for c in drained.world.commits if c.dispute}
    assert {due for _, due in said} > {None}, "some have one"
    query = "select distinct version, toUnixTimestamp64Micro(evidence_due_by) from disputes"
    assert {(version, due) for version, due in drained.clickhouse_rows(query)} == said
    assert drained.clickhouse_rows("select count() from disputes_current where evidence_due_by is not null") == [(0,)]


def test_views_of_merchants_money(drained: Stage) -> None:
    """What merchants' accounts hold, day by day, and their payouts: as the ledger and the newest payouts say."""
    held: dict[tuple[str, str, str], int] = defaultdict(int)
    for entry in (e for c in drained.world.commits for txn in c.txns for e in txn.entries):
        if entry.account_id.startswith("merchant_"):
            account, merchant, code = entry.account_id.removeprefix("merchant_").split(":")
            held[merchant, account, code] += entry.credit - entry.debit
    rows = drained.clickhouse_rows(
        "select merchant, account, currency, argMax(closing_minor, day), argMin(opening_minor, day),"
        " sum(credits_minor - debits_minor) from merchant_balance_daily group by merchant, account, currency"
    )
    assert {(m, a, c): closing for m, a, c, closing, _, _ in rows} == held
    assert all(opening == 0 and moved == closing for *_, closing, opening, moved in rows)
    assert {account for _, account, _ in held} >= {"reserved", "payout_in_transit", "available"}
    payouts = {c.payout.id: c.payout for c in drained.world.commits if c.payout}
    states = [p.state for p in payouts.values()]
    found = drained.clickhouse_rows(
        "select payouts, paid, failed, canceled, asked_minor, paid_minor from payouts_daily"
    )
    totals = [sum(int(row[n]) for row in found) for n in range(6)]
    asked, paid = (sum(p.amount for p in payouts.values() if p.state in wanted) for wanted in (states, ["paid"]))
    assert totals == [len(payouts), *(states.count(s) for s in ("paid", "failed", "canceled")), asked, paid]
    assert drained.clickhouse_rows("select state from merchant_accounts_current") == [("active",)]


def test_views_answer_the_first_questions(drained: Stage) -> None:
    """Volume and success rate, fees, open authorizations and balances equal what the ledger says, in decimals too."""
    received, fees, held = defaultdict(int), defaultdict(int), {}
    balances: dict[str, int] = defaultdict(int)
    newest = {c.intent.id: c.intent for c in drained.world.commits if c.intent}
    for intent in newest.values():
        received[intent.merchant_id, intent.currency] += intent.amount_received
        if intent.amount_capturable:
            held[intent.id] = intent.amount_capturable
    for commit in drained.world.commits:
        for entry in (e for txn in commit.txns for e in txn.entries):
            balances[entry.account_id] += entry.debit - entry.credit
            if entry.account_id.startswith("platform_fee_income"):
                fees[commit.scope, entry.currency] += entry.credit
    rows = drained.clickhouse_rows(
        "select merchant_id, currency, sum(received_minor), sum(received), sum(intents), avg(success_rate)"
        " from payment_volume_hourly group by merchant_id, currency"
    )
    assert {(m, c): minor for m, c, minor, *_ in rows} == received
    for _, code, minor, decimal, _, rate in rows:
        assert decimal == Decimal(currency.format_minor(minor, code))
        assert rate is None or 0 <= rate <= 1
    assert sum(row[4] for row in rows) == len(newest)
    rows = drained.clickhouse_rows(
        "select merchant_id, currency, sum(platform_fee_minor) from fees_daily group by merchant_id, currency"
    )
    assert {(m, c): minor for m, c, minor in rows if minor} == fees
    rows = drained.clickhouse_rows("select payment_intent, held_minor from open_authorizations")
    assert dict(rows) == held
    rows = drained.clickhouse_rows(
        "select account_id, argMax(balance_minor, day) from account_balances_daily group by account_id"
    )
    assert dict(rows) == balances


def test_a_gap_stops_its_partition_until_it_is_filled(stage: Stage) -> None:
    commits = [c for c in stage.world.commits if c.partition == 0]
    records = [(0, c.command.aggregate_key, c.payload) for c in commits]
    publish_all(stage.kafka, stage.world.events_topic, [*records[:2], *records[3:]])
    count = "select count() from events"
    with stage.sink() as (_, recorder):
        eventually(recorder.fed.is_set, within_s=20)
        becomes(lambda: stage.clickhouse_rows(count), [(2,)], within_s=20)
        becomes(lambda: reasons(recorder), {0: "gap"}, within_s=20)
        becomes(lambda: position(stage, 0), (2, 2), within_s=20)
        publish_all(stage.kafka, stage.world.events_topic, records[2:])
        becomes(lambda: stage.clickhouse_rows(count), [(len(commits),)], within_s=20)
        becomes(lambda: reasons(recorder), {}, within_s=20)


def test_an_unknown_schema_stops_its_partition_until_the_sink_is_upgraded(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rule: readers first, then writers. Forgotten, the events behind wait, and each is there once in the end."""
    stopped = [c for c in stage.world.commits if c.partition == 0]
    records = [(c.partition, c.command.aggregate_key, c.payload) for c in stage.world.commits]
    unread = records.index((0, stopped[2].command.aggregate_key, stopped[2].payload))
    records[unread] = (0, records[unread][1], of_next_release(records[unread][2]))
    with psycopg.connect(stage.dsn(), autocommit=True) as connection:
        stage.world.store(connection)
    publish_all(stage.kafka, stage.world.events_topic, records)
    others = len(records) - len(stopped)
    with stage.sink("old") as (_, recorder):
        eventually(recorder.fed.is_set, within_s=20)
        becomes(lambda: stage.clickhouse_rows("select count() from events"), [(others + 2,)], within_s=30)
        becomes(lambda: reasons(recorder), {0: "unknown_schema"}, within_s=20)
        assert "upgrade this process" in recorder.halts[0].words
    assert position(stage, 0) == (2, 2)
    newest = codec.schema_named("PaymentSystemCommitted")
    monkeypatch.setitem(codec.schemas_by_id(), NEXT_SCHEMA_ID, dataclasses.replace(newest, schema_id=NEXT_SCHEMA_ID))
    recorder = stage.drain()
    assert recorder.halts == {}
    assert stage.counts() == stage.expected_counts()


def test_a_record_that_is_no_event_stops_its_partition(stage: Stage) -> None:
    """It may have been an event: what lies behind it waits, and other partitions go on."""
    publish_all(stage.kafka, stage.world.events_topic, [(3, "x", b"not avro")])
    stage.store_and_publish()
    others = sum(c.partition != 3 for c in stage.world.commits)
    with stage.sink() as (_, recorder):
        eventually(recorder.fed.is_set, within_s=20)
        becomes(lambda: stage.clickhouse_rows("select count() from events"), [(others,)], within_s=30)
        becomes(lambda: reasons(recorder), {3: "undecodable"}, within_s=20)
    assert position(stage, 3) == (0, 0)


def test_events_that_kafka_deleted_unread_stop_their_partition(stage: Stage) -> None:
    """What is missing is not taken for what was never there."""
    stage.store_and_publish()
    expire(stage.kafka, stage.world.events_topic, 0)
    others = sum(c.partition != 0 for c in stage.world.commits)
    with stage.sink() as (_, recorder):
        eventually(recorder.fed.is_set, within_s=20)
        becomes(lambda: stage.clickhouse_rows("select count() from events"), [(others,)], within_s=30)
        becomes(lambda: reasons(recorder), {0: "expired"}, within_s=20)
    assert position(stage, 0) == (0, 0)


def test_a_topic_that_was_made_again_stops_the_sink(stage: Stage) -> None:
    """The same name is not the same topic: nothing of it is taken for what follows."""
    stage.store_and_publish()
    stage.drain()
    stage.sql("update stream_position set topic_id = 'of another topic'")
    stage.world.payments_made(10)
    stage.store_and_publish()
    with stage.sink() as (_, recorder):
        every = dict.fromkeys(range(stage.world.partitions), "other_topic")
        becomes(lambda: reasons(recorder), every, within_s=30)
    assert stage.counts()["events"][0] < len(stage.world.commits)


def reasons(recorder: Recorder) -> dict[int, str]:
    """Why partitions stand still."""
    return {partition: halt.reason for partition, halt in recorder.halts.items()}


def position(stage: Stage, partition: int) -> tuple[int, int]:
    """Next offset and last seq, as stored."""
    with psycopg.connect(stage.dsn(), autocommit=True) as connection:
        return stored(connection, "clickhouse")[partition]


def test_a_second_sink_stands_by_and_takes_over(stage: Stage) -> None:
    """Two sinks at once are one sink: the fence in Postgres decides."""
    stage.store_and_publish()
    with stage.sink("first") as (first, recorder):
        eventually(recorder.fed.is_set, within_s=20)
        with stage.sink("second") as (_, second):
            eventually(second.stood_by.is_set)
            eventually(stage.is_caught_up, within_s=20)
            first.stop()
            eventually(second.fed.is_set, within_s=20)
            stage.world.payments_made(20)
            stage.store_and_publish()
            eventually(stage.is_caught_up, within_s=20)
    assert second.events > 0
    assert stage.counts() == stage.expected_counts()


def test_a_fenced_sink_changes_nothing(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sink that was replaced while it slept finds out at its next statement."""
    monkeypatch.setattr(limits, "SINK_LEASE_MS", 60_000)  # longer than any pause of this test
    with psycopg.connect(stage.dsn("millrace_sink"), autocommit=True) as connection:
        old = Fence(connection, sink="clickhouse", topic=stage.world.events_topic, owner_id="old")
        assert old.claim()
        assert not Fence(connection, sink="clickhouse", topic=stage.world.events_topic, owner_id="eager").claim()
        stage.sql("update sink_fence set heartbeat_at = now() - interval '1 hour'")
        new = Fence(connection, sink="clickhouse", topic=stage.world.events_topic, owner_id="new")
        assert new.claim()
        with pytest.raises(errors.Fenced):
            old.hold()
        old.release()
        new.hold()


def test_connections_that_break_cost_nothing(stage: Stage) -> None:
    """Postgres ends the sink's session in the middle of its work; the sink begins again from what is durable."""
    stage.store_and_publish()
    broken = threading.Event()

    def break_once(name: str) -> None:
        if name == "sink_after_insert" and not broken.is_set():
            broken.set()
            stage.sql("select pg_terminate_backend(pid) from pg_stat_activity where usename = 'millrace_sink'"
                      f" and datname = '{stage.database}'")  # fmt: skip

    with stage.sink(fail_point=break_once) as (_, recorder):
        eventually(stage.is_caught_up, within_s=30)
    assert recorder.failures
    assert recorder.recoveries == [(1, 0)]  # everything of the open plan was in already
    assert stage.counts() == stage.expected_counts()


def blocks(stage: Stage, size: int) -> list[EventBlock]:
    intake = Intake()
    intake.begin({p: Position() for p in range(stage.world.partitions)})
    taken = [intake.take(c.partition, c.offset, c.payload) for c in stage.world.commits]
    made = []
    for start in range(0, len(taken), size):
        block = EventBlock(SINKS[0])
        block.add(t for t in taken[start : start + size] if t)
        made.append(block)
    return made


def test_the_same_block_again_is_dropped_within_the_window(stage: Stage) -> None:
    """The engine honours tokens: one insert of many under one token counts."""
    client = stage.clickhouse.client()
    tables.apply_schema(client, SINKS[0].definitions())
    inserter = Inserter(client, SINKS[0].tables)
    block = blocks(stage, 10_000)[0]
    for _ in range(3):
        inserter.insert(block.rows(), "a token")
    assert stage.counts() == stage.expected_counts()
    client.close()


@pytest.mark.parametrize("present", ["all", "some", "none"])
def test_a_plan_past_the_window_is_completed_by_looking_first(stage: Stage, present: str) -> None:
    """ClickHouse has forgotten the token: what is there is not inserted again, what is missing is."""
    client = stage.clickhouse.client()
    tables.apply_schema(client, SINKS[0].definitions())
    for table in SINKS[0].tables:
        client.command(f"alter table {table.name} modify setting non_replicated_deduplication_window = 1")
    inserter = Inserter(client, SINKS[0].tables)
    first, *rest = blocks(stage, 50)
    if present != "none":
        inserter.insert(first.rows(), "the plan")
    for number, block in enumerate(rest):
        inserter.insert(block.rows(), f"later {number}")  # the window of one rolls past the plan
    if present == "some":
        for table in SINKS[0].tables:
            client.command(f"alter table {table.name} delete where seq % 2 = 0 settings mutations_sync = 2")
            client.command(f"alter table {table.name} delete where 0 settings mutations_sync = 2")
    kept = stage.counts()["events"][0]
    missing = inserter.complete(first.rows(), first.ranges(), "the plan")
    again = inserter.complete(first.rows(), first.ranges(), "the plan")
    client.close()
    assert sum(again.values()) == 0
    assert missing["events"] == {"all": 0, "none": 50}.get(present, missing["events"])
    assert stage.counts()["events"] == (kept + missing["events"],) * 2
    if present == "some":
        assert 0 < missing["events"] < 50
    else:
        assert stage.counts() == stage.expected_counts()


def test_definitions_are_applied_once_and_an_edited_one_is_refused(stage: Stage) -> None:
    client = stage.clickhouse.client()
    files = [file for file, _ in SINKS[0].definitions()]
    assert tables.apply_schema(client, SINKS[0].definitions()) == files
    assert tables.apply_schema(client, SINKS[0].definitions()) == []
    client.command("insert into schema_version (file, sha256) values ('0001_tables.sql', 'edited')")
    client.command("optimize table schema_version final")
    with pytest.raises(errors.InvariantViolation, match=r"0001_tables\.sql was edited"):
        tables.apply_schema(client, SINKS[0].definitions())
    client.close()


def test_records_that_changed_since_the_plan_stop_the_sink(stage: Stage) -> None:
    """Kafka must hold what the plan says; if not, an operator is needed, and nothing is inserted."""
    stage.store_and_publish()
    stage.drain()
    stage.sql(
        "update sink_plan set state = 'planned', inserted_at = null, sha256 = sha256('tampered'::bytea)"
        " where plan_id = (select max(plan_id) from sink_plan)",
        "update stream_position p set last_seq = r.first_seq - 1, next_offset = r.first_offset from sink_plan_range r"
        " where r.partition = p.partition and r.plan_id = (select max(plan_id) from sink_plan)",
    )
    with pytest.raises(errors.InvariantViolation, match="are not what they were"):
        Sink(stage.sink_settings(), Recorder()).run()
    assert stage.counts() == stage.expected_counts()
    assert stage.value("select count(*) from sink_plan where state = 'planned'") == 1


def test_plans_of_long_ago_are_forgotten(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SINK_PLANS_KEPT", 2)
    monkeypatch.setattr(limits, "SINK_PLANS_PRUNE_EVERY", 1)
    monkeypatch.setattr(limits, "SINK_BLOCK_EVENTS_MAX", 40)
    monkeypatch.setattr(limits, "SINK_READ_MESSAGES_MAX", 40)
    stage.store_and_publish()
    stage.drain()
    assert stage.counts() == stage.expected_counts()
    assert stage.value("select count(*) from sink_plan") == 3 - 1
