"""What owners are told of lines that belong to no payment, or come in another currency: balanced in each currency."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataflows.payments.domain.ledger.journal import JournalEntry, decide_post
from reconciliation.payments.settlement.commands import (
    BANK_RETURN,
    EXCHANGE,
    Due,
    command_of,
    late_fee_command,
)
from tests.each import each

DUE = Due(processor="stripe", line_id="txn_1", type="other", operation_id=None, currency="USD", gross=0, fee=0,
          difference=0, net=0, net_currency="USD", finding=None, matched=None, intent_id=None, attempt=None,
          counterpart=None, told=1)  # fmt: skip


def moved(due: Due) -> dict[str, int]:
    """By account what is debited less what is credited."""
    command = command_of(due, 0)
    assert command.operation == "post_journal"
    entries: list[dict[str, Any]] = command.payload["entries"]  # type: ignore[assignment]  # a list of entries
    assert all((entry["debit"] > 0) != (entry["credit"] > 0) for entry in entries)
    sums: dict[str, int] = {}
    for entry in entries:
        sums[entry["account_id"]] = sums.get(entry["account_id"], 0) + entry["debit"] - entry["credit"]
    for currency in ("EUR", "USD"):
        assert sum(amount for account, amount in sums.items() if account.endswith(currency)) == 0
    return sums


@pytest.mark.parametrize("net", [250, -250])
def test_a_line_of_an_unknown_kind_waits_in_suspense(net: int) -> None:
    found = moved(_with(gross=net, net=net))
    assert found == {"processor_receivable:stripe:USD": net, "recon_suspense:stripe:USD": -net}


@given(st.integers(1, 10**9), st.integers(1, 10**9), st.integers(0, 10**6), st.sampled_from((1, -1)))
def test_what_is_settled_in_another_currency_is_owed_in_it(paid: int, net: int, fee: int, sign: int) -> None:
    due = _with(type="exchange", currency="EUR", gross=sign * paid, net=sign * net, fee=fee, line_id="txn_1/exchange")
    found = moved(due)
    assert found["processor_receivable:stripe:EUR"] == -sign * paid
    assert found["processor_receivable:stripe:USD"] == sign * net, "what the payout brings"
    assert found.get("processor_fee_expense:stripe:USD", 0) == fee


#: every kind of line that becomes a ledger transaction of its own
JOURNALS: dict[str, dict[str, Any]] = {
    "payout": {"type": "payout", "gross": 700},
    "a payout that takes from us": {"type": "payout", "gross": -700},
    "payout_reversal": {"type": "payout_reversal", "gross": 700, "matched": "txn_0"},
    "unknown line": {"type": "other", "gross": -3, "net": -3},
    "exchange": {"type": EXCHANGE, "currency": "EUR", "gross": 1_000, "net": 1_050, "fee": 30},
    "bank_credit": {
        "type": "bank_credit",
        "processor": "bank:NL1",
        "gross": 7,
        "matched": "p",
        "counterpart": "stripe",
    },
    "bank_return": {"type": BANK_RETURN, "processor": "bank:NL1", "gross": -7, "matched": "p", "counterpart": "stripe"},
}


@each("kind", JOURNALS)
@each("told", [1, 2])
def test_owners_post_every_transaction_that_reconciliation_makes(kind: str, told: int) -> None:
    found = decide_post(command_of(_with(told=told, **JOURNALS[kind]), 0), exists=False)
    assert isinstance(found, JournalEntry), found


def test_owners_post_a_late_fee() -> None:
    assert isinstance(decide_post(late_fee_command(_with(fee=12), 0), exists=False), JournalEntry)


@pytest.mark.parametrize("kind", ["exchange", "unknown line"])
def test_what_was_refused_is_told_anew_as_another_command_of_the_same_entry(kind: str) -> None:
    """A refusal is stored under its identity for good; the reference, and so the owner, stay: it is posted once."""
    first, anew = (command_of(_with(told=told, **JOURNALS[kind]), 0) for told in (1, 2))
    assert first.idempotency_key != anew.idempotency_key
    assert first.request_id != anew.request_id
    assert (first.aggregate_key, first.payload) == (anew.aggregate_key, anew.payload)


def _with(**changes: Any) -> Due:
    return Due(**{name: getattr(DUE, name) for name in DUE.__struct_fields__} | changes)
