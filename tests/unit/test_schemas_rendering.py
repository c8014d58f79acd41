"""What the outside sees of records: exact times, every field, nothing of the ledger."""

from __future__ import annotations

import msgspec
import pytest

from schemas import rendering
from schemas.payments import records
from schemas.payments import rendering as payments_rendering
from tests.worlds.payments import payment_cases as cases


@pytest.mark.parametrize(
    ("time_us", "text"),
    [
        (0, "1970-01-01T00:00:00.000000Z"),
        (1, "1970-01-01T00:00:00.000001Z"),
        (1_767_323_045_000_006, "2026-01-02T03:04:05.000006Z"),
        (1_767_323_045_999_999, "2026-01-02T03:04:05.999999Z"),
        (-1, "1969-12-31T23:59:59.999999Z"),
    ],
)
def test_times_are_exact(time_us: int, text: str) -> None:
    assert rendering.timestamp(time_us) == text


def test_a_time_that_is_not_yet_stays_null() -> None:
    row = {"id": "x_1", "opened_at": 0, "resolved_at": None}
    assert rendering.timestamps(row, ("opened_at", "resolved_at")) == {
        "opened_at": "1970-01-01T00:00:00.000000Z",
        "resolved_at": None,
    }


def test_an_intent_shows_every_field_it_has() -> None:
    """A field that is added to the record and not to the rendering would be lost for readers."""
    intent = cases.authorized().intent
    shown = payments_rendering.payment_intent(intent)
    inside = {"amount_pending"}  # a share of balances: GET /v1/balance tells it
    assert set(shown) == set(records.PaymentIntent.__struct_fields__) - inside | {"object"}
    assert (shown["object"], shown["state"], shown["amount_capturable"]) == (
        "payment_intent",
        "requires_capture",
        10_000,
    )
    assert shown["last_payment_error"] is None


def test_the_last_error_is_an_object_that_can_grow() -> None:
    payment = cases.told(cases.in_every_state()["processing purchase"], "declined", error_code="insufficient_funds")
    assert payments_rendering.payment_intent(payment.intent)["last_payment_error"] == {"code": "insufficient_funds"}


def test_an_event_shows_intent_and_attempt_and_no_account() -> None:
    payment = cases.told(cases.in_every_state()["processing purchase"], "captured")
    body = {
        "payment_intent": msgspec.structs.asdict(payment.intent),
        "processor_attempt": msgspec.structs.asdict(payment.attempts[1]),
        "ledger_txns": [{"entries": [{"account_id": "merchant_pending:m_1:USD"}]}],
    }
    shown = payments_rendering.payment_event_body(body)
    assert shown["payment_intent"] == payments_rendering.payment_intent(payment.intent)
    assert shown["processor_attempt"]["object"] == "processor_attempt"
    assert shown["processor_attempt"]["created_at"].endswith("Z")
    assert "merchant_pending" not in msgspec.json.encode(shown).decode()
    assert payments_rendering.payment_event_body(body | {"processor_attempt": None})["processor_attempt"] is None
