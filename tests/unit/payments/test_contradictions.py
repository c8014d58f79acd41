"""Facts about money that contradict what is committed are a person's, once, whoever told them."""

from __future__ import annotations

import pytest

from dataflows.payments.contradictions import KIND, Contradictions
from schemas.records import Command, Rejection
from tests.worlds.payments import payment_cases as cases

NOW = 1_800_000_000_000_000
CONTRADICTS = Rejection("contradicts_attempt", "Another amount.", {"amount": 5})
OPERATION = "op_case_1"


def fact(
    key: str = f"{OPERATION}:captured", operation_id: str = OPERATION, scope: str = "processor:simulator"
) -> Command:
    payload: dict[str, object] = {"operation_id": operation_id, "status": "captured", "amount": 7}
    return cases.command(cases.OUTCOME, payload, key=key, scope=scope)


def opened(*refused: tuple[Command, Rejection]) -> list[list[object]]:
    """The parameters of each statement, a column as its values."""
    found = Contradictions()
    for n, (command, refusal) in enumerate(refused):
        found.follow(command, refusal, NOW + n)
    return [[getattr(p, "values", p) for p in parameters] for _, parameters in found.writes()]


def test_a_contradiction_is_one_case_with_its_evidence() -> None:
    ((kind, _, references, processors, evidence, _),) = opened((fact(), CONTRADICTS), (fact(), CONTRADICTS))
    assert (kind, references, processors) == (KIND, ("op_case_1",), ("simulator",))
    for told in ("contradicts_attempt", "pi_case", "captured", "processor:simulator", OPERATION):
        assert told in str(evidence)


def test_a_case_is_named_by_the_fact_and_by_nothing_else() -> None:
    """A batch that is decided again, or a fact told again after its case was resolved, opens no second one."""
    ((_, ids, *_),) = opened((fact(), CONTRADICTS))
    assert opened((fact(), Rejection("contradicts_attempt", "later", {})))[0][1] == ids
    assert opened((fact(key="other"), CONTRADICTS))[0][1] != ids
    assert opened((fact(scope="processor:stripe"), CONTRADICTS))[0][1] != ids


@pytest.mark.parametrize("code", ["stale_fact", "not_found", "invalid_command", "state_conflict"])
def test_other_refusals_are_nobodys_business(code: str) -> None:
    assert opened((fact(), Rejection(code, "", {}))) == []


def test_a_merchants_own_command_opens_no_case() -> None:
    assert opened((cases.command(cases.CONFIRM, {"payment_method": None}), CONTRADICTS)) == []


def test_a_dispute_is_known_by_the_processors_name_of_it() -> None:
    told = cases.command(cases.DISPUTE, {"provider_ref": "dp_9", "amount": 1}, scope="processor:stripe")
    ((_, _, references, *_),) = opened((told, CONTRADICTS), (fact(), CONTRADICTS))
    assert references == ("dp_9", "op_case_1")
