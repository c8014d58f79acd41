"""A round sends each text of payments once: what its partitions read and write can be joined, in one order."""

from __future__ import annotations

import pytest

from dataflows.owner.transaction.joining import joined
from dataflows.payments.domain.policies.fees import FeeSchedule
from dataflows.payments.domain.policies.in_force import Policies
from dataflows.payments.partition import PaymentsPartition
from schemas.payments import money_by_hand, repair
from schemas.payments.topics import PARTITIONS
from sinks.postgres.arrays import Column
from tests.property.payments.history import published, random_history
from tests.unit.payments.test_payments_remembered import NoChain, owned
from tests.worlds.payments import account_cases, payment_cases


def test_what_partitions_read_is_asked_once() -> None:
    """Approved proposals too: of repairs, and of money that moves by hand."""
    entries = [
        {"account_id": f"suspense:{n}:USD", "debit": n, "credit": 1 - n, "currency": "USD", "amount": 1} for n in (0, 1)
    ]
    steps = [
        payment_cases.create(),
        repair.command_of("rp_1", "write_off", entries, "why", "user:ann", "user:bob", 1),
        account_cases.payout(1),
        account_cases.reserve("hold_reserve", 5, scope=money_by_hand.SCOPE),
    ]
    keys = [step.aggregate_key for step in steps]
    partitions = [owned() for _ in range(3)]
    for partition in partitions[::2]:  # who was frozen when it was read last, and begins something
        partition.memory.policies.current = Policies(frozen_merchants=frozenset({payment_cases.MERCHANT}))
    lists = [
        partitions[0].reads(keys, steps),
        partitions[1].reads(keys[:1], steps[:1]),
        partitions[2].reads(keys, steps),
    ]
    statements, places = joined(lists)
    assert len({text for text, _ in statements}) == len(statements) == len(lists[0]) == 10
    assert all(isinstance(p, Column) for _, parameters in statements for p in parameters)
    assert places == [list(range(10)), [0, 1], list(range(10))]


@pytest.mark.parametrize("seed", range(3))
def test_what_partitions_write_is_sent_once(seed: int) -> None:
    history = random_history(seed, 300, PARTITIONS, "pi_h", ())
    lists = []
    for place in range(PARTITIONS):
        partition = PaymentsPartition(NoChain(), place, FeeSchedule(), "simulator", published(()))  # type: ignore[arg-type]
        workspace = partition.begin([])
        for n, step in enumerate(history.steps):
            if step.command is not None and step.partition == place and not step.invalid:
                workspace.decide(step.command, n, payment_cases.CONTEXT.now + n)
        lists.append(workspace.writes())
    statements, _ = joined(lists)
    assert sum(map(len, lists)) > len(statements) > 8
    assert len({text for text, _ in statements}) == len(statements)
