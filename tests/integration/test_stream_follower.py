"""A follower on real servers: fenced, never past what is missing, and in the topic that it has read."""

from __future__ import annotations

from contextlib import ExitStack, closing
from typing import TYPE_CHECKING

import psycopg
import pytest
from confluent_kafka.admin import NewTopic
from prometheus_client import CollectorRegistry

from schemas import errors
from schemas.payments import topics
from sinks import limits
from sinks.kafka.admin import KafkaAdmin
from sinks.kafka.topic_offsets import Held
from sinks.streams.follower import Followed, Follower
from sinks.streams.metrics import FollowerMetrics
from sinks.streams.record_positions import RecordPositions
from sinks.streams.standing_still import StandsStill
from tests.eventually import eventually
from tests.worlds.committed_world import publish_all
from tests.worlds.sink_stage import Stage, new_stage
from tests.worlds.stream_positions import expire, stored

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sinks.streams.positions import Taken
    from tests.servers import World

pytestmark = pytest.mark.servers

ROLE = "millrace_worker"


@pytest.fixture
def stage(stack: World) -> Iterator[Stage]:
    """A history of payments, published."""
    with new_stage(stack.settings, payments=20) as made:
        made.store_and_publish()
        yield made


@pytest.fixture
def following(stage: Stage) -> Iterator[Callable[[str], Follower]]:
    """Members of one group, by name."""
    with ExitStack() as members:

        def member(name: str) -> Follower:
            followed = Followed(follower="test", topic=stage.world.events_topic, group="test", gather_ms=20)
            metrics = FollowerMetrics("test", CollectorRegistry())
            return members.enter_context(closing(Follower(stage.kafka, stage.dsn(ROLE), followed, name, metrics)))

        yield member


def some(follower: Follower) -> list[Taken]:
    """The next events, once there are some."""
    return eventually(lambda: follower.read(500, 0.2), within_s=40, what="events")


def drained(follower: Follower, count: int) -> list[tuple[int, int]]:
    """Partition and seq of that many events, in the order in which they came; their positions are stored at the end."""
    found: list[tuple[int, int]] = []

    def enough() -> bool:
        taken = follower.read(500, 0.2)
        follower.mark_done(taken)
        found.extend((one.partition, accepted.event.seq) for one in taken for accepted in one.events)
        return len(found) >= count

    eventually(enough, within_s=40, what="all events")
    follower.close()
    return found


def superuser(stage: Stage) -> psycopg.Connection:
    return psycopg.connect(stage.dsn(), autocommit=True)


def carry_out(stage: Stage, follower: Follower, taken: list[Taken]) -> None:
    """An effect and the positions behind its events, in one transaction."""
    with psycopg.connect(stage.dsn(ROLE)) as work, work.transaction():
        work.execute("insert into effect values (1)")
        follower.advance(work, taken)


def stands(follower: Follower, words: str) -> None:
    """It reads nothing of what stands still, and says why."""

    def told() -> bool:
        follower.read(500, 0.2)
        return words in (follower.why_not_ready() or "")

    eventually(told, within_s=40, what=words)


def test_every_event_is_taken_once_in_order_over_restarts(stage: Stage, following: Callable[[str], Follower]) -> None:
    first = drained(following("one"), len(stage.world.commits))
    assert sorted(first) == sorted((c.partition, c.seq) for c in stage.world.commits)
    stage.world.payments_made(5)
    before = len(first)
    stage.store_and_publish(repeat_last=30)
    second = drained(following("two"), len(stage.world.commits) - before)
    assert sorted(first + second) == sorted((c.partition, c.seq) for c in stage.world.commits)


def test_who_was_replaced_while_it_slept_stores_nothing(stage: Stage, following: Callable[[str], Follower]) -> None:
    """A higher epoch has the partition: the transaction of the one that wakes up is refused, with all its effects."""
    sleeper = following("sleeper")
    taken = some(sleeper)
    with superuser(stage) as connection:
        connection.execute("update stream_position set epoch = epoch + 1, holder = 'another'")
        before = stored(connection, "test")
        connection.execute("create table effect (n int)")
        connection.execute(f"grant insert on effect to {ROLE}")
    with pytest.raises(errors.Fenced):
        carry_out(stage, sleeper, taken)
    assert stage.value("select count(*) from effect") == 0
    sleeper.mark_done(taken)
    eventually(lambda: not sleeper.read(500, 0.2) and "another process follows" in str(sleeper.why_not_ready()))
    with superuser(stage) as connection:
        assert stored(connection, "test") == before
    assert sorted(drained(sleeper, len(stage.world.commits))) == sorted(
        (c.partition, c.seq) for c in stage.world.commits
    )


def test_effects_and_position_are_of_one_transaction(stage: Stage, following: Callable[[str], Follower]) -> None:
    """Rolled back, the events come again; committed, they do not."""
    follower = following("one")
    taken = some(follower)
    with psycopg.connect(stage.dsn(ROLE)) as work, work.transaction(force_rollback=True):
        follower.advance(work, taken)
    follower.begin_again(errors.Unavailable("the handler failed"))
    again = some(follower)
    assert {(one.partition, one.events[0].event.seq) for one in again} >= {
        (one.partition, one.events[0].event.seq) for one in taken if one.partition in {a.partition for a in again}
    }
    with psycopg.connect(stage.dsn(ROLE)) as work:
        follower.advance(work, again)
    with superuser(stage) as connection:
        positions = stored(connection, "test")
    for one in again:
        assert positions[one.partition] == (one.position.next_offset, one.position.last_seq)


def test_a_gap_moves_no_position_and_no_other_partition_stores_it(
    stage: Stage, following: Callable[[str], Follower]
) -> None:
    """What is read ahead of a gap counts for nothing, also when events of other partitions are stored meanwhile."""
    drained(following("one"), len(stage.world.commits))
    with superuser(stage) as connection:
        before = stored(connection, "test")
    old = len(stage.world.commits)
    stage.world.payments_made(20)
    fresh = stage.world.commits[old:]
    of_gap = [c for c in fresh if c.partition == fresh[0].partition]
    others = [c for c in fresh if c.partition != fresh[0].partition]
    assert len(of_gap) > 1
    with superuser(stage) as connection:
        stage.world.store(connection)
    publish_all(stage.kafka, stage.world.events_topic, ((c.partition, "x", c.payload) for c in of_gap[1:]))
    publish_all(stage.kafka, stage.world.events_topic, ((c.partition, "x", c.payload) for c in others))
    follower = following("two")
    stands(follower, "missing")
    drained(follower, 0)
    follower = following("three")
    stands(follower, "missing")
    drained(follower, 0)
    with superuser(stage) as connection:
        assert stored(connection, "test")[of_gap[0].partition] == before[of_gap[0].partition]
    publish_all(stage.kafka, stage.world.events_topic, ((c.partition, "x", c.payload) for c in of_gap))
    found = drained(following("four"), len(of_gap))
    assert [place for place in found if place[0] == of_gap[0].partition] == [(c.partition, c.seq) for c in of_gap]


def test_a_topic_that_was_made_again_is_not_taken_for_the_one_that_was_read(
    stage: Stage, following: Callable[[str], Follower]
) -> None:
    """Rule: nothing vanishes silently. Its events are published again, and a person sets the positions anew."""
    drained(following("one"), len(stage.world.commits))
    removed(stage)
    made(stage)
    publish_all(stage.kafka, stage.world.events_topic, ((c.partition, "x", c.payload) for c in stage.world.commits))
    follower = following("two")
    stands(follower, "made again")
    assert follower.read(500, 0.5) == []
    follower.close()
    stage.world.payments_made(5)
    everything = [(c.partition, c.seq) for c in stage.world.commits]
    stage.store_and_publish()
    with superuser(stage) as connection:
        done = {p: seq for p, (_, seq) in stored(connection, "test").items()}
        connection.execute("update stream_position set next_offset = 0, topic_id = ''")
    new = [(p, seq) for p, seq in everything if seq > done[p]]
    assert sorted(drained(following("three"), len(new))) == sorted(new)


def test_a_topic_that_is_shorter_than_our_position_stops_us(stage: Stage, following: Callable[[str], Follower]) -> None:
    """Kafka lost its end: the position is not set back, and nothing is read as if it had been the next."""
    drained(following("one"), len(stage.world.commits))
    with superuser(stage) as connection:
        connection.execute("update stream_position set next_offset = next_offset + 1000")
    stands(following("two"), "the topic ends at offset")


def test_events_that_the_database_does_not_have_are_not_followed(
    stage: Stage, following: Callable[[str], Follower]
) -> None:
    """A database of an earlier moment: what Kafka was told since is no more, and nobody is to be charged or told for it."""
    drained(following("before"), len(stage.world.commits))
    known = len(stage.world.commits)
    stage.world.payments_made(3)
    stage.store_and_publish()
    new = {(c.partition, c.seq) for c in stage.world.commits[known:]}
    partition, last = min(new)
    stage.sql(f"delete from outbox where partition = {partition} and seq >= {last}")
    with superuser(stage) as connection:
        before = stored(connection, "test")
        older = following("older")
        stands(older, "a copy of an earlier moment")
        assert isinstance(older.why_not_ready(), StandsStill)
        older.mark_done(older.read(500, 0.2))
        older.close()
        assert stored(connection, "test")[partition] == before[partition]
    expire(stage.kafka, stage.world.events_topic, partition)
    stands(following("after"), "Kafka has deleted offsets")  # who publishes them again, says what there is


def test_what_expires_under_a_follower_that_runs_stops_it(stage: Stage, following: Callable[[str], Follower]) -> None:
    """Kafka deletes what lies before it; the position says so as soon as it is fetched from."""
    drained(following("one"), len(stage.world.commits))
    partition = stage.world.commits[0].partition
    with superuser(stage) as connection:
        connection.execute(
            "update stream_position set next_offset = 0, last_seq = 0 where partition = %s", (partition,)
        )
    expire(stage.kafka, stage.world.events_topic, partition)
    follower = following("two")
    stands(follower, "Kafka has deleted offsets 0 to")
    with superuser(stage) as connection:
        assert stored(connection, "test")[partition] == (0, 0)


def test_what_was_deleted_unread_and_is_published_again_is_read_without_anybody_s_help(
    stage: Stage, following: Callable[[str], Follower]
) -> None:
    """The follower that stands there goes on, and so does one that begins there; what they have comes from no other."""
    mine = [c for c in stage.world.commits if c.partition == 3]
    drained(following("one"), len(stage.world.commits))
    with superuser(stage) as connection:
        connection.execute("update stream_position set next_offset = 2, last_seq = 2 where partition = 3")
    expire(stage.kafka, stage.world.events_topic, 3)
    publish_all(stage.kafka, stage.world.events_topic, [(3, "x", mine[-1].payload)])  # what came last is still there
    follower = following("two")
    stands(follower, "Kafka has deleted offsets 2 to")
    assert follower.read(500, 0.5) == []
    publish_all(stage.kafka, stage.world.events_topic, ((3, "x", c.payload) for c in mine[1:]))
    assert drained(follower, len(mine) - 2) == [(3, c.seq) for c in mine[2:]]
    with superuser(stage) as connection:
        assert stored(connection, "test")[3][1] == len(mine)


def test_what_comes_with_the_assignment_is_read_from_where_the_topic_begins(
    stage: Stage, following: Callable[[str], Follower]
) -> None:
    """It may be of an assignment that ended, and is read again: not from a position that Kafka has deleted."""
    mine = [c for c in stage.world.commits if c.partition == 3]
    drained(following("one"), len(stage.world.commits))
    with superuser(stage) as connection:
        connection.execute("update stream_position set next_offset = 2, last_seq = 2 where partition = 3")
    expire(stage.kafka, stage.world.events_topic, 3)
    publish_all(stage.kafka, stage.world.events_topic, ((3, "x", c.payload) for c in mine[2:]))
    follower = following("two")
    # waits until it is assigned partitions, and for what they bring
    (taken,) = eventually(lambda: follower.read(500, 10), within_s=60, what="what the topic has left")
    assert [one.event.seq for one in taken.events] == [c.seq for c in mine[2:]][: len(taken.events)]


def test_what_expires_while_nothing_is_fetched_is_gone_on_behind_in_the_same_assignment(
    stage: Stage, following: Callable[[str], Follower], capfd: pytest.CaptureFixture[str]
) -> None:
    """Kafka says that the position is not there; reading goes on where the topic begins, and nobody leaves the group."""
    follower = following("one")
    seen = 0
    while seen < len(stage.world.commits):
        follower.mark_done(taken := some(follower))
        seen += sum(len(one.events) for one in taken)
    consumer = follower._consumer  # there is no other way to keep it from fetching
    assert consumer is not None
    places = consumer.assignment()
    consumer.pause(places)
    mine = [c for c in stage.world.commits if c.partition == 3]
    stage.world.payments_made(30)
    stage.store_and_publish()
    new = [c for c in stage.world.commits if c.partition == 3][len(mine) :]
    expire(stage.kafka, stage.world.events_topic, 3)
    consumer.resume(places)
    stands(follower, "partition 3: Kafka has deleted offsets")
    publish_all(stage.kafka, stage.world.events_topic, ((3, "x", c.payload) for c in new))
    (found,) = (one for one in eventually(lambda: mine_of(follower.read(500, 0.2))) if one.partition == 3)
    assert found.events[0].event.seq == new[0].seq
    assert "stream_begins_again" not in capfd.readouterr().out


def mine_of(taken: list[Taken]) -> list[Taken]:
    return [one for one in taken if one.partition == 3]


def test_positions_without_seq_are_moved_by_who_claimed_last_and_never_back(stage: Stage) -> None:
    """The streams of the limiter: who was replaced moves nothing, and its transaction is not committed."""
    first, second = (RecordPositions("records", "some.topic", 2, name) for name in ("first", "second"))
    with psycopg.connect(stage.dsn("millrace_leases"), autocommit=True) as connection:
        assert first.claim(connection) == {0: 0, 1: 0}
        first.advance(connection, {0: 5, 1: 2})
        first.advance(connection, {0: 3})
        assert second.claim(connection) == {0: 5, 1: 2}
        with pytest.raises(errors.Fenced):
            first.advance(connection, {0: 9})
        second.advance(connection, {1: 7})
        assert stored(connection, "records") == {0: (5, -1), 1: (7, -1)}


def test_records_of_a_topic_that_was_made_again_are_read_from_its_beginning(stage: Stage) -> None:
    """Its offsets are others: read on from the position of before, what the new one begins with would be in no total."""
    with psycopg.connect(stage.dsn("millrace_leases"), autocommit=True) as connection:

        def begins(topic_id: str, low: int = 0) -> dict[int, int]:
            positions = RecordPositions("again", "some.topic", 2, "one")
            positions.claim(connection)
            found = positions.begin(connection, dict.fromkeys(range(2), Held(topic_id, low, 900)))
            positions.advance(connection, {0: found[0] + 5})
            return found

        assert begins("") == {0: 0, 1: 0}  # before a release that knew of topics
        assert [begins("first") for _ in range(2)] == [{0: 5, 1: 0}, {0: 10, 1: 0}]
        assert [begins("second", 2) for _ in range(2)] == [{0: 2, 1: 2}, {0: 7, 1: 2}]


def removed(stage: Stage) -> None:
    admin = KafkaAdmin(stage.kafka.admin())
    name = stage.kafka.topic(stage.world.events_topic)
    for gone in admin.delete_topics([name]).values():
        gone.result(limits.KAFKA_TOPICS_TIMEOUT_S)
    eventually(lambda: name not in admin.list_topics(timeout=limits.KAFKA_TOPICS_TIMEOUT_S).topics, within_s=30)


def made(stage: Stage) -> None:
    admin = KafkaAdmin(stage.kafka.admin())
    wanted = NewTopic(stage.kafka.topic(stage.world.events_topic), topics.PARTITIONS)
    for new in admin.create_topics([wanted]).values():
        new.result(limits.KAFKA_TOPICS_TIMEOUT_S)


def test_a_topic_that_is_not_there_yet_is_waited_for(stage: Stage, following: Callable[[str], Follower]) -> None:
    """A service may start before its topics: it is not ready, and follows once they are made."""
    removed(stage)
    follower = following("early")
    stands(follower, "no partitions yet")
    for _ in range(10):  # Kafka says that there is no such topic
        assert follower.read(500, 0.5) == []
    made(stage)
    publish_all(stage.kafka, stage.world.events_topic, ((c.partition, "x", c.payload) for c in stage.world.commits))
    found = drained(follower, len(stage.world.commits))
    assert sorted(found) == sorted((c.partition, c.seq) for c in stage.world.commits)
