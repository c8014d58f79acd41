"""Owners killed, frozen, doubled and cut off. After each fault every command has exactly one effect."""

from __future__ import annotations

import itertools
import os
import signal
from collections import deque
from typing import TYPE_CHECKING

import psycopg
import pytest
from confluent_kafka import KafkaException

from dataflows import limits
from dataflows.owner import fail_points
from reconciliation.partitions import partition_resume_from
from schemas import topics
from schemas.payments import topics as payments_topics
from tests.eventually import eventually, patient
from tests.faults.owners import OwnerWorld, command
from tests.faults.payments.bank_reads import bank_reads
from tests.freezing import freeze
from tests.gate import examples, matrix
from tests.servers import process_id

if TYPE_CHECKING:
    from collections.abc import Callable

    from compose.settings.settings import Settings

pytestmark = [pytest.mark.servers, pytest.mark.faults]

#: the owner's own; after_park has a test below, the others belong to other processes
OWNER_POINTS = fail_points.NAMES[:6]
#: of each driver the place that differs most: nothing is final yet, and all is final but nobody knows
GATE = {("before_commit", "plain"), ("after_commit_before_publish", "bytewax")}


@pytest.mark.parametrize(
    "place", matrix(itertools.product(OWNER_POINTS, ("bytewax", "plain")), GATE.__contains__), ids="-".join
)
def test_killed_at_every_fail_point(owner_world: OwnerWorld, place: tuple[str, str]) -> None:
    """Rule: SIGKILL at any point loses nothing and doubles nothing; another owner goes on within 10 s."""
    name, driver = place
    doomed = owner_world.start_owner(f"{name}:3", driver)
    owner_world.send_payments(20)

    def is_dead() -> bool:
        """Sent before every look: how many of them a transaction takes is for the owner to decide."""
        owner_world.send_payments(1)
        return doomed.poll() is not None

    eventually(is_dead, 30, what="the fail point")
    assert doomed.returncode == -signal.SIGKILL
    owner_world.start_owner(driver=driver)
    owner_world.await_all()
    owner_world.assert_exact()


@pytest.mark.proof
def test_killed_after_parking(owner_world: OwnerWorld) -> None:
    """A record that cannot be read is kept, the partition goes on, also when the owner dies just then."""
    doomed = owner_world.start_owner("after_park_before_publish")
    marker = os.urandom(12)
    owner_world.append(b"\x00not a command" + marker, "any")
    assert owner_world.producer.flush(patient(10)) == 0
    eventually(lambda: doomed.poll() is not None, 30, what="the fail point")
    owner_world.start_owner()
    owner_world.send_payments(5)
    owner_world.await_all()
    owner_world.assert_exact()
    found = owner_world.query(
        "select published, reason from dead_letter where record = %s", b"\x00not a command" + marker
    )
    assert len(found) == 1
    assert found[0][0] is True
    assert "unknown_schema" in found[0][1]


def test_zombie_wakes_up_after_a_take_over(owner_world: OwnerWorld) -> None:
    """A frozen owner whose partitions were taken writes nothing when it wakes; every read of all balances adds up."""
    with bank_reads(owner_world.dsn):
        zombie = owner_world.start_owner()
        owner_world.send_payments(10)
        owner_world.await_all()
        freeze(zombie.pid)
        owner_world.start_owner()
        owner_world.send_payments(10)
        owner_world.await_all()
        zombie.send_signal(signal.SIGCONT)
        owner_world.send_payments(10)
        owner_world.await_all()
    owner_world.assert_exact()


@pytest.mark.proof
def test_frozen_in_the_middle_of_a_transaction(owner_world: OwnerWorld) -> None:
    """The row lock of a frozen owner's transaction is freed by the database, and its commit never happens."""
    zombie = owner_world.start_owner()
    owner_world.send_payments(5)
    owner_world.await_all()
    with psycopg.connect(owner_world.dsn, autocommit=True) as watcher:

        def in_the_middle() -> object:
            """Sent before every look: what was sent once may be done before anybody looks."""
            owner_world.send_payments(50, duplicates=False)
            return watcher.execute(
                "select 1 from pg_stat_activity where usename = 'millrace_owner' and xact_start is not null"
            ).fetchone()

        eventually(in_the_middle, 10)
    freeze(zombie.pid)
    owner_world.start_owner()
    owner_world.await_all()
    zombie.send_signal(signal.SIGCONT)
    owner_world.send_payments(10)
    owner_world.await_all()
    owner_world.assert_exact()


def test_two_owners_started_for_the_same_partitions(owner_world: OwnerWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two groups, each told by Kafka that it owns everything: the epoch lets one write at a time."""
    monkeypatch.setenv("MILLRACE_OWNER_GROUP", "owner-payments-twin")
    owner_world.start_owner()
    monkeypatch.delenv("MILLRACE_OWNER_GROUP")
    owner_world.start_owner()
    for _ in range(5):
        owner_world.send_payments(20)
    owner_world.await_all()
    owner_world.assert_exact()


@pytest.mark.proof
def test_partitions_move_while_commands_are_in_flight(owner_world: OwnerWorld) -> None:
    """Owners come and go by starting and stopping them; nothing else is done."""
    first = owner_world.start_owner()
    owner_world.send_payments(30)
    eventually(lambda: owner_world.committed() > 0, 30, what="the first owner at work")
    owner_world.start_owner()
    owner_world.send_payments(30)
    first.terminate()
    owner_world.send_payments(30)
    assert first.wait(patient(20)) == 0
    owner_world.start_owner()
    owner_world.send_payments(30)
    owner_world.await_all()
    owner_world.assert_exact()


@pytest.mark.parametrize("server", ["postgres", "kafka"])
def test_server_killed_under_load(owner_world: OwnerWorld, fault_settings: Settings, server: str) -> None:
    """A killed server comes back with its data, and the owner with it, without a human step."""
    owner_world.start_owner()
    owner_world.send_payments(20)
    os.kill(process_id(fault_settings, server), signal.SIGKILL)
    eventually(lambda: _is_back(owner_world), 60, what=f"{server} restarted")
    owner_world.send_payments(20)
    owner_world.await_all(60)
    owner_world.assert_exact()


def test_poison_command_parks_its_aggregate_only(owner_world: OwnerWorld) -> None:
    """A command that fails twice, alone, is parked; its neighbours in the batch commit."""
    poisoned = command(
        "create_payment_intent",
        f"poison-{os.urandom(6).hex()}",
        {"amount": 5, "currency": "USD", "payment_method": "tok_sim_approve"},
    )
    intent = poisoned.aggregate_key
    with psycopg.connect(owner_world.dsn, autocommit=True) as superuser:
        superuser.execute(f"alter table payment_intent add constraint poison check (id <> '{intent}') not valid")
        owner_world.send_payments(10)
        owner_world.send(poisoned)
        owner_world.send_payments(10)
        owner_world.start_owner()
        owner_world.await_all()
        eventually(
            lambda: owner_world.query("select 1 from parked_aggregate where aggregate_key = %s", intent),
            30,
            what="parked, while what it fails on is still there",
        )
        superuser.execute("alter table payment_intent drop constraint poison")
    assert owner_world.query("select state from dead_letter where aggregate_key = %s", intent) == [("open",)]
    assert owner_world.query("select reason from parked_aggregate where aggregate_key = %s", intent)[0][0].startswith(
        "psycopg.errors.CheckViolation"
    )
    owner_world.assert_exact()


def test_unbalanced_posting_halts_its_partition_only(owner_world: OwnerWorld) -> None:
    """Fail closed: a broken ledger stops one partition for every owner; others serve; clearing it goes on."""
    owner_world.start_owner()
    owner_world.send_payments(5)
    owner_world.await_all()
    with psycopg.connect(owner_world.dsn, autocommit=True) as superuser:
        superuser.execute(
            "create function spoil() returns trigger language plpgsql as $$ begin"
            " if new.account_id like 'platform_fee_income:%%' and new.txn_id >> 48 = 0 then new.credit := new.credit + 1; end if;"
            " return new; end $$;"
            "create trigger spoil before insert on ledger_entry for each row execute function spoil()"
        )
        owner_world.send_payments(150)  # so many that each of eight partitions has one
        halted = eventually(
            lambda: owner_world.query("select partition, halted from partition_owner where halted is not null"), 30
        )
        assert [p for p, _ in halted] == [0]
        assert "unbalanced_posting" in halted[0][1]
        waiting = [i for i in owner_world.sent if topics.partition_for(i, payments_topics.PARTITIONS) == 0]
        eventually(
            lambda: owner_world.committed() >= len(owner_world.sent) - len(waiting), 30, what="the others served"
        )
        superuser.execute("drop trigger spoil on ledger_entry; drop function spoil")
        superuser.execute("update partition_owner set halted = null")
    owner_world.await_all()
    owner_world.assert_exact()


def test_full_outbox_stops_reading_and_loses_nothing(owner_world: OwnerWorld, fault_settings: Settings) -> None:
    """When Kafka takes no events the owner commits up to its bound, stops, and goes on when Kafka does."""
    scale = examples(gate=20, proof=1)
    backlog = limits.PUBLISH_BACKLOG_MAX // scale
    in_hand = (limits.BATCHES_AHEAD_MAX + 2) * limits.BATCH_MESSAGES_MAX // scale  # read before the bound was reached
    # what Kafka acknowledged is stored with the next batch of its partition, and that one may not come any more
    not_stored = payments_topics.PARTITIONS * limits.BATCH_MESSAGES_MAX // scale
    kafka = process_id(fault_settings, "kafka")
    owner_world.send_payments((backlog + 5 * in_hand) // 3, duplicates=False)
    owner_world.start_owner(scale=scale)
    eventually(lambda: owner_world.committed() > 0, 30, what="the owner at work")
    freeze(kafka)
    try:
        _assert_steady(lambda: _unpublished(owner_world))
        assert 0 < _unpublished(owner_world) <= backlog + in_hand + not_stored
        assert owner_world.committed() < len(owner_world.sent)
    finally:
        os.kill(kafka, signal.SIGCONT)
    owner_world.await_all(60)
    owner_world.assert_exact()


def test_an_owner_ends_though_kafka_says_nothing(owner_world: OwnerWorld, fault_settings: Settings) -> None:
    """Its group hears nothing of it; another owner gets its partitions as those of one that was killed."""
    owner_world.send_payments(10)
    owner = owner_world.start_owner(scale=100)
    owner_world.await_all()
    kafka = process_id(fault_settings, "kafka")
    freeze(kafka)
    try:
        owner.terminate()
        assert owner.wait(patient(20)) == 0
    finally:
        os.kill(kafka, signal.SIGCONT)
    assert "group_not_left" in owner_world.log(owner)
    owner_world.start_owner()
    owner_world.send_payments(10)
    owner_world.await_all()
    owner_world.assert_exact()


@pytest.mark.parametrize("grown", matrix([False, True], gate=bool), ids=["shorter", "as long again"])
def test_a_command_log_that_lost_its_end_halts_its_partition_only(
    owner_world: OwnerWorld, fault_settings: Settings, grown: bool
) -> None:
    """As after a power cut: the same topic, shorter, or grown over its old end before an owner looks."""
    owner = owner_world.start_owner()
    owner_world.send_payments(40)
    owner_world.await_all()
    if grown:
        owner.terminate()
        assert owner.wait(patient(20)) == 0
    _cut_partition_0(fault_settings)
    eventually(lambda: _is_back(owner_world), 60, what="Kafka restarted")
    if grown:
        owner_world.send_payments(120)
        owner_world.start_owner()
    halted = eventually(
        lambda: owner_world.query("select partition, halted from partition_owner where halted is not null"), 60
    )
    assert [partition for partition, _ in halted] == [0]
    assert halted[0][1].startswith("topic_shorter: ")
    owner_world.send_payments(40)
    waiting = [i for i in owner_world.sent if topics.partition_for(i, payments_topics.PARTITIONS) == 0]
    eventually(lambda: owner_world.committed() >= len(owner_world.sent) - len(waiting), 30, what="the others served")
    with psycopg.connect(owner_world.dsn, autocommit=True) as operator:
        place = (payments_topics.COMMANDS, 0)
        partition_resume_from(operator, owner_world.kafka, *place, "ada", "a power cut", start="low")
    owner_world.await_all()
    owner_world.assert_exact()


def _cut_partition_0(settings: Settings) -> None:
    kafka = process_id(settings, "kafka")
    freeze(kafka)  # its supervisor would start it before the log is cut
    for log in settings.the_home().data("kafka").rglob(f"{payments_topics.COMMANDS}-0/*.log"):
        os.truncate(log, 0)
    os.kill(kafka, signal.SIGKILL)


def _unpublished(world: OwnerWorld) -> int:
    return int(
        world.query(
            "select coalesce(sum(s.top - o.published_seq), 0) from partition_owner o"
            " join (select partition, max(seq) top from outbox group by 1) s using (partition)"
        )[0][0]
    )


def _assert_steady(read: Callable[[], int], turns: int = 50) -> None:
    """The value has come to rest: the same in so many readings in a row, within the usual bound."""
    seen: deque[int] = deque(maxlen=turns)

    def rests() -> bool:
        seen.append(read())
        return len(seen) == turns and len(set(seen)) == 1

    eventually(rests, 40, what="at rest")


def _is_back(world: OwnerWorld) -> bool:
    try:
        # a new session: one of before may be served for a moment by a process that outlives the killed server
        psycopg.connect(world.dsn).close()
        return bool(world.producer.list_topics(payments_topics.COMMANDS, timeout=5).topics)
    except (psycopg.OperationalError, KafkaException):
        return False


@pytest.mark.timeout(240)  # time-outs of transactions come true, by halves
def test_a_transaction_that_takes_too_long_gets_smaller(owner_world: OwnerWorld) -> None:
    """A slow database ends what takes longer than its bound: the same commands come in smaller pieces, each once."""
    with psycopg.connect(owner_world.dsn, autocommit=True) as superuser:
        superuser.execute(
            "create function slow() returns trigger language plpgsql as"
            " $$ begin perform pg_sleep(0.4); return new; end $$;"
            "create trigger slow before insert on idempotency for each row execute function slow()"
        )
        owner_world.send_payments(40, duplicates=False)
        owner_world.start_owner()
        owner_world.await_all()
        superuser.execute("drop trigger slow on idempotency; drop function slow")
    owner_world.send_payments(20)
    owner_world.await_all()
    owner_world.assert_exact()
