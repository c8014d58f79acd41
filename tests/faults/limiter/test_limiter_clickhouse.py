"""Decisions in a real ClickHouse: every one once, in a row or a sum, whatever is sent again and whoever is killed."""

from __future__ import annotations

import signal
import threading
import time
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from confluent_kafka import OFFSET_END, Producer, TopicPartition
from prometheus_client import REGISTRY

from compose.cli.dry_run.history import History
from limiter.analytics.busiest import busiest
from limiter.analytics.decision_rows import key_hash, texts_of
from limiter.policy.policies import PolicySet
from limiter.spending.decision import Decision
from limiter.stream.decisions import Recorder
from schemas.limiter import topics
from schemas.limiter.limit_audit import auditing
from sinks.clickhouse.limiter.service import SINKS
from sinks.clickhouse.limiter.tables import TABLES
from sinks.clickhouse.sink import Sink, SinkSettings
from sinks.clickhouse.tables import apply_schema, statements
from sinks.kafka.admin import KafkaAdmin
from tests.eventually import becomes, eventually, patient
from tests.gate import PROOF
from tests.worlds.limiter.counter_server import Blocks
from tests.worlds.limiter.counter_server import policy as a_policy
from tests.worlds.sink_process import sink_process
from tests.worlds.sink_stage import Recorder as Observer
from tests.worlds.sink_stage import Stage, new_stage

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.servers import World

pytestmark = [pytest.mark.servers, pytest.mark.faults, pytest.mark.slow]
SHADOW = PolicySet([a_policy("pl_shadow", shadow=True)], 1).all_levels()[0]
AUDIT = ("full", "denied", "denied+sampled 1/3", "aggregate")
STEPS = ("sink_after_plan", "decisions_after_table", "sink_after_insert", "sink_after_mark")
#: in the gate the step that no other sink has; the others are killed at with the events' sink
LIVES = STEPS if PROOF else ("decisions_after_table",)
SUMS = "sum(allowed), sum(denied), sum(repeated), sum(degraded), sum(allowed_cost), sum(denied_cost)"


@pytest.fixture
def stage(stack: World) -> Iterator[Stage]:
    with new_stage(stack.settings) as made:
        yield made


class Gateway:
    """Decides by four policies of other audit settings, and knows what it decided."""

    def __init__(self, stage: Stage, ring: Path) -> None:
        self._stage, self._ring = stage, ring
        self.sink = Blocks(under_way=1)  # nothing is ever safe: a kill sends all of it again
        self.truth: dict[str, list[int]] = {}
        self.rows: Counter[str] = Counter()
        self.refused = 0  # by a policy in shadow mode, if it were not
        self._recorder = self._started()

    def _started(self) -> Recorder:
        recorder = Recorder("g", self.sink, self._ring, records=65_536)
        recorder.sampling.use({(f"pl_{n}", 1): auditing(text) for n, text in enumerate(AUDIT)})
        return recorder

    def decide(self, count: int) -> None:
        """Every outcome on every policy."""
        for n in range(count):
            for policy in range(len(AUDIT)):
                outcome = ("allowed", "allowed", "denied", "degraded", "repeated")[n % 5]
                one = Decision(outcome != "denied", 5, 0, 0, f"pl_{policy}", 1)
                one = one._replace(duplicate=outcome == "repeated", degraded=outcome == "degraded")
                shadows = [SHADOW] if n % 10 == 0 else []
                self.refused += len(shadows)
                key = f"t{policy}:user{n % 3}:/things"
                self._recorder.record(key, n % 4, one, identity=f"i{n}-{policy}", shadows=shadows)
                sums = self.truth.setdefault(f"t{policy}", [0] * 6)
                was_denied, was_allowed = outcome == "denied", outcome in ("allowed", "degraded")
                added = (was_allowed, was_denied, outcome == "repeated", outcome == "degraded")
                for at, value in enumerate((*added, n % 4 * was_allowed, n % 4 * was_denied)):
                    sums[at] += value

    def publish(self, times: int = 2) -> None:
        """Everything so far, as often as asked for."""
        self._recorder.flush()
        producer = Producer(self._stage.kafka.producer("gateway"))
        topic = self._stage.kafka.topic(self._stage.world.commands_topic)
        for _ in range(times):
            for partition, block in self.sink.sent:
                producer.produce(topic, block, partition=partition)
        assert producer.flush(60) == 0
        self.sink.sent.clear()

    def killed(self) -> None:
        """The next process of the place sends what was not safe: rows under the numbers that they had."""
        self._recorder.close()
        self._recorder = self._started()

    def close(self) -> None:
        self._recorder.close()


@pytest.fixture
def gateway(stage: Stage, tmp_path: Path) -> Iterator[Gateway]:
    made = Gateway(stage, tmp_path / "ring")
    yield made
    made.close()


def settings_of(stage: Stage, owner_id: str) -> SinkSettings:
    return SinkSettings(
        sink=SINKS[0],
        kafka=stage.kafka,
        postgres_dsn=stage.dsn("millrace_sink"),
        clickhouse=stage.clickhouse,
        topic=stage.world.commands_topic,
        partitions=topics.DECISIONS_PARTITIONS,
        owner_id=owner_id,
    )


@contextmanager
def sinking(stage: Stage) -> Iterator[Observer]:
    observer = Observer()
    sink = Sink(settings_of(stage, "sink"), observer)
    thread = threading.Thread(target=sink.run)
    thread.start()
    try:
        eventually(observer.fed.is_set, 60, what="the sink feeds")
        yield observer
    finally:
        sink.stop()
        thread.join(patient(60))
        assert not thread.is_alive()


def sums_of(stage: Stage, view: str) -> dict[str, list[int]]:
    rows = stage.clickhouse_rows(f"select tenant, {SUMS} from {view} group by tenant")
    return {tenant: list(sums) for tenant, *sums in rows}


def expect_all_once(stage: Stage, gateway: Gateway) -> None:
    for view in ("limit_usage_by_minute", "limit_usage_by_key"):  # tables are filled one after the other
        becomes(lambda view=view: sums_of(stage, view), gateway.truth, 60)  # type: ignore[misc]
    stored, distinct = stage.clickhouse_rows("select count(), uniqExact(event_id) from limit_decisions final")[0]
    assert stored == distinct
    raw = dict(stage.clickhouse_rows("select tenant, sum(weight) from limit_decisions final group by tenant"))
    refused = "select policy_id, sum(refused_in_shadow) from {} where refused_in_shadow > 0 group by policy_id"
    for view in ("limit_usage_by_minute", "limit_usage_by_key"):
        assert stage.clickhouse_rows(refused.format(view)) == [("pl_shadow", gateway.refused)]
    of_full = "select countIf(has(refused_in_shadow, 'pl_shadow')) * 10 = count() from limit_decisions final"
    assert stage.clickhouse_rows(f"{of_full} where tenant = 't0'") == [(True,)]
    in_sums = dict(stage.clickhouse_rows("select tenant, sum(weight) from limit_usage_by_minute group by tenant"))
    assert {tenant: weight for tenant, weight in in_sums.items() if weight} == raw


def expect_busiest(stage: Stage, gateway: Gateway) -> None:
    """What an operator sees is what was decided; a key has its name where a total knows it, else its hash."""
    stage.sql("insert into limit_usage select 't1:user0:/things', 'pl_1', 1, 1, 0, 1, now()")
    client = stage.clickhouse.client()
    with psycopg.connect(stage.dsn("millrace_operator"), autocommit=True) as connection:
        tenants = busiest(client, connection, what="tenant", by="denied", minutes=60, limit=3)
        keys = busiest(client, connection, what="key", by="asked", minutes=60, limit=50)
        older = busiest(client, connection, what="policy", by="degraded", minutes=60, limit=1)
        shadows = busiest(client, connection, what="policy", by="shadow", minutes=60, limit=9)["data"]
        most = busiest(client, connection, what="tenant", by="shadow", minutes=60, limit=9)["data"]
    client.close()
    assert [row["name"] for row in tenants["data"]] == ["t0", "t1", "t2"]
    for row in tenants["data"]:
        found = [row[name] for name in ("allowed", "denied", "repeated", "degraded", "cost")]
        assert found == gateway.truth[row["name"]][:5]
        assert row["asked"] == row["allowed"] + row["denied"]
    hashes = {key_hash(f"t{tenant}:user{n}:/things") for tenant in range(4) for n in range(3)}
    named = hashes - {key_hash("t1:user0:/things")} | {"t1:user0:/things"}
    assert {row["name"] for row in keys["data"]} == named
    assert len(older["data"]) == 1
    assert [(row["name"], row["asked"], row["shadow"]) for row in shadows] == [("pl_shadow", 0, gateway.refused)]
    assert {row["policy_id"] for row in keys["data"]} == {f"pl_{n}" for n in range(len(AUDIT))}  # who decided
    assert [row["shadow"] for row in most] == [gateway.refused // len(AUDIT)] * len(AUDIT)
    assert older["as_of"]


def expect_history(stage: Stage, gateway: Gateway) -> None:
    """What a dry run reads: each decision once, by its time over all partitions, and how many have no row."""
    now_us = time.time_ns() // 1_000
    history = History(stage.kafka, now_us - 600_000_000, now_us, stage.world.commands_topic)
    found = [past for batch in history.batches() for past in batch]
    history.close()
    later = History(stage.kafka, now_us, now_us + 1, stage.world.commands_topic)
    assert [past for batch in later.batches() for past in batch] == []
    later.close()
    assert [past.at_us for past in found] == sorted(past.at_us for past in found)
    asked = {tenant: sums[0] + sums[1] for tenant, sums in gateway.truth.items()}
    of_full = [past for past in found if past.policy_id == "pl_0"]
    assert (len(of_full), sum(past.allowed for past in of_full)) == (asked["t0"], gateway.truth["t0"][0])
    assert len(found) + history.summed == sum(asked.values())


def test_what_comes_twice_and_after_a_kill_of_the_gateway_is_there_once(stage: Stage, gateway: Gateway) -> None:
    gateway.decide(100)
    gateway.publish()
    with sinking(stage) as observer:
        expect_all_once(stage, gateway)
        rows = dict(stage.clickhouse_rows("select tenant, count() from limit_decisions group by tenant"))
        assert (rows["t0"], rows["t1"], rows.get("t3", 0)) == (100, 20, 0)
        assert 20 < rows["t2"] < 80
        gateway.decide(20)
        gateway.killed()  # what it had told and what it had not comes again, all as rows
        gateway.publish()
        expect_all_once(stage, gateway)
        assert observer.failures == []
    expect_busiest(stage, gateway)
    expect_history(stage, gateway)
    names = {key_hash(f"t0:user{n}:/things") for n in range(3)}
    assert {
        row[0] for row in stage.clickhouse_rows("select distinct key_hash from limit_usage_by_key where tenant = 't0'")
    } == names
    everything = stage.clickhouse_rows("select * from limit_decisions limit 5") + stage.clickhouse_rows(
        "select * from limit_usage_by_key limit 5"
    )
    assert "user" not in str(everything)  # no user reaches analytical storage


def test_a_sink_killed_at_every_step_loses_and_doubles_nothing(stage: Stage, gateway: Gateway) -> None:
    """Each life ends at another step, between two tables too; the last one completes what it finds."""
    for number, step in enumerate(LIVES):
        gateway.decide(30)
        gateway.publish()
        with sink_process(settings_of(stage, f"life-{number}"), step) as process:
            assert process.wait(timeout=patient(60)) == -signal.SIGKILL
        stage.sql("update sink_fence set heartbeat_at = '-infinity'")  # as if its lease had run out by now
    with sinking(stage) as observer:
        expect_all_once(stage, gateway)
    assert observer.failures == []
    assert stage.value("select count(*) from sink_plan where state = 'planned'") == 0


def test_rows_whose_tokens_alone_are_there_come_in_with_their_plan(stage: Stage, gateway: Gateway) -> None:
    """As a kill of ClickHouse between token and part leaves them (``Inserter.complete``); a mutation keeps tokens, too."""
    gateway.decide(30)
    gateway.publish()
    with sink_process(settings_of(stage, "killed"), "sink_after_insert") as process:
        assert process.wait(timeout=patient(60)) == -signal.SIGKILL
    stage.sql("update sink_fence set heartbeat_at = '-infinity'")
    client = stage.clickhouse.client()
    for table in TABLES:
        client.command(f"alter table {table.name} delete where true settings mutations_sync = 1")
        assert client.command(f"select count() from {table.name}") == 0
    client.close()
    with sinking(stage):
        expect_all_once(stage, gateway)


def test_what_is_lost_is_said_and_what_is_unreadable_stops_its_partition(stage: Stage, gateway: Gateway) -> None:
    """Nothing behind it is lost: an operator lets the sink go on past it."""
    gateway.sink.lost = 7
    gateway.decide(10)
    gateway.publish()
    producer: Any = Producer(stage.kafka.producer("stranger"))
    producer.produce(stage.kafka.topic(stage.world.commands_topic), b"no block", partition=0)
    assert producer.flush(60) == 0
    gateway.sink.lost = 9
    gateway.decide(10)
    gateway.publish()
    position = "from stream_position where follower = 'limiter_decisions' and partition = 0"
    with sinking(stage) as observer:
        eventually(lambda: 0 in observer.halts, 60, what="the partition stands still")
    assert list(observer.halts) == [0]
    assert observer.halts[0].reason == "undecodable"
    offset = int(observer.halts[0].words.partition("offset ")[2].partition(" ")[0])
    assert stage.value(f"select next_offset {position}") == offset
    stage.sql(f"update stream_position set next_offset = {offset + 1} {position.partition('stream_position ')[2]}")
    with sinking(stage) as observer:
        expect_all_once(stage, gateway)
        assert stage.clickhouse_rows("select gap from limit_gap") == [(9,)]
        assert observer.halts == {}


def test_what_kafka_has_deleted_is_told_and_another_topic_stops_its_partition(stage: Stage, gateway: Gateway) -> None:
    gateway.decide(10)
    gateway.publish()
    where = "where follower = 'limiter_decisions'"
    with sinking(stage):
        expect_all_once(stage, gateway)
    stage.sql(f"update stream_position set next_offset = 1000000 {where} and partition = 1")
    stage.sql(f"update stream_position set topic_id = 'gone' {where} and partition = 2")
    places = [TopicPartition(stage.kafka.topic(stage.world.commands_topic), 0, OFFSET_END)]
    admin = KafkaAdmin(stage.kafka.admin())  # it answers for as long as somebody holds it
    next(iter(admin.delete_records(places).values())).result(60)
    stage.sql(f"update stream_position set next_offset = 0 {where} and partition = 0")
    before = told("expired")
    with sinking(stage) as observer:
        eventually(lambda: len(observer.halts) == 2, 60, what="partitions stand still")
        assert {partition: halt.reason for partition, halt in observer.halts.items()} == {
            1: "shorter",
            2: "other_topic",
        }
        assert told("expired") == before + 1


def told(reason: str) -> float:
    """How often records were passed unread."""
    labels = {"follower": "limiter_decisions", "reason": reason}
    return REGISTRY.get_sample_value("millrace_stream_missed_total", labels) or 0.0


def test_who_was_named_before_is_a_hash(stage: Stage) -> None:
    """What an earlier release wrote of persons gets the name that they have now, and the definition may run again."""
    client, definitions = stage.clickhouse.client(), SINKS[0].definitions()
    apply_schema(client, definitions)
    again = statements(dict(definitions)["0013_limiter_persons.sql"])
    tables = {table.name: table.columns for table in TABLES if "tenant" in table.columns}
    tenants = ("user:u_1", "staff:eve", "m_1")
    for table, columns in tables.items():
        at, *key = [name for name in columns if name in {"at", "minute", "key_hash"}]
        for tenant in tenants:
            values = ", ".join(("now()", *[f"'{key_hash(tenant)}'"] * len(key)))
            given = ", ".join((at, *key))
            client.command(f"insert into {table} ({given}, tenant, route) values ({values}, '{tenant}', '/v1/posts')")
    for _ in range(2):
        for statement in again:
            client.command(statement)
    expected = sorted(texts_of(f"{tenant.replace(':', '%3A')}:x:/v1/posts")[0] for tenant in tenants)
    for table in tables:
        assert sorted(row[0] for row in stage.clickhouse_rows(f"select tenant from {table} final")) == expected, table
