"""``millrace replay`` on real servers: a rebuilt projection equals a sound live one, and repairs a tampered one."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import TYPE_CHECKING

import psycopg
import pytest

from reconciliation import checkpoints
from reconciliation import limits as reconciliation_limits
from reconciliation.replay.source import Start
from schemas import errors
from sinks import limits as sinks_limits
from sinks.clickhouse.plans import Fence
from sinks.streams.intake import Position
from tests.eventually import eventually
from tests.gate import PROOF, matrix
from tests.worlds.committed_world import START_US
from tests.worlds.sink_stage import Stage, cloned, new_stage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reconciliation.replay.run import ReplayReport
    from sinks.clickhouse.sink import Sink
    from tests.servers import World

pytestmark = [pytest.mark.servers, pytest.mark.timeout(240)]

TARGETS = ("account_balance", "payment_intent", "merchant_account", "payout", "payout_destination", "clickhouse")
#: one of ClickHouse's, for all of them: each of its tables costs a shadow and a comparison
EVENTS = "clickhouse.events"
CLICKHOUSE = "clickhouse" if PROOF else EVENTS
_STANDS_FOR_A_STORE = ("account_balance", EVENTS)
#: a projection of each store: where a start is found and how rows are filtered by it is one code for all of a store
TARGETS_SAMPLED = matrix((*TARGETS, EVENTS), gate=_STANDS_FOR_A_STORE.__contains__)
#: every projection from Kafka; from the outbox those that stand for a store
BY_SOURCE = matrix(
    product((*TARGETS, EVENTS), ("kafka", "outbox")),
    gate=lambda case: case[0] in _STANDS_FOR_A_STORE or case[1] == "kafka",
)
#: every projection, from where each source can begin
LATER_ON = matrix(
    product((*TARGETS, EVENTS), ("kafka", "outbox")),
    gate=lambda case: case[0] in _STANDS_FOR_A_STORE or (case[1] == "kafka" and case[0] != "clickhouse"),
)


@pytest.fixture(scope="module")
def sound(stack: World) -> Iterator[Stage]:
    """A finished history; half of it was published twice."""
    with new_stage(stack.settings, seed=21, payments=40) as stage:
        stage.store_and_publish()
        stage.world.payments_made(40)
        stage.store_and_publish(repeat_last=60)
        stage.drain()
        yield stage


@pytest.fixture
def stage(sound: Stage) -> Iterator[Stage]:
    with cloned(sound) as copied:
        yield copied


def sides(report: ReplayReport) -> list[tuple[int, int]]:
    return [(c.rows_live, c.rows_shadow) for c in report.projections]


@pytest.mark.parametrize("case", BY_SOURCE, ids="-".join)
def test_a_replay_from_zero_equals_the_live_projection(sound: Stage, case: tuple[str, str]) -> None:
    target, source = case
    report = sound.replay(target, source=source)
    assert report.differences == 0
    assert report.events == len(sound.world.commits)
    assert all(live == shadow > 0 for live, shadow in sides(report))
    if target == "clickhouse":
        assert [live for live, _ in sides(report)] == [n for n, _ in sound.expected_counts().values()]


@pytest.mark.parametrize("case", LATER_ON, ids="-".join)
def test_a_replay_from_later_on_equals_what_came_since(sound: Stage, case: tuple[str, str]) -> None:
    """By offset (of Kafka) or seq (of the outbox)."""
    target, source = case
    starts = dict.fromkeys(range(sound.world.partitions), 6)
    report = sound.replay(target, Start(offsets=starts), source=source)
    assert report.differences == 0
    assert 0 < report.events < len(sound.world.commits)


@pytest.mark.parametrize("target", TARGETS_SAMPLED)
def test_a_replay_of_one_partition_leaves_the_others_alone(sound: Stage, target: str) -> None:
    partition = max(range(8), key=lambda p: sum(c.partition == p for c in sound.world.commits))
    report = sound.replay(target, Start(offsets={partition: 0}))
    assert report.differences == 0
    assert report.events == sum(c.partition == partition for c in sound.world.commits)


@pytest.mark.parametrize("target", TARGETS_SAMPLED)
def test_a_replay_from_a_checkpoint_equals_what_came_since(stack: World, target: str) -> None:
    with new_stage(stack.settings, seed=22, payments=20) as stage:
        stage.store_and_publish()
        stage.drain()
        before = len(stage.world.commits)
        with psycopg.connect(stage.dsn("millrace_operator"), autocommit=True) as connection:
            place = checkpoints.sink_place(connection, stage.checked())
            assert len(place) == stage.world.partitions
            checkpoints.checkpoint_write(
                connection,
                checkpoints.Checkpoint(
                    name="monday", scenario="s", operation_id="o", projection_checkpoint=place, owner="me"
                ),
            )
            stage.world.payments_made(20)
            stage.store_and_publish()
            stage.drain()
            kept = checkpoints.checkpoint_read(connection, "monday")
        start = Start(checkpoint=checkpoints.checkpoint_positions(kept, stage.world.events_topic))
        report = stage.replay(target, start)
        assert report.differences == 0
        assert report.events == len(stage.world.commits) - before


@pytest.mark.parametrize("source", ["kafka", "outbox"])
def test_a_replay_from_a_time_takes_what_came_since(sound: Stage, source: str) -> None:
    """Kafka knows when a record was published, the outbox when its event occurred."""
    if source == "outbox":
        middle = sound.world.commits[len(sound.world.commits) // 2].occurred_at
        time = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=middle)
        assert middle > START_US
        report = sound.replay(CLICKHOUSE, Start(time=time), source=source)
        assert report.events == sum(c.occurred_at >= middle for c in sound.world.commits)
    else:
        report = sound.replay(CLICKHOUSE, Start(time=datetime.now(UTC) - timedelta(hours=1)))
        assert report.events == len(sound.world.commits)
        later = sound.replay(CLICKHOUSE, Start(time=datetime.now(UTC) + timedelta(hours=1)))
        assert later.events == 0
    assert report.differences == 0


TAMPERED = {
    "account_balance": [
        "update account_balance set debits = debits + 1 where ctid = (select min(ctid) from account_balance)",
        "delete from account_balance where ctid = (select max(ctid) from account_balance)",
        "insert into account_balance values ('ghost:USD', 0, 'USD', 1, 1, 2)",
    ],
    "payment_intent": [
        "update payment_intent set amount = amount + 1 where id = (select min(id) from payment_intent)",
        "delete from payment_intent where id = (select max(id) from payment_intent)",
        "update payment_intent set metadata = '{}'"
        " where id = (select id from payment_intent order by id offset 3 limit 1)",
    ],
}


@pytest.mark.parametrize("target", TAMPERED)
def test_every_tampered_row_is_shown(stage: Stage, target: str) -> None:
    stage.sql(*TAMPERED[target])
    report = stage.replay(target)
    assert report.differences == 3
    reasons = sorted(d["reason"] for d in report.projections[0].sample)
    expected = ["differs", "only in the replay", "only live"]
    assert reasons == (expected if target == "account_balance" else ["differs", "differs", "only in the replay"])


def test_a_swap_of_balances_repairs_them_while_owners_commit(stage: Stage) -> None:
    """What is committed after the snapshot is in the exchanged table too."""
    stage.sql(*TAMPERED["account_balance"])
    assert stage.finding("4").gaps == 3
    stop = threading.Event()

    def commit() -> None:
        while not stop.is_set():
            stage.world.payments_made(3)
            with psycopg.connect(stage.dsn(), autocommit=True) as connection:
                stage.world.store(connection)

    thread = threading.Thread(target=commit)
    thread.start()
    try:
        report = stage.replay("account_balance", swap=True, source="outbox")
    finally:
        stop.set()
        thread.join()
    assert report.swapped
    assert report.differences == 3
    assert stage.finding("4").gaps == 0


def test_intents_are_the_authority_and_are_never_swapped(sound: Stage) -> None:
    with pytest.raises(ValueError, match="is the authority"):
        sound.replay("payment_intent", swap=True)


def test_a_swap_under_a_running_sink_loses_and_doubles_nothing(stack: World) -> None:
    """The sink lets go, the tables are exchanged, and it goes on from the replayed position."""
    with new_stage(stack.settings, seed=23, payments=40) as stage:
        stage.store_and_publish()
        stop = threading.Event()

        def commit() -> None:
            while not stop.is_set():
                stage.world.payments_made(5)
                stage.store_and_publish()

        with stage.sink() as (_, recorder):
            eventually(stage.is_caught_up, within_s=30)
            stage.clickhouse_command("insert into events select * from events limit 3")
            stage.clickhouse_command("alter table ledger_lines delete where seq < 5 settings mutations_sync = 2")
            thread = threading.Thread(target=commit)
            thread.start()
            try:
                report = stage.replay("clickhouse", swap=True)
            finally:
                stop.set()
                thread.join()
            assert recorder.stood_by.is_set()
            eventually(stage.is_caught_up, within_s=30)
        assert report.swapped
        assert report.differences > 0
        assert stage.counts() == stage.expected_counts()
        assert stage.replay("clickhouse").differences == 0


def test_a_swap_from_later_on_keeps_what_came_before(stage: Stage) -> None:
    stage.clickhouse_command("insert into events select * from events where seq > 8 limit 2")
    starts = dict.fromkeys(range(stage.world.partitions), 6)
    report = stage.replay("clickhouse.events", Start(offsets=starts), swap=True)
    assert report.differences == 2
    assert stage.counts() == stage.expected_counts()


def test_a_swap_finishes_the_block_that_a_killed_sink_left_open(stack: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The open block is completed first; the shadow, which was built before it, catches up with it."""
    monkeypatch.setattr(reconciliation_limits, "CHECK_SINK_WAIT_S", 0.5)
    with new_stage(stack.settings, seed=24, payments=20) as stage:
        stage.store_and_publish()
        stage.drain()
        running: list[Sink] = []

        def end_after_plan(name: str) -> None:
            if name == "sink_after_plan" and running:
                running[0].stop()
                raise errors.Unavailable("as if killed here")

        with stage.sink(fail_point=end_after_plan) as (sink, recorder):
            running.append(sink)
            stage.world.payments_made(20)
            stage.store_and_publish()
            eventually(lambda: recorder.failures, within_s=30)
        assert stage.value("select count(*) from sink_plan where state = 'planned'") == 1
        assert stage.replay("clickhouse", swap=True).swapped
        assert stage.value("select count(*) from sink_plan where state = 'planned'") == 0
        stage.drain()
        assert stage.counts() == stage.expected_counts()
        assert stage.replay(CLICKHOUSE).differences == 0


def test_a_sink_that_does_not_let_go_is_not_robbed(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """The holder renews its lease but never ends: the swap gives up, with one line, and nothing has changed."""
    monkeypatch.setattr(reconciliation_limits, "REPLAY_HOLD_WAIT_S", 1)
    monkeypatch.setattr(sinks_limits, "SINK_LEASE_MS", 60_000)
    with psycopg.connect(stage.dsn("millrace_sink"), autocommit=True) as connection:
        stage.sql("update sink_fence set owner_id = ''")
        fence = Fence(connection, sink="clickhouse", topic=stage.world.events_topic, owner_id="deaf")
        assert fence.claim()
        with pytest.raises(errors.Unavailable, match="does not let go"):
            stage.replay("clickhouse", swap=True)
        fence.hold_through()
        fence.release()


def test_two_replays_at_once_are_refused(stage: Stage) -> None:
    with psycopg.connect(stage.dsn("millrace_operator"), autocommit=True) as connection:
        connection.execute("select pg_advisory_lock(hashtext('millrace_replay'))")
        with pytest.raises(ValueError, match="another replay is under way"):
            stage.replay("account_balance")
        # now: the end of a session is noticed some time after the connection was closed
        connection.execute("select pg_advisory_unlock(hashtext('millrace_replay'))")


def test_a_replay_leaves_checkpoints_and_a_name_is_taken_once(stage: Stage) -> None:
    report = stage.replay("account_balance")
    with psycopg.connect(stage.dsn("millrace_operator"), autocommit=True) as connection:
        found = checkpoints.checkpoints_list(connection, limit=2)
        assert [c["name"] for c in found] == [report.checkpoint_end, report.checkpoint_begin]
        spec = {"scenario", "operation_id", "aggregate_key", "last_durable_version", "projection_checkpoint"}
        assert spec | {"retry_policy", "reconciliation_status", "owner"} <= found[0].keys()
        assert found[0]["reconciliation_status"] == "clean"
        assert found[0]["retry_policy"]["identity"] == "same"
        newest = (found[0]["created_at"], found[0]["name"])
        assert checkpoints.checkpoints_list(connection, limit=1, before=newest) == found[1:]
        again = checkpoints.Checkpoint(
            name=report.checkpoint_end, scenario="s", operation_id="o", projection_checkpoint=[], owner="me"
        )
        with pytest.raises(ValueError, match="there is a checkpoint"):
            checkpoints.checkpoint_write(connection, again)
        with pytest.raises(errors.NotFound, match="no checkpoint"):
            checkpoints.checkpoint_read(connection, "nowhere")
        assert checkpoints.checkpoint_positions(found[0], "another topic") == {}
        assert Position(0, 0) not in checkpoints.checkpoint_positions(found[0], stage.world.events_topic).values()


def test_a_check_of_all_is_the_word_on_every_checkpoint_before_it(stage: Stage) -> None:
    """That what was recovered is sound is proved by it, and by nothing else; what is proved stays so."""
    with psycopg.connect(stage.dsn("millrace_operator"), autocommit=True) as connection:

        def took(name: str) -> None:
            checkpoints.checkpoint_write(
                connection,
                checkpoints.Checkpoint(name=name, scenario="s", operation_id="o", projection_checkpoint=[], owner="me"),
            )

        def judged(begun_at: datetime, gaps: int) -> list[str]:  # of ours: other tests took some before
            found = checkpoints.checkpoints_judge(connection, begun_at=begun_at, gaps=gaps)
            return [name for name in found if name in ("a", "b")]

        def said(*names: str) -> list[str]:
            return [checkpoints.checkpoint_read(connection, name)["reconciliation_status"] for name in names]

        took("a")
        begun_at = checkpoints.database_time(connection)
        took("b")  # while the check ran: it has not seen what came of it
        assert judged(begun_at, gaps=2) == ["a"]
        assert said("a", "b") == ["gaps", "pending"]
        assert judged(begun_at, gaps=1) == []
        begun_at = checkpoints.database_time(connection)
        assert judged(begun_at, gaps=0) == ["a", "b"]
        assert judged(begun_at, gaps=3) == []
        assert said("a", "b") == ["clean", "clean"]
