"""Commits under random batch boundaries, crashes at every fail point and zombies with an old epoch, on real Postgres.

The owner's own commit path, without Kafka: hundreds of steps a second.
"""

from __future__ import annotations

import random
import time
from collections import defaultdict
from importlib import resources
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from msgspec import structs
from structlog.testing import capture_logs

from dataflows.owner import fail_points
from dataflows.owner.batch import CommittedBatch, PartitionBatch, Record, Reply
from dataflows.owner.partition.leases import Lease, Leases
from dataflows.owner.transaction.commit import Committer, Share
from dataflows.owner.transaction.parking import commit_or_park, committed_together
from dataflows.payments.service import payments_service
from schemas import identity, topics
from schemas.avro import codec
from schemas.errors import ClockOff, Fenced, OwnershipLost, UndecodableRecord
from schemas.payments import topics as payments_topics
from schemas.payments import vouched
from sinks import limits as sinks_limits
from sinks.postgres.owner_connection import connect
from tests.gate import examples
from tests.property.owner_history import Step, Stored
from tests.property.payments import end_state
from tests.property.payments.history import History, published, random_history
from tests.worlds.payments import approved_outcomes
from tests.worlds.payments import payment_cases as cases

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dataflows.payments.policies import PolicyBook
    from schemas.records import Command

pytestmark = [pytest.mark.servers, pytest.mark.slow]
PARTITIONS = payments_topics.PARTITIONS
POINTS = ("before_claim", "after_claim", "after_decide", "before_commit", "after_commit_before_publish")


@pytest.fixture(autouse=True, scope="module")
def few_rows_are_copied() -> Iterator[None]:
    """Batches here are small; those of a busy owner are not."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sinks_limits, "COPY_ROWS_MIN", 3)
        yield


class Crash(OwnershipLost):
    """The process ends here."""


class Owners:
    """Owners of one history: the current one, and those that crashed or were taken over and do not know it."""

    def __init__(self, dsn: str, chance: random.Random, policies: PolicyBook) -> None:
        self.dsn, self.chance = dsn, chance
        self.service = payments_service(policies=policies)
        self.log: dict[int, list[Record]] = defaultdict(list)
        self.replies: list[Reply] = []
        self.zombies: list[tuple[Committer, list[Lease]]] = []
        self.crash_in: int | None = None
        self.rounds = 0  # of several partitions
        self.start()

    def start(self) -> None:
        self.committer = Committer(connect(self.dsn, "owner"), Leases(self.service, "owner"))
        leases = (self.committer.leases.acquire(self.committer.connection, p) for p in range(PARTITIONS))
        self.leases = [lease for lease in leases if lease is not None]

    def reach(self, point: str) -> None:
        assert point in fail_points.NAMES
        if point in POINTS and self.crash_in is not None:
            self.crash_in -= 1
            if self.crash_in < 0:
                self.crash_in = None
                raise Crash

    def append(self, step: Step) -> None:
        log = self.log[step.partition]
        data = step.garbage if step.command is None else codec.encode_command(step.command)
        record = Record(len(log), data)
        try:
            record.command = codec.decode_command(data)
        except UndecodableRecord as fault:
            record.fault = fault
        log.append(record)

    def run(self) -> None:
        """Commits until every partition is at its end, through whatever happens."""
        while any(lease.next_offset < len(self.log[lease.partition]) for lease in self.leases):
            if self.zombies and self.chance.random() < 0.2:
                self._zombie()
            self._turn()

    def _turn(self) -> None:
        if self.chance.random() < 0.15:
            self.crash_in = self.chance.randrange(8)
        elif self.chance.random() < 0.1:
            self.zombies.append((self.committer, self.chance.sample(self.leases, self.chance.choice((1, 3)))))
            self.start()
        leases = self.chance.sample(self.leases, self.chance.choice((1, 1, 2, 5)))
        shares = [share for lease in leases if (share := self._share(lease)).batch.records]
        try:
            for done in self._committed(shares):
                self.replies += done.replies
        except Crash:
            self.committer.connection.close()
            self.start()

    def _share(self, lease: Lease) -> Share:
        size = self.chance.choice((1, 2, 3, 7, 40))
        records = self.log[lease.partition][lease.next_offset : lease.next_offset + size]
        return Share(lease, PartitionBatch(lease.partition, records, lease.epoch), 0)

    def _committed(self, shares: list[Share]) -> Iterator[CommittedBatch]:
        """As a lane does it: several partitions together, and each alone when that fails."""
        if len(shares) > 1 and (together := committed_together(self.committer, shares)):
            self.rounds += 1
            yield from together
            return
        for share in shares:
            yield from commit_or_park(self.committer, share.lease, share.batch, 0)

    def _zombie(self) -> None:
        """A paused owner wakes up with a round in its hands: it must not write a row, together or one by one."""
        committer, leases = self.zombies.pop()
        shares = [share for lease in leases if (share := self._share(lease)).batch.records]
        self.crash_in = None
        if len(shares) > 1:
            with pytest.raises(Fenced):
                committer.commit_round(shares)
        for share in shares:
            with pytest.raises(Fenced):
                list(commit_or_park(committer, share.lease, share.batch, 0))
        committer.connection.close()

    def close(self) -> None:
        for committer in (self.committer, *(z[0] for z in self.zombies)):
            committer.connection.close()


@settings(
    max_examples=examples(4, 12),
    deadline=None,
    print_blob=True,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # no shrinking on real servers: fewer steps do it by hand
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    steps=st.integers(1, 300),
    seed=st.integers(0, 2**32),
    candidates=st.sampled_from([(), ("simulator_b", "simulator"), ("simulator", "simulator_b", "simulator_c")]),
)
def test_any_interleaving_of_batches_crashes_and_zombies_ends_in_the_models_state(
    new_database: Callable[[], tuple[str, str]],
    monkeypatch: pytest.MonkeyPatch,
    steps: int,
    seed: int,
    candidates: tuple[str, ...],
) -> None:
    """A history of fewer steps is the beginning of a longer one of that seed."""
    history, chance = random_history(seed, steps, PARTITIONS, "pi_h", candidates), random.Random(seed)
    owner_dsn, superuser_dsn = new_database()
    approved_outcomes.approve(superuser_dsn, (step.command for step in history.steps))
    owners, stored = Owners(owner_dsn, chance, published(candidates)), Stored(superuser_dsn)
    monkeypatch.setattr(fail_points, "reach", owners.reach)
    try:
        for step in history.steps:
            owners.append(step)
        with capture_logs() as logs:
            owners.run()
        assert {entry["event"] for entry in logs} <= {"record_parked", "contradicting_fact", "late_capture"}, (
            "nothing here is a reason to split a batch"
        )
        end_state.check(history.steps, owners.replies, stored, candidates)
        _everything_again(history, owners, stored)
    finally:
        monkeypatch.undo()
        owners.close()
        stored.close()


def test_a_failover_and_late_money_fit_the_index_of_live_charges(new_database: Callable[[], tuple[str, str]]) -> None:
    """One live charge after each statement: the refused one is updated before its successor is inserted, or taken after all."""
    owner_dsn, superuser_dsn = new_database()
    owners = Owners(owner_dsn, random.Random(0), published(("simulator_b", "simulator")))
    stored, key = Stored(superuser_dsn), cases.INTENT_ID
    place = topics.partition_for(key, PARTITIONS)

    def committed(*commands: Command) -> list[tuple[Any, ...]]:
        """The attempts after one batch of these."""
        for command in commands:
            owners.append(Step(len(owners.log[place]), place, command))
        lease = owners.leases[place]
        batch = PartitionBatch(place, owners.log[place][-len(commands) :], lease.epoch)
        (done,) = commit_or_park(owners.committer, lease, batch, 0)
        assert (done.commands, done.parked) == (len(commands), 0)
        return stored.rows("select attempt, processor, status, live_charge from processor_attempt order by attempt")

    try:
        committed(cases.create(method="tok_sim_a"), cases.confirm(key="c"))
        assert committed(_outcome(1, "failed", "simulator_b")) == [
            (1, "simulator_b", "failed", False),
            (2, "simulator", "created", True),
        ]
        assert committed(_outcome(2, "failed", "simulator"), _outcome(1, "captured", "simulator_b")) == [
            (1, "simulator_b", "captured", True),
            (2, "simulator", "failed", False),
        ]
        said = _outcome(2, "captured", "simulator")
        said.idempotency_key = vouched.vouched_key(identity.operation_id(key, 2), f"{vouched.PREFIX}1")
        assert [row[2] for row in committed(said)] == ["captured", "failed"]  # nobody has approved it
        assert stored.rows(f"select 1 from idempotency where key = '{said.idempotency_key}'") == []
        approved_outcomes.approve(superuser_dsn, [structs.replace(said, payload={**said.payload, "provider_ref": "x"})])
        assert [row[2] for row in committed(said)] == ["captured", "failed"]  # but another one
        said.idempotency_key = vouched.vouched_key(identity.operation_id(key, 2), f"{vouched.PREFIX}2")
        approved_outcomes.approve(superuser_dsn, [said])
        assert [row[:3] for row in committed(said)] == [
            (1, "simulator_b", "captured"),
            (2, "simulator", "captured"),  # beside it, and on its way back
            (3, "simulator", "created"),
        ]
    finally:
        owners.close()
        stored.close()


def test_a_void_whose_hold_ended_first_leaves_no_gap(new_database: Callable[[], tuple[str, str]]) -> None:
    """Invariant 6: it is voided, and there was nothing left to release."""
    owner_dsn, superuser_dsn = new_database()
    owners = Owners(owner_dsn, random.Random(0), published(()))
    stored, place = Stored(superuser_dsn), topics.partition_for(cases.INTENT_ID, PARTITIONS)
    released = _outcome(1, "voided", "simulator")
    released.payload["error_code"] = "expired"
    steps = (
        *(
            cases.create(method="tok_sim_a", capture="manual"),
            cases.confirm(key="c"),
            _outcome(1, "authorized", "simulator"),
        ),
        *(cases.cancel(key="v"), released, _outcome(2, "voided", "simulator")),
    )
    try:
        for command in steps:
            owners.append(Step(len(owners.log[place]), place, command))
        lease = owners.leases[place]
        (done,) = commit_or_park(owners.committer, lease, PartitionBatch(place, owners.log[place], lease.epoch), 0)
        assert (done.commands, done.parked) == (len(steps), 0)
        assert stored.rows("select attempt, status from processor_attempt order by attempt") == [
            (1, "authorized"),
            (2, "voided"),
        ]
        assert stored.rows("select kind from ledger_txn order by txn_id") == [("authorize",), ("expire",)]
        invariant = resources.files("reconciliation.payments.invariants") / "06_attempts_posted.sql"
        assert stored.rows(invariant.read_text()) == []
    finally:
        owners.close()
        stored.close()


def test_time_never_goes_back_in_a_partition(
    new_database: Callable[[], tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever clocks say: what was too late stays too late, and a report of a time that is over stays as it is."""
    noon = time.time_ns() // 1_000  # by the clock of the database, too
    owner_dsn, superuser_dsn = new_database()
    owners, stored = Owners(owner_dsn, random.Random(0), published(())), Stored(superuser_dsn)
    place = topics.partition_for(cases.INTENT_ID, PARTITIONS)

    def decided(clock: int, *commands: Command) -> list[str]:
        """What becomes of one batch of these at an owner whose clock says so."""
        monkeypatch.setattr("dataflows.owner.clock.time.time_ns", lambda: clock * 1_000)
        for one in commands:
            owners.append(Step(len(owners.log[place]), place, one))
        lease = owners.leases[place]
        batch = PartitionBatch(place, owners.log[place][-len(commands) :], lease.epoch)
        return [r.outcome for done in commit_or_park(owners.committer, lease, batch, 0) for r in done.replies]

    late = structs.replace(cases.confirm(key="late"), deadline_at=noon - 1, reply_to=0)
    try:
        assert decided(noon, cases.create(), late) == ["expired"]
        decided(noon - 10_000_000, cases.confirm(key="confirm"))  # the clock was set back
        owners.committer.connection.close()
        owners.start()  # on another machine, whose clock is behind
        assert decided(noon - 20_000_000, late, cases.cancel(key="cancel")) == ["expired"]
        occurred = stored.rows("select (extract(epoch from occurred_at) * 1000000)::bigint from outbox order by seq")
        assert occurred[:2] == [(noon,), (noon + 2,)]
        created = 'select (extract(epoch from created_at) * 1000000)::bigint from idempotency order by "offset"'
        assert stored.rows(created) == [(noon,), (noon + 2,), (noon + 3,)]
        for off_s in (-3_600, 3_600):  # with such a clock nothing is decided
            with pytest.raises(ClockOff):
                decided(noon + off_s * 1_000_000, cases.cancel(key="later"))
            owners.log[place].pop()
        assert stored.rows(created) == [(noon,), (noon + 2,), (noon + 3,)]
    finally:
        monkeypatch.undo()
        owners.close()
        stored.close()


def test_a_batch_begins_exactly_where_the_last_one_ended(new_database: Callable[[], tuple[str, str]]) -> None:
    """The claim itself refuses a command that was passed over, and one that would have two places."""
    owner_dsn, superuser_dsn = new_database()
    owners, stored = Owners(owner_dsn, random.Random(0), published(())), Stored(superuser_dsn)
    lease = owners.leases[topics.partition_for(cases.INTENT_ID, PARTITIONS)]

    def commit(offset: int) -> None:
        record = Record(offset, b"", cases.create())
        owners.committer.commit(lease, PartitionBatch(lease.partition, [record], lease.epoch), 0)

    try:
        for offset in (1, 7):
            with pytest.raises(Fenced):
                commit(offset)
        assert stored.positions()[lease.partition] == 0
        commit(0)
        with pytest.raises(Fenced):
            commit(0)
        assert stored.positions()[lease.partition] == 1
    finally:
        owners.close()
        stored.close()


def _outcome(number: int, status: str, processor: str) -> Command:
    operation_id = identity.operation_id(cases.INTENT_ID, number)
    said = {"operation_id": operation_id, "attempt": number, "status": status, "provider_ref": "pr", "error_code": None}
    payload: dict[str, object] = {**said, "amount": cases.AMOUNT, "currency": "USD"}
    return cases.command(cases.OUTCOME, payload, scope=f"processor:{processor}", key=f"{operation_id}:{status}")


def _everything_again(history: History, owners: Owners, stored: Stored) -> None:
    """Every caller retries everything: nothing changes, and every stored answer comes back byte for byte."""
    before, ledger = stored.responses(), stored.rows("select count(*) from ledger_entry")
    known = [s for s in history.steps if s.command is not None]
    owners.replies.clear()
    for step in known:
        owners.append(step)
    owners.run()
    assert stored.responses().keys() >= before.keys()
    assert {k: v for k, v in stored.responses().items() if k in before} == before
    if stored.responses() == before:  # else a retry without its deadline was decided only now
        assert stored.rows("select count(*) from ledger_entry") == ledger
    for reply in owners.replies:
        command = history.steps[reply.reply_id].command
        assert command is not None
        identity = command.scope, command.idempotency_key
        if reply.replayed and identity in before:
            assert reply.body == before[identity][1]
