"""The state machine of payments as a table: every state with every command, allowed or refused with code and state."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.each import each
from tests.worlds.payments import payment_cases as cases

if TYPE_CHECKING:
    from schemas.records import Command

STATES = cases.in_every_state()
CONFLICT = "state_conflict"
# state of the intent (and what is under way) -> state after the command, or the code of the refusal
TABLE = {
    #                            confirm            capture            cancel
    "requires_payment_method":  (CONFLICT,          CONFLICT,          "canceled"),
    "requires_confirmation":    ("processing",      CONFLICT,          "canceled"),
    "requires_action":          (CONFLICT,          CONFLICT,          "canceled"),
    "requires_merchant_action": (CONFLICT,          CONFLICT,          "canceled"),
    "processing purchase":      (CONFLICT,          CONFLICT,          CONFLICT),
    "processing authorize":     (CONFLICT,          CONFLICT,          CONFLICT),
    "processing capture":       (CONFLICT,          CONFLICT,          CONFLICT),
    "processing void":          (CONFLICT,          CONFLICT,          CONFLICT),
    "requires_capture":         (CONFLICT,          "processing",      "processing"),
    "succeeded":                (CONFLICT,          CONFLICT,          CONFLICT),
    "canceled":                 (CONFLICT,          CONFLICT,          CONFLICT),
}  # fmt: skip
COMMANDS = (cases.confirm(), cases.capture(), cases.cancel())
PAIRS = [
    (state, command, expected) for state, row in TABLE.items() for command, expected in zip(COMMANDS, row, strict=True)
]


def test_the_table_names_every_state() -> None:
    assert TABLE.keys() == STATES.keys()


@each(("state", "command", "expected"), PAIRS)
def test_every_state_with_every_command(state: str, command: Command, expected: str) -> None:
    payment = STATES[state]
    if expected != CONFLICT:
        decision = cases.decided(payment, command)
        assert decision.intent.state == expected
        assert decision.intent.version == payment.intent.version + 1
        assert decision.postings == (), "money moves by facts, never by a wish"
        return
    rejection = cases.refused(payment, command)
    assert rejection.code == CONFLICT
    assert rejection.extra["current_state"] == payment.intent.state


@each("state", STATES)
def test_a_create_of_an_existing_intent_is_refused(state: str) -> None:
    rejection = cases.refused(STATES[state], cases.create())
    assert (rejection.code, rejection.extra) == (CONFLICT, {"current_state": STATES[state].intent.state})


@each("command", COMMANDS)
@each("state", STATES)
def test_a_stale_version_is_refused_in_every_state_and_says_the_current_one(state: str, command: Command) -> None:
    payment = STATES[state]
    command = cases.command(command.operation, command.payload, expected_version=payment.intent.version + 7)
    rejection = cases.refused(payment, command)
    assert (rejection.code, rejection.extra) == ("version_conflict", {"current_version": payment.intent.version})


@each("command", COMMANDS)
@each("state", STATES)
def test_another_merchants_intent_does_not_exist(state: str, command: Command) -> None:
    foreign = cases.command(command.operation, command.payload, scope="m_other")
    assert cases.refused(STATES[state], foreign).code == "not_found"


@pytest.mark.parametrize("command", COMMANDS, ids=lambda c: c.operation)
def test_an_unknown_intent_does_not_exist(command: Command) -> None:
    assert cases.refused(None, command).code == "not_found"


def test_create_needs_no_version_or_zero() -> None:
    refused = cases.command(cases.CREATE, cases.create().payload, expected_version=3)
    assert cases.refused(None, refused).code == "version_conflict"
    allowed = cases.command(cases.CREATE, cases.create().payload, expected_version=0)
    assert cases.decided(None, allowed).intent.version == 1


@pytest.mark.parametrize(("method", "state"), [(None, "requires_payment_method"), ("tok_a", "requires_confirmation")])
def test_create_asks_for_what_is_missing(method: str | None, state: str) -> None:
    intent = cases.decided(None, cases.create(method=method)).intent
    assert (intent.state, intent.version, intent.amount_received, intent.amount_capturable) == (state, 1, 0, 0)
    assert (intent.merchant_id, intent.processor) == (cases.MERCHANT, cases.PROCESSOR)


@pytest.mark.parametrize(("capture", "kind"), [("automatic", "purchase"), ("manual", "authorize")])
def test_confirm_makes_one_attempt_that_is_not_sent_yet(capture: str, kind: str) -> None:
    """Rule: an uncertain attempt is recorded before the call, spec 1 section 3."""
    decision = cases.decided(cases.after(None, cases.create(capture=capture)), cases.confirm())
    attempt = decision.attempt
    assert attempt is not None
    assert (attempt.kind, attempt.status, attempt.attempt, attempt.amount) == (kind, "created", 1, cases.AMOUNT)
    assert (attempt.operation_id, attempt.payment_method) == ("op_case_1", "tok_a")
    assert decision.intent.latest_attempt == 1


def test_confirm_may_bring_the_method() -> None:
    decision = cases.decided(STATES["requires_payment_method"], cases.confirm("tok_b"))
    assert decision.intent.payment_method == "tok_b"
    assert decision.attempt is not None
    assert decision.attempt.payment_method == "tok_b"


def test_a_second_confirm_after_a_decline_is_a_second_attempt_with_an_identity_of_its_own() -> None:
    declined = cases.told(STATES["processing purchase"], "declined", error_code="insufficient_funds")
    assert (declined.intent.state, declined.intent.last_payment_error) == (
        "requires_payment_method",
        "insufficient_funds",
    )
    again = cases.after(declined, cases.confirm("tok_b"))
    assert (again.attempts[2].operation_id, again.attempts[1].status) == ("op_case_2", "declined")
    assert again.intent.last_payment_error is None


@pytest.mark.parametrize("amount", [cases.AMOUNT + 1, 2**53 - 1])
def test_no_more_can_be_captured_than_is_held(amount: int) -> None:
    rejection = cases.refused(STATES["requires_capture"], cases.capture(amount))
    assert (rejection.code, rejection.extra) == ("amount_exceeds_capturable", {"capturable": cases.AMOUNT})


def test_what_was_captured_cannot_be_captured_again() -> None:
    payment = cases.told(cases.after(cases.authorized(), cases.capture(4_000, final=False)), "captured")
    rejection = cases.refused(payment, cases.capture(6_001))
    assert (rejection.code, rejection.extra) == ("amount_exceeds_capturable", {"capturable": 6_000})
    assert cases.after(payment, cases.capture(6_000)).intent.state == "processing"


@pytest.mark.parametrize(
    ("amount", "final", "expected_amount", "expected_final"),
    [
        (None, True, 10_000, True),
        (None, False, 10_000, True),  # nothing is left, so it is final whatever was said
        (10_000, False, 10_000, True),
        (4_000, True, 4_000, True),
        (4_000, False, 4_000, False),
    ],
)
def test_what_a_capture_asks_of_the_processor(
    amount: int | None, final: bool, expected_amount: int, expected_final: bool
) -> None:
    decision = cases.decided(STATES["requires_capture"], cases.capture(amount, final=final))
    attempt = decision.attempt
    assert attempt is not None
    assert (attempt.kind, attempt.amount, attempt.final) == ("capture", expected_amount, expected_final)
    assert attempt.parent_ref == "pr_1", "the hold that it takes from"


def test_cancel_of_a_hold_asks_the_processor_to_release_all_of_it() -> None:
    attempt = cases.decided(STATES["requires_capture"], cases.cancel("duplicate")).attempt
    assert attempt is not None
    assert (attempt.kind, attempt.amount, attempt.parent_ref) == ("void", cases.AMOUNT, "pr_1")


def test_cancel_without_a_hold_asks_nobody() -> None:
    decision = cases.decided(STATES["requires_confirmation"], cases.cancel("duplicate"))
    assert (decision.attempt, decision.intent.cancellation_reason) == (None, "duplicate")
