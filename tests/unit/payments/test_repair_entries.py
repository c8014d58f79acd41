"""Which entries a repair may have, judged without a case's currency to help."""

from __future__ import annotations

from typing import Any

import pytest

from schemas.errors import InvalidCommand
from schemas.payments import repair


def line(account: str, debit: int, credit: int, currency: str = "USD") -> dict[str, Any]:
    return {"account_id": account, "debit": debit, "credit": credit, "currency": currency}


def test_entries_balance_in_every_currency_on_accounts_of_it() -> None:
    both = [line("cash:b:USD", 5, 0), line("rounding:USD", 0, 5), line("cash:b:EUR", 0, 4, "EUR")]
    repair.require_sound([*both, line("rounding:EUR", 4, 0, "EUR")], None)
    with pytest.raises(InvalidCommand) as refused:
        repair.require_sound([*both, line("rounding:USD", 4, 0, "EUR")], None)
    assert refused.value.errors == [
        {"field": "payload.entries[3].currency", "reason": "is not the currency of the account"}
    ]
    with pytest.raises(InvalidCommand, match="errors"):
        repair.require_sound(both, None)


@pytest.mark.parametrize(
    ("debit", "credit"),
    [
        ("processor_reserve:stripe:USD", "processor_receivable:stripe:USD"),  # held by the processor
        ("processor_receivable:stripe:USD", "processor_reserve:stripe:USD"),  # released
        ("chargeback_loss:USD", "merchant_available:m_1:USD"),  # a merchant cannot cover a dispute
    ],
)
def test_what_only_a_person_decides_has_an_account(debit: str, credit: str) -> None:
    """Reserves of processors come as adjustments in reports; who bears a loss is nobody's automatic decision."""
    repair.require_sound([line(debit, 5, 0), line(credit, 0, 5)], "USD")


@pytest.mark.parametrize(
    "image", ["merchant_pending:m_1", "auth_hold:stripe", "chargeback_loss:m_1", "processor_reserve"]
)
def test_images_of_payments_and_unknown_accounts_are_refused(image: str) -> None:
    with pytest.raises(InvalidCommand):
        repair.require_sound([line(f"{image}:USD", 5, 0), line("cash:b:USD", 0, 5)], "USD")


def test_one_proposal_is_one_command_whenever_it_is_sent() -> None:
    entries = [line("cash:b:USD", 5, 0), line("rounding:USD", 0, 5)]
    first, second = (repair.command_of("rp_1", "entries", entries, "n", "a", "b", at) for at in (1, 2))
    assert (first.idempotency_key, first.request_hash, first.aggregate_key) == (
        second.idempotency_key,
        second.request_hash,
        second.aggregate_key,
    )
    assert first.scope == "ledger:repair"
