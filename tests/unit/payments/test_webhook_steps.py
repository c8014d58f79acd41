"""From an event to what happens next: what it means in our words, and when it is told, parked, settled or a case."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dataflows.payments.attempts import facts
from dataflows.payments.webhooks import vocabulary
from dataflows.payments.webhooks.findings import Unknown, Unreadable
from dataflows.payments.webhooks.steps import AttemptSeen, Due, IntentSeen, Seen, Step, next_step
from schemas import identity
from schemas.payments import limits
from schemas.payments.facts import processor_scope
from tests.each import each

INTENT = "pi_" + "a" * 26
CHARGE = identity.operation_id(INTENT, 1)
REFUND = identity.operation_id(INTENT, 2)
DATA = {"reference": INTENT, "provider_ref": "sim_1", "amount": 1_000, "currency": "USD", "error_code": None}
DISPUTE = DATA | {
    "dispute_id": "sdp_1",
    "fee": 1500,
    "reason": "fraudulent",
    "status": "needs_response",
    "funds": "withdrawn",
}


def body(**data: Any) -> bytes:
    return json.dumps({"id": "evt_1", "data": data}).encode()


def due(
    event_type: str, raw: bytes, processor: str = "simulator", age_s: float = 0, note: str | None = None, tries: int = 1
) -> Due:
    return Due(
        processor=processor,
        provider_event_id="evt_1",
        event_type=event_type,
        body=raw,
        tries=tries,
        note=note,
        age_s=age_s,
    )


def seen(
    charge: str = "captured",
    refund: str = "created",
    received: int = 1_000,
    processor: str = "simulator",
    intent_id: str = INTENT,
    **decisions: str | None,
) -> Seen:
    """A payment with a purchase and a refund, and decisions by the end of their key."""
    found = Seen()
    found.intents[intent_id] = IntentSeen(processor=processor, amount_received=received)
    for number, kind, status in ((1, "purchase", charge), (2, "refund", refund)):
        operation = identity.operation_id(intent_id, number)
        found.attempts[intent_id, number] = AttemptSeen(
            operation_id=operation, kind=kind, status=status, processor=processor
        )
    for key, code in decisions.items():
        found.decisions[processor_scope(processor), key.replace("__", ":")] = code
    return found


def step(event: Due, world: Seen) -> Step:
    return next_step(event, vocabulary.read(event.processor, event.event_type, event.body), world, 0)


def captured(**changes: Any) -> Due:
    return due("charge.captured", body(**(DATA | {"operation_id": CHARGE} | changes)))


def refund_failed(**changes: Any) -> Due:
    return due("refund.failed", body(**(DATA | {"operation_id": REFUND, "error_code": "lost"} | changes)))


# --- what is told -----------------------------------------------------------------------------------------------


def test_a_webhook_and_an_answer_tell_one_fact() -> None:
    """Trap: the same fact through several doors. Equal identity, hash and partition key make it one command."""
    told = step(captured(), seen(charge="created")).command
    answered = facts.command_of(
        facts.Fact(operation_id=CHARGE, intent_id=INTENT, attempt=1, processor="simulator", trace_id="0" * 32, send_count=3,
                   status="captured", provider_ref="sim_1", amount=1_000, currency="USD", error_code=None), 7)  # fmt: skip
    assert told is not None
    assert told.idempotency_key == f"{CHARGE}:captured"
    for name in ("operation", "scope", "idempotency_key", "aggregate_key", "request_hash", "payload", "request_id"):
        assert getattr(told, name) == getattr(answered, name), name


@pytest.mark.parametrize(
    ("event_type", "status"),
    [
        ("charge.authorized", "authorized"),
        ("charge.captured", "captured"),
        ("charge.declined", "declined"),
        ("charge.voided", "voided"),
    ],
)
def test_charges_in_our_words(event_type: str, status: str) -> None:
    command = step(due(event_type, body(**DATA, operation_id=CHARGE)), seen(charge="created")).command
    assert command is not None
    assert command.payload["status"] == status
    assert command.idempotency_key == f"{CHARGE}:{status}"


def test_a_dispute_in_our_words() -> None:
    command = step(due("dispute.funds_withdrawn", body(**DISPUTE)), seen()).command
    assert command is not None
    assert (command.operation, command.aggregate_key, command.scope) == (
        "record_dispute",
        INTENT,
        "processor:simulator",
    )
    assert command.idempotency_key == "sdp_1:needs_response:withdrawn"
    assert command.payload == {
        name: DISPUTE[name] for name in ("status", "funds", "amount", "currency", "fee", "reason")
    } | {"provider_ref": "sdp_1", "evidence_due_by": None}


@pytest.mark.parametrize("status", ["created", "pending", "unknown", "failed"])
def test_a_refund_that_never_succeeded_has_failed(status: str) -> None:
    command = step(refund_failed(), seen(refund=status)).command
    assert command is not None
    assert command.idempotency_key == f"{REFUND}:failed"


@pytest.mark.parametrize(
    ("status", "changes"),
    [("refunded", {}), ("created", {"after_success": True}), ("refunded", {"after_success": True})],
)
def test_a_refund_that_fails_after_its_success_is_another_fact(status: str, changes: dict[str, Any]) -> None:
    """Whichever of success and failure we hear of first."""
    command = step(refund_failed(**changes), seen(refund=status)).command
    assert command is not None
    assert (command.idempotency_key, command.payload["status"]) == (f"{REFUND}:failed_later", "failed")


# --- what waits ---------------------------------------------------------------------------------------------------


def test_nothing_is_told_before_its_attempt_can_be_seen() -> None:
    """Trap: an owner remembers "not found" for ever, for every door of the fact."""
    for event in (captured(), refund_failed(), due("dispute.created", body(**DISPUTE))):
        found = step(event, Seen())
        assert (found.state, found.command, found.case) == ("parked", None, None)
    early = due("dispute.created", body(**DISPUTE))
    assert step(early, seen(charge="unknown", received=0)).state == "parked"


def test_what_never_shows_up_becomes_a_case() -> None:
    late = due("charge.captured", body(**DATA, operation_id=CHARGE), age_s=limits.WEBHOOK_PARKED_MAX_S + 1)
    found = step(late, Seen())
    assert found.state == "case"
    assert found.case is not None
    assert (found.case.kind, found.case.reference) == ("unknown_reference", CHARGE)
    assert step(late, seen(charge="created")).command is not None, "but what shows up late is told"


def test_a_fact_that_nobody_decides_is_a_case_and_is_told_on() -> None:
    raw = body(**DATA, operation_id=CHARGE)
    world = seen(charge="created")
    assert step(due("charge.captured", raw, tries=limits.WEBHOOK_UNDECIDED_TRIES_MAX), world).case is None
    late = step(due("charge.captured", raw, tries=limits.WEBHOOK_UNDECIDED_TRIES_MAX + 1), world)
    assert late.command is not None
    assert late.case is not None
    assert (late.state, late.case.kind, late.case.reference) == ("stored", "undecided_fact", CHARGE)


# --- what is settled ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("refusal", "state"),
    [(None, "applied"), ("stale_fact", "superseded"), ("contradicts_attempt", "case"), ("not_found", "parked")],
)
def test_a_decision_settles_the_event(refusal: str | None, state: str) -> None:
    found = step(captured(), seen(**{f"{CHARGE}__captured": refusal}))
    assert (found.state, found.command) == (state, None)
    assert found.case is None, "the owner opens the case of what it refuses"


def test_a_failure_told_under_either_identity_is_settled() -> None:
    assert step(refund_failed(), seen(refund="failed", **{f"{REFUND}__failed_later": None})).state == "applied"
    assert step(refund_failed(), seen(refund="failed", **{f"{REFUND}__failed": None})).state == "applied"
    again = step(refund_failed(after_success=True), seen(refund="failed", **{f"{REFUND}__failed": None}))
    assert again.command is not None, "failing before and after a success are two facts"


def test_one_event_is_one_fact_whatever_came_of_the_attempt_since() -> None:
    """Told as "failed", then the refund succeeded after all: the event is settled, and is not a second failure."""
    raw = body(**(DATA | {"operation_id": REFUND}))
    first = step(due("refund.failed", raw), seen(refund="created"))
    again = due("refund.failed", raw, note=first.note)
    assert step(again, seen(refund="refunded", **{f"{REFUND}__failed": None})).state == "applied"
    untold = step(again, seen(refund="refunded")).command
    assert untold is not None
    assert untold.idempotency_key == f"{REFUND}:failed"


# --- what is not ours ---------------------------------------------------------------------------------------------


@each(
    ("processor", "event_type", "raw", "reference"),
    [
        ("stripe", "payment_intent.succeeded", b'{"data":{"object":{"id":"pi_unknown","amount":5}}}', "pi_unknown"),
        ("standard", "payment_intent.succeeded", b'{"data":{"object":{"id":"pi_unknown"}}}', "pi_unknown"),
        ("stripe", "charge.dispute.created", b'{"data":{"object":{"id":"dp_1","charge":"ch_1"}}}', "dp_1"),
        ("stripe", "refund.failed", b'{"data":{"object":{"id":"re_1","status":"failed","metadata":{}}}}', "re_1"),
        ("simulator", "charge.captured", body(**DATA, operation_id="op_x_1"), "op_x_1"),
        ("simulator", "charge.captured", body(**DATA), "sim_1"),
        ("simulator_b", "charge.captured", body(**DATA), "sim_1"),
        ("stripe_eu", "payment_intent.succeeded", b'{"data":{"object":{"id":"pi_unknown"}}}', "pi_unknown"),
        ("simulator", "dispute.created", body(**(DISPUTE | {"reference": "pi_unknown"})), "pi_unknown"),
        ("adyen", "AUTHORISATION", b'{"merchantReference":"shop-1","pspReference":"psp1","success":"true"}', "psp1"),
        ("adyen", "CHARGEBACK", b'{"merchantReference":"shop-1","pspReference":"psp1"}', "psp1"),
    ],
)
def test_money_that_we_know_nothing_of_is_a_case(processor: str, event_type: str, raw: bytes, reference: str) -> None:
    found = step(due(event_type, raw, processor), seen())
    assert found.case is not None
    assert (found.state, found.case.kind, found.case.reference) == ("case", "unknown_reference", reference)


@pytest.mark.parametrize("intent_id", ["pi_erp_4711", "pi_Order_A_1", "pi_" + "9" * 26, "pi_" + "z" * 61])
def test_payments_under_ids_that_programs_outside_chose_are_ours(intent_id: str) -> None:
    """Facts of them are told as those of all others: outcomes, refunds and disputes."""
    charge, refund = identity.operation_id(intent_id, 1), identity.operation_id(intent_id, 2)
    world = seen(charge="created", intent_id=intent_id)
    for event_type, changes in (
        ("charge.captured", {"operation_id": charge}),
        ("refund.succeeded", {"operation_id": refund}),
        ("dispute.created", DISPUTE),
    ):
        found = step(due(event_type, body(**(DATA | changes | {"reference": intent_id}))), world)
        assert found.command is not None, (event_type, found)
        assert found.command.aggregate_key == intent_id


def test_a_processor_speaks_of_its_own_attempts_only() -> None:
    event = due("charge.captured", body(**DATA, operation_id=CHARGE), processor="standard")
    found = step(event, seen(charge="created"))
    assert found.command is None
    assert found.case is not None
    dispute = step(due("dispute.created", body(**DISPUTE), processor="standard"), seen())
    assert dispute.command is None
    assert dispute.case is not None


@pytest.mark.parametrize(
    ("processor", "event_type"), [("stripe", "customer.created"), ("simulator", "ping"), ("adyen", "REPORT_AVAILABLE")]
)
def test_what_says_nothing_about_money_is_superseded(processor: str, event_type: str) -> None:
    assert step(due(event_type, b'{"data":{}}', processor), seen()).state == "superseded"


@pytest.mark.parametrize(
    "change",
    [
        {"amount": 10.5},
        {"amount": -1},
        {"amount": "1000"},
        {"currency": 7},
        {"provider_ref": "x\x00"},
        {"amount": 2**60},
        {"error_code": "e" * 900},
    ],
)
def test_a_body_that_breaks_its_format_is_a_persons(change: dict[str, Any]) -> None:
    """Nothing is guessed, and nothing that an owner would refuse is ever told."""
    found = step(captured(**change), seen(charge="created"))
    assert found.command is None
    assert found.case is not None
    assert (found.case.kind, found.case.reference) == ("unreadable_event", "simulator:evt_1")


@pytest.mark.parametrize(
    "change",
    [
        {"status": "unheard_of"},
        {"funds": "lost"},
        {"currency": "XXX"},
        {"amount": 0},
        {"fee": -1},
        {"dispute_id": None},
    ],
)
def test_a_dispute_that_no_owner_would_take_is_a_persons(change: dict[str, Any]) -> None:
    """The owner does not remember what it refuses as invalid: told once, it would be told for ever."""
    found = step(due("dispute.created", body(**(DISPUTE | change))), seen())
    assert found.command is None
    assert found.case is not None
    assert found.case.kind == "unreadable_event"


# --- whatever is signed ---------------------------------------------------------------------------------------------

_TYPES = [
    *("charge.captured", "refund.failed", "dispute.closed", "payment_intent.succeeded", "refund.updated"),
    *("charge.dispute.closed", "AUTHORISATION", "CHARGEBACK", "REFUND_FAILED", "ping"),
]
_NAMES = st.sampled_from(["data", "object", "metadata", "operation_id", "reference", "amount", "value", "currency", "id", "status",
                          "funds", "dispute_id", "merchantReference", "pspReference", "success", "balance_transactions", "charge"])  # fmt: skip
_VALUES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=5)
    | st.sampled_from([CHARGE, REFUND, INTENT, "USD", "usd", "won", "true"])
)
_BODIES = st.recursive(
    _VALUES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_NAMES, inner, max_size=8), max_leaves=30
)


@settings(suppress_health_check=[HealthCheck.too_slow])  # on a busy machine drawing takes its time
@given(st.sampled_from(["stripe", "adyen", "standard", "simulator"]), st.sampled_from(_TYPES), _BODIES, _BODIES)
def test_any_body_leads_to_a_step(processor: str, event_type: str, one: Any, other: Any) -> None:
    """Total: no event can stop the worker, and what is told passes the owner's own validation."""
    raw = json.dumps({"data": {"object": one}, "amount": other} if isinstance(one, dict) else one).encode()
    for document in (raw, json.dumps(one).encode(), json.dumps({"data": other}).encode(), b"\xff"):
        found = step(due(event_type, document, processor), seen(processor=processor))
        assert found.state in {"stored", "parked", "superseded", "case"}
        if found.command is not None:
            facts.codec.encode_command(found.command)


def test_every_order_of_looks_ends_alike() -> None:
    """The same event at any point of what others told: told, or settled, never lost and never a case."""
    statuses = ("created", "pending", "unknown", "captured", "declined", "failed", "manual_review")
    for status, code in itertools.product(statuses, ("none yet", None, "stale_fact")):
        decided = {} if code == "none yet" else {f"{CHARGE}__captured": code}
        found = step(captured(), seen(charge=status, **decided))
        assert found.case is None
        assert found.state == {"none yet": "stored", None: "applied", "stale_fact": "superseded"}[code]


def test_findings_of_nobody() -> None:
    assert isinstance(vocabulary.read("simulator", "charge.captured", b"{"), Unreadable)
    assert isinstance(vocabulary.read("simulator", "charge.captured", b"[]"), Unreadable)
    assert isinstance(
        vocabulary.read("simulator", "charge.captured", body(**DATA, operation_id="op_" + "é" * 26 + "_1")), Unknown
    )
