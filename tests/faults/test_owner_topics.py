"""Topics that do not hold what Postgres has read, or do not take what it has committed: told, and never silently skipped."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest

from dataflows.owner.drivers import Driver
from reconciliation.partitions import partition_resume, partition_resume_from, partitions_list
from reconciliation.republish import republish
from schemas.errors import StateConflict
from tests.eventually import becomes, eventually
from tests.faults.owned_topics import OTHER, PARTITION, OwnedTopics, owned_topics
from tests.gate import matrix

if TYPE_CHECKING:
    from tests.servers import World

pytestmark = [pytest.mark.servers, pytest.mark.faults]
DRIVERS = matrix(("plain", "bytewax"), "bytewax".__eq__)


@pytest.fixture
def world(stack: World) -> OwnedTopics:
    return owned_topics(stack)


def _resume(world: OwnedTopics, start: str | None = None, partition: int = PARTITION) -> None:
    with psycopg.connect(world.operator_dsn, autocommit=True) as connection:
        if start is None:
            partition_resume(connection, world.commands, partition, "ada", "a test")
        else:
            partition_resume_from(connection, world.kafka, world.commands, partition, "ada", "a test", start=start)


def _advice(world: OwnedTopics, partition: int = PARTITION) -> str:
    with psycopg.connect(world.operator_dsn, autocommit=True) as connection:
        return next(row["advice"] for row in partitions_list(connection) if row["partition"] == partition)


@pytest.mark.parametrize("driver", DRIVERS)
def test_a_topic_made_again_halts_and_goes_on_with_what_it_holds_once_that_is_accepted(
    world: OwnedTopics, driver: Driver
) -> None:
    """A 202 below the stored position would be pending for ever; and places of commands are never used twice."""
    old, new = world.make(5), world.make(3)
    world.send(*old)
    with world.owned(driver):
        world.await_decided(*old)
    world.make_again(world.commands)
    world.send(*new)
    with world.owned(driver):
        world.await_halted("topic_replaced")
        assert "--from low" in _advice(world)
        eventually(lambda: "halted" in world.stands_still().get(PARTITION, ""), what="/readyz says it")
        _resume(world)
        world.await_halted("topic_replaced")
        assert world.decided() == {one.aggregate_key for one in old}
        _resume(world, "low")
        world.await_decided(*new)
        assert PARTITION not in world.stands_still()
    assert world.query('select "offset" from idempotency order by 1') == [(n,) for n in range(8)]


def test_a_topic_that_is_shorter_than_what_was_read_halts_that_partition_only(world: OwnedTopics) -> None:
    """In a database of an earlier version, which knows no topic yet: the offsets alone say it."""
    old, lost, other = world.make(5), world.make(2), world.make(3, OTHER)
    world.send(*old)
    with world.owned():
        world.await_decided(*old)
    world.change("update partition_owner set topic_id = null")
    world.make_again(world.commands)
    world.send(*lost)
    world.send(*other, partition=OTHER)
    with world.owned():
        world.await_halted("topic_shorter")
        world.await_decided(*other)
        assert world.halted().keys() == {PARTITION}
        _resume(world, "low")
        world.await_decided(*lost)
    known = world.query("select topic_id from partition_owner where partition = %s", OTHER)
    assert known == [(world.held(OTHER).topic_id,)], "filled at the first take"


def test_commands_that_expired_while_nobody_read_are_told(world: OwnedTopics) -> None:
    """The owner was away for longer than the topic keeps its records."""
    read, expired, left, other = world.make(2), world.make(3), world.make(2), world.make(2, OTHER)
    world.send(*read)
    with world.owned():
        world.await_decided(*read)
    world.send(*expired, *left)
    world.expire(world.commands, 5)
    world.send(*other, partition=OTHER)
    with world.owned():
        world.await_halted("commands_expired")
        world.await_decided(*other)
        with pytest.raises(StateConflict):
            _resume(world, "4")
        _resume(world, "low")
        world.await_decided(*left)
    assert not world.decided() & {one.aggregate_key for one in expired}


def test_commands_that_expired_while_their_partition_was_halted_are_told(world: OwnedTopics) -> None:
    """What is cleared for one reason does not go on past another."""
    read, expired, left = world.make(2), world.make(3), world.make(2)
    world.send(*read)
    with world.owned():
        world.await_decided(*read)
    world.change(f"update partition_owner set halted = 'a test' where partition = {PARTITION}")
    with world.owned():
        eventually(lambda: PARTITION in world.stands_still(), what="halted")
        world.send(*expired, *left)
        world.expire(world.commands, 5)
        _resume(world)
        eventually(lambda: world.halted().get(PARTITION, "").startswith("commands_expired: "), 40, what="halted again")
        _resume(world, "low")
        world.await_decided(*left)


def test_a_topic_made_again_under_a_running_owner_halts(world: OwnedTopics) -> None:
    """No consumer resets itself to where nothing is lost."""
    old, new = world.make(5), world.make(3)
    world.send(*old)
    with world.owned():
        world.await_decided(*old)
        world.make_again(world.commands)
        world.send(*new)
        world.await_halted("topic_replaced")
        _resume(world, "low")
        world.await_decided(*new)


def test_a_database_that_is_older_than_what_kafka_was_told_decides_nothing(world: OwnedTopics) -> None:
    """Restored, it would decide again what is known outside, and give ids of events away twice."""
    before, lost, new, other = world.make(3), world.make(2), world.make(2), world.make(2, OTHER)
    world.send(*before)
    world.send(*other, partition=OTHER)
    with world.owned():
        world.await_decided(*before, *other)
    older = world.copied()
    world.send(*lost)
    with world.owned():
        world.await_decided(*lost)
        becomes(world.published_seq, 5, what="published")
    told = world.read_by_seq()
    older.send(*new)
    later = older.make(1, OTHER)
    older.send(*later, partition=OTHER)
    with older.owned():
        assert "'committed': 3, 'told': 5" in older.await_halted("database_older")
        assert "bring back the newer one" in _advice(older)
        older.await_decided(*later)
        assert older.halted().keys() == {PARTITION}
        _resume(older, "low")
        older.await_halted("database_older")
    assert older.read_by_seq() == told
    assert not older.decided() & {one.aggregate_key for one in (*lost, *new)}
    with world.owned():  # the newer one is back
        world.await_decided(*new)
    older.expire(older.events, -1)
    with older.owned():  # or there is none, and nobody is to read what was told
        _resume(older)
        older.await_decided(*lost, *new)


def test_an_offset_that_is_missing_halts(world: OwnedTopics) -> None:
    """Command topics have no transactions and are not compacted: whatever is missing was a command."""
    first, second = world.make(2), world.make(2)
    world.send_in_a_transaction(*first)
    world.send(*second)
    with world.owned():
        reason = world.await_halted("gap_in_offsets")
        assert "'expected': 2, 'found': 3" in reason
        assert world.decided() == {one.aggregate_key for one in first}, "what came before it is decided"
        _resume(world, "0")
        eventually(lambda: "'found': 3" in world.halted().get(PARTITION, ""), 40, what="read again, and halted again")
        _resume(world, "3")
        world.await_decided(*second)


@pytest.mark.parametrize("driver", DRIVERS)
def test_an_event_that_kafka_refuses_is_published_before_those_after_it(world: OwnedTopics, driver: Driver) -> None:
    """Else a later acknowledgement would stand for it, and its payment would be processing for ever."""
    small, refused, later = world.make(2), world.make(3), world.make(3)
    other = world.make(2, OTHER)
    with world.owned(driver):
        world.send(*small)
        world.await_decided(*small)
        becomes(world.published_seq, 2, what="published")
        world.refuse_above(world.events, 200)
        world.send(*refused)
        world.send(*other, partition=OTHER)
        eventually(lambda: "refuses" in world.stands_still().get(PARTITION, ""), what="/readyz says it")
        assert world.published_seq() == 2
        world.refuse_none(world.events)
        world.send(*later)
        world.await_decided(*refused, *later, *other)
        becomes(world.published_seq, 8, what="published")
        assert world.read_by_seq() == world.outbox()
        becomes(world.stands_still, {}, what="/readyz says no more")
    assert world.read_by_seq(OTHER) == world.outbox(OTHER)


def test_an_operator_fills_a_topic_again_from_the_outbox(world: OwnedTopics) -> None:
    """While its owner goes on; readers that know the events drop them, the others read on."""
    before, meanwhile = world.make(6), world.make(4)
    service = world.events.split(".")[1]
    with world.owned(), psycopg.connect(world.operator_dsn, autocommit=True) as connection:
        world.send(*before)
        world.await_decided(*before)
        becomes(world.published_seq, 6, what="published")
        world.expire(world.events, 4)
        assert world.read_by_seq() == []
        world.send(*meanwhile)
        assert republish(connection, world.kafka, service, PARTITION, 1, "ada", "a test") >= 6
        with pytest.raises(StateConflict):
            republish(connection, world.kafka, service, PARTITION, 11, "ada", "")
        world.await_decided(*meanwhile)
        becomes(world.read_by_seq, world.outbox(), what="the outbox, read by seq")
    logged = world.query("select action, outcome from audit_log where actor = 'ada' order by seq")
    assert logged == [("partition.republish", outcome) for outcome in ("begun", "done", "begun", "refused")]
