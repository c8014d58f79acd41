"""What is said in the name of two persons is believed as the database has their approval, in the commit that decides."""

from __future__ import annotations

from typing import Any

import pytest

from dataflows.owner.service import Committed
from dataflows.payments.domain.policies.fees import FeeSchedule
from dataflows.payments.partition import PaymentsPartition
from dataflows.payments.policies import PolicyBook
from schemas.payments import attempt_outcome
from schemas.payments.topics import PARTITIONS
from schemas.records import Command, Denial
from schemas.services import OPERATIONS
from schemas.topics import partition_for
from tests.unit.payments.test_payments_remembered import NoChain, batch
from tests.worlds.payments import payment_cases as cases

OPERATION = "op_case_1"
FACT = {"status": "captured", "provider_ref": "pr_1", "amount": cases.AMOUNT, "currency": "USD", "error_code": None}
ROW = ("ao_1", OPERATION, cases.INTENT_ID, 1, "simulator", FACT)


@pytest.fixture
def partition() -> PaymentsPartition:
    """With a payment whose charge is under way, remembered."""
    place = partition_for(cases.INTENT_ID, PARTITIONS)
    made = PaymentsPartition(NoChain(), place, FeeSchedule(), "simulator", PolicyBook())  # type: ignore[arg-type]
    assert batch(made, cases.create(), cases.confirm()) == [True, True]
    return made


def vouched(**other: Any) -> Command:
    """As it is decided: with every field of the operation."""
    made = attempt_outcome.command_of(*ROW[:-1], FACT | other, issued_at=1)  # type: ignore[arg-type]
    made.payload, wrong = OPERATIONS[made.operation].normalize(made.payload)
    assert not wrong
    return made


def test_what_is_approved_is_decided(partition: PaymentsPartition) -> None:
    ((text, (asked,)),) = partition.reads([cases.INTENT_ID], [vouched()])
    assert "from attempt_outcome_proposal" in text
    assert asked.values == ["ao_1"]
    assert isinstance(partition.begin([[ROW]]).decide(vouched(), 0, cases.CONTEXT.now), Committed)


@pytest.mark.parametrize(
    "rows",
    [
        *([], [("ao_2", *ROW[1:])], [("ao_1", "op_case_2", *ROW[2:])], [(*ROW[:4], "simulator_b", FACT)]),
        *([(*ROW[:2], "pi_other", *ROW[3:])], [(*ROW[:-1], FACT | {"amount": 1})], [(*ROW[:3], 2, *ROW[4:])]),
        [(*ROW[:-1], FACT | {"status": "failed"})],
    ],
)
def test_what_is_approved_otherwise_is_refused_and_not_stored(
    partition: PaymentsPartition, rows: list[tuple[Any, ...]]
) -> None:
    partition.reads([cases.INTENT_ID], [vouched()])
    found = partition.begin([rows]).decide(vouched(), 0, cases.CONTEXT.now)
    assert isinstance(found, Denial)
    assert found.extra == {"current_state": "not_approved"}


def test_what_a_processor_says_needs_nobodys_approval(partition: PaymentsPartition) -> None:
    told = vouched()
    told.idempotency_key = f"{OPERATION}:captured"
    assert partition.reads([cases.INTENT_ID], [told]) == []
    assert isinstance(partition.begin([]).decide(told, 0, cases.CONTEXT.now), Committed)
