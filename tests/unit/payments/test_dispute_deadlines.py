"""By when a processor wants evidence: read from its events, one fact each, joined in any order."""

from __future__ import annotations

import json
from itertools import permutations
from typing import Any

import pytest
from msgspec import structs

from dataflows.payments.domain import commands
from dataflows.payments.domain.decision import Decision
from dataflows.payments.webhooks import vocabulary
from dataflows.payments.webhooks.findings import DisputeChange
from dataflows.payments.webhooks.inbox_store import keys_of
from schemas.payments import rendering
from schemas.payments.records import Dispute
from schemas.records import Rejection
from tests.each import each
from tests.unit.payments.test_webhook_steps import CHARGE, DISPUTE, INTENT, body, due, seen, step
from tests.worlds.payments import payment_cases as cases

Fact = tuple[str, str, int | None]
PAID = cases.paid()
SECOND_US = 1_000_000


def told(status: str, funds: str = "none", due_by: int | None = None) -> cases.Command:
    return cases.dispute(status, funds, amount=6_000, evidence_due_by=due_by)


def played(*facts: Fact) -> Dispute:
    payment = PAID
    for fact in facts:
        decision = commands.decide(payment, told(*fact), cases.CONTEXT)
        payment = cases.apply(payment, decision) if isinstance(decision, Decision) else payment
    (found,) = payment.disputes.values()
    return found


def test_it_is_a_field_of_the_dispute_and_shown() -> None:
    made = played(("needs_response", "none", 90 * SECOND_US))
    assert made.evidence_due_by == 90 * SECOND_US
    assert rendering.dispute(made)["evidence_due_by"] == "1970-01-01T00:01:30.000000Z"
    assert rendering.dispute(played(("needs_response", "none", None)))["evidence_due_by"] is None


ENDS: list[tuple[tuple[Fact, ...], int | None]] = [
    ((("needs_response", "none", 90), ("needs_response", "withdrawn", None)), 90),
    ((("needs_response", "none", 90), ("needs_response", "none", 120)), 120),
    ((("warning_needs_response", "none", 200), ("needs_response", "none", 90)), 90),
    ((("warning_needs_response", "none", 200), ("needs_response", "none", None)), None),
    ((("needs_response", "withdrawn", 90), ("under_review", "withdrawn", 90)), None),
    ((("needs_response", "withdrawn", 90), ("lost", "withdrawn", 90), ("appeal_needs_response", "withdrawn", 70)), 70),
    ((("needs_response", "withdrawn", 90), ("won", "reinstated", 90)), None),
]


@each(("facts", "expected"), ENDS)
def test_the_latest_of_the_last_state_holds_in_any_order(facts: tuple[Fact, ...], expected: int | None) -> None:
    for order in permutations((*facts, facts[0])):
        assert played(*order).evidence_due_by == expected, order


def test_another_deadline_is_a_change_without_money_and_the_same_or_an_earlier_one_is_none() -> None:
    payment = cases.apply(PAID, cases.decided(PAID, told("needs_response", "withdrawn", 90)))
    later = cases.decided(payment, told("needs_response", "withdrawn", 120))
    assert later.dispute is not None
    assert (later.dispute.version, later.dispute.evidence_due_by, later.postings) == (2, 120, ())
    for same in (90, 80, None):
        refusal = commands.decide(payment, told("needs_response", "withdrawn", same), cases.CONTEXT)
        assert isinstance(refusal, Rejection)
        assert refusal.code == "stale_fact"


def test_a_command_of_before_says_nothing_of_it() -> None:
    known = cases.apply(PAID, cases.decided(PAID, told("needs_response", "none", 90)))
    old = told("needs_response", "withdrawn")
    del old.payload["evidence_due_by"]
    after = cases.decided(known, old).dispute
    assert after is not None
    assert (after.funds, after.evidence_due_by) == ("withdrawn", 90)


def test_money_that_is_taken_again_after_the_win_stays_a_contradiction() -> None:
    won = cases.apply(PAID, cases.decided(PAID, told("won", "reinstated")))
    refusal = commands.decide(won, told("appeal_needs_response", "withdrawn", 90), cases.CONTEXT)
    assert isinstance(refusal, Rejection)
    assert refusal.code == "contradicts_dispute"


def stripe(status: str = "needs_response", **details: Any) -> DisputeChange | object:
    said = {"id": "dp_1", "currency": "usd", "amount": 900, "status": status, "evidence_details": details}
    raw = json.dumps({"data": {"object": said | {"metadata": {"reference": INTENT}}}}).encode()
    return vocabulary.read("stripe", "charge.dispute.updated", raw)


def adyen(event_type: str = "CHARGEBACK", **additional: Any) -> DisputeChange | object:
    item = {"merchantReference": CHARGE, "pspReference": "DSP1", "amount": {"value": 900, "currency": "EUR"}}
    return vocabulary.read("adyen", event_type, json.dumps(item | {"additionalData": additional}).encode())


def simulator(**said: Any) -> DisputeChange | object:
    return vocabulary.read("simulator", "dispute.created", body(**(DISPUTE | said)))


def until(found: DisputeChange | object) -> int | None:
    assert isinstance(found, DisputeChange), found
    return found.evidence_due_by


def test_what_processors_call_it() -> None:
    assert until(stripe(due_by=1_900_000_000)) == 1_900_000_000 * SECOND_US
    assert until(adyen(defensePeriodEndsAt="2030-03-17T19:46:40+02:00")) == 1_900_000_000 * SECOND_US
    assert until(adyen("NOTIFICATION_OF_CHARGEBACK", defensePeriodEndsAt="2030-03-17T17:46:40Z")) is not None
    assert until(simulator(evidence_due_by_ms=1_900_000_000_000)) == 1_900_000_000 * SECOND_US


@pytest.mark.parametrize(
    "found",
    [
        *(stripe(), stripe(due_by=None), stripe(due_by=0), stripe(due_by="soon"), stripe(due_by=-1)),
        *(stripe(due_by=10**30), stripe("under_review", due_by=1_900_000_000), stripe("lost", due_by=1_900_000_000)),
        *(adyen(), adyen(defensePeriodEndsAt="2030-03-17T19:46:40"), adyen(defensePeriodEndsAt="soon")),
        *(adyen(defensePeriodEndsAt=7), adyen("CHARGEBACK_REVERSED", defensePeriodEndsAt="2030-03-17T19:46:40Z")),
        simulator(),
    ],
    ids=str,
)
def test_what_is_no_deadline_says_nothing_and_hides_nothing_else(found: DisputeChange | object) -> None:
    """0 at Stripe: the bank takes no evidence. What asks for none has no deadline that is to come."""
    assert until(found) is None


def test_another_deadline_is_another_fact_and_none_is_the_fact_of_before() -> None:
    keys = [keys_of(found) for found in (simulator(), simulator(evidence_due_by_ms=7), simulator(evidence_due_by_ms=8))]
    assert keys == [[f"sdp_1:needs_response:withdrawn{end}"] for end in ("", ":7000", ":8000")]
    for said, key in (({}, ""), ({"evidence_due_by_ms": 7}, ":7000")):
        command = step(due("dispute.created", body(**(DISPUTE | said))), seen()).command
        assert command is not None
        assert command.idempotency_key == f"sdp_1:needs_response:withdrawn{key}"
        assert command.payload["evidence_due_by"] == (7_000 if said else None)


def test_evidence_that_was_submitted_leaves_the_deadline_as_it_is() -> None:
    made = played(("needs_response", "none", 90))
    payment = cases.apply(PAID, cases.decided(PAID, told("needs_response", "none", 90)))
    payment.disputes[made.id] = structs.replace(made, evidence_state="submitted")
    after = cases.decided(payment, told("needs_response", "withdrawn", 90)).dispute
    assert after is not None
    assert (after.evidence_due_by, after.evidence_state) == (90, "submitted")
