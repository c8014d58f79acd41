"""What an owner remembers of payments under way: only what was committed, never more than the bound, nothing finished."""

from __future__ import annotations

import pytest

from dataflows.owner.service import Committed
from dataflows.payments.domain.policies.fees import FeeSchedule
from dataflows.payments.domain.policies.in_force import Policies
from dataflows.payments.partition import PaymentsPartition
from dataflows.payments.policies import PolicyBook
from schemas.payments import limits
from schemas.payments.topics import PARTITIONS
from schemas.records import Command, Rejection
from schemas.topics import partition_for
from tests.worlds.payments import payment_cases as cases


class NoChain:
    """A connection to a database in which the partition has no ledger yet."""

    def execute(self, *_: object) -> NoChain:
        return self

    def fetchone(self) -> None:
        return None


def owned() -> PaymentsPartition:
    place = partition_for(cases.create().aggregate_key, PARTITIONS)
    return PaymentsPartition(NoChain(), place, FeeSchedule(), "simulator", PolicyBook())  # type: ignore[arg-type]


def batch(partition: PaymentsPartition, *steps: Command, commit: bool = True) -> list[bool]:
    """Decides the steps on a workspace that was given no rows; True for each that is committed."""
    workspace = partition.begin([])
    decided = [isinstance(workspace.decide(step, n, cases.CONTEXT.now), Committed) for n, step in enumerate(steps)]
    workspace.writes()
    if commit:
        workspace.committed()
    return decided


def test_a_payment_under_way_is_not_read_again() -> None:
    partition, key = owned(), cases.create().aggregate_key
    assert partition.reads([key], [])
    assert batch(partition, cases.create()) == [True]
    assert partition.reads([key], []) == []
    assert batch(partition, cases.confirm()) == [True]


def test_only_what_is_not_remembered_is_read() -> None:
    partition = owned()
    batch(partition, cases.create())
    reads = partition.reads([cases.create().aggregate_key, "pi_other"], [])
    assert [column.values for _, (column,) in reads] == [["pi_other"], ["pi_other"]]


def test_a_batch_that_failed_leaves_no_trace() -> None:
    """The next one decides on what was committed before."""
    partition, key = owned(), cases.create().aggregate_key
    batch(partition, cases.create())
    before = partition.memory.remembered[key]
    assert batch(partition, cases.confirm(), commit=False) == [True]
    assert partition.memory.remembered[key] is before
    assert (before.intent.version, before.attempts) == (1, {})
    assert batch(partition, cases.confirm()) == [True]
    assert partition.memory.remembered[key].intent.version == 2


def test_the_versions_of_remembered_payments_are_compared_when_written() -> None:
    partition = owned()
    batch(partition, cases.create())
    workspace = partition.begin([])
    workspace.decide(cases.confirm(), 1, cases.CONTEXT.now)
    assert workspace.changes.read_versions == {cases.create().aggregate_key: 1}
    assert "update payment_intent" in workspace.writes()[0][0]


@pytest.mark.parametrize("read_late", [False, True])
@pytest.mark.parametrize("still_frozen", [False, True])
def test_who_is_refused_as_frozen_is_so_in_the_transaction(still_frozen: bool, read_late: bool) -> None:
    """Not by what was read of it before; nor by such a reading that came in while the batch was read."""
    partition, step = owned(), cases.create()
    earlier = Policies(frozen_merchants=frozenset({cases.MERCHANT, "m_other"}))
    if not read_late:
        partition.memory.policies.current = earlier
    reads = partition.reads([step.aggregate_key], [step])
    found: list[list[tuple[str]]] = [[] for _ in reads]
    if not read_late:
        assert reads[-1][1][0].values == [cases.MERCHANT]
        found[-1] = [(cases.MERCHANT,)] if still_frozen else []
    partition.memory.policies.current = earlier
    decided = partition.begin(found).decide(step, 1, cases.CONTEXT.now)
    assert isinstance(decided, Rejection) is (still_frozen and not read_late)


def test_a_finished_payment_is_forgotten() -> None:
    partition = owned()
    batch(partition, cases.create(), cases.cancel())
    assert partition.memory.remembered == {}


def test_no_more_are_remembered_than_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that was changed longest ago goes first."""
    monkeypatch.setattr(limits, "PAYMENTS_REMEMBERED_MAX", 2)
    partition = owned()
    payments = [cases.after(None, cases.create()) for _ in range(3)]
    for n, payment in enumerate(payments):
        payment.intent.id = f"pi_{n}"
    for n in (0, 1, 0, 2):
        partition.memory.remember(payments[n])
    assert list(partition.memory.remembered) == ["pi_0", "pi_2"]


def test_the_refunds_and_disputes_of_a_payment_under_way_are_remembered_with_it() -> None:
    """A batch that fails leaves none of them; one that commits all."""
    partition, key = owned(), cases.create().aggregate_key
    batch(partition, cases.create(capture="manual"), cases.confirm())
    held = partition.memory.remembered[key]
    steps = [cases.fact(held, "authorized"), cases.capture(4_000, final=False)]
    batch(partition, *steps)
    capturing = partition.memory.remembered[key]
    parts = [cases.refund(1_000), cases.dispute("needs_response", "withdrawn", amount=500)]
    batch(partition, cases.fact(capturing, "captured"))
    assert batch(partition, *parts, commit=False) == [True, True]
    assert (partition.memory.remembered[key].refunds, partition.memory.remembered[key].disputes) == ({}, {})
    assert batch(partition, *parts) == [True, True]
    kept = partition.memory.remembered[key]
    assert [r.amount for r in kept.refunds.values()] == [1_000]
    assert [d.amount for d in kept.disputes.values()] == [500]
    assert kept.intent.amount_disputed == 500


def test_parts_are_inserted_when_new_and_updated_when_known() -> None:
    partition, key = owned(), cases.create().aggregate_key
    batch(partition, cases.create(), cases.confirm())
    payment = cases.told(partition.memory.remembered[key], "captured")
    workspace = partition.begin([])
    workspace.payments[key], workspace.changes.read_versions[key] = payment, payment.intent.version
    assert isinstance(workspace.decide(cases.refund(1_000), 1, cases.CONTEXT.now), Committed)
    assert isinstance(workspace.decide(cases.fact(payment, "refunded"), 2, cases.CONTEXT.now), Committed)
    written = [sql.split("\n")[0] for sql, _ in workspace.writes() if "refund (" in sql or "update refund" in sql]
    assert len(written) == 1, "a refund made and settled in one batch is written once"
    again = partition.begin([])
    again.payments[key], again.changes.read_versions[key] = payment, payment.intent.version
    again.decide(cases.failed_later(payment, 2), 3, cases.CONTEXT.now)
    assert any("update refund" in sql for sql, _ in again.writes())
    assert not any("insert into refund" in sql for sql, _ in again.writes())


def test_journal_entries_are_asked_for_by_themselves() -> None:
    """Each is posted once: known from the database, or from earlier in the batch."""
    entry = cases.journal()
    place = partition_for(entry.aggregate_key, PARTITIONS)
    partition = PaymentsPartition(NoChain(), place, FeeSchedule(), "simulator", PolicyBook())  # type: ignore[arg-type]
    reads = partition.reads([entry.aggregate_key], [])
    assert ["journal_entry" in sql for sql, _ in reads] == [True]
    assert len(partition.reads([entry.aggregate_key, "pi_other"], [])) == 3
    partition.reads([entry.aggregate_key], [])
    fresh = partition.begin([[]])
    other = cases.journal(scope="ledger:other")
    assert [isinstance(fresh.decide(c, n, 1), Committed) for n, c in enumerate((entry, other))] == [True, False]
    known = partition.begin([[(entry.aggregate_key,)]])
    assert not isinstance(known.decide(entry, 1, 1), Committed)
    wrong = PaymentsPartition(NoChain(), (place + 1) % PARTITIONS, FeeSchedule(), "simulator", PolicyBook())  # type: ignore[arg-type]
    wrong.reads([entry.aggregate_key], [])
    refusal = wrong.begin([[]]).decide(entry, 1, 1)
    assert isinstance(refusal, Rejection)
    assert refusal.code == "misrouted"
