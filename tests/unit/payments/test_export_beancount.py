"""The export as text: every account apart from every other, every amount exact, and beancount itself reads it back."""

from __future__ import annotations

from decimal import Decimal

import pytest
from beancount import loader
from beancount.core.data import Balance, Open, Transaction
from beancount.parser import parser
from hypothesis import given
from hypothesis import strategies as st

from reconciliation.payments.export.accounts import beancount_account
from reconciliation.payments.export.beancount import assertion, opening, quoted, transaction
from reconciliation.payments.export.ledger import Line, Txn
from schemas import limits
from schemas.fields.currency import EXPONENTS, parse_minor
from tests.each import each

KINDS = ("merchant_pending", "merchant_available", "platform_fee_income", "recon_suspense", "auth_hold", "new_kind", "")
names = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))
accounts = st.one_of(
    st.builds(
        "{}:{}".format, st.sampled_from(KINDS), names | st.sampled_from(["", "a_b", "a-b", "a--b", "a:b", "-5f"])
    ),
    st.sampled_from(KINDS),
    names,
)
currencies = st.sampled_from(sorted(EXPONENTS))
DAY, NEXT = "2026-02-28", "2026-03-01"


def loaded(text: str) -> list[str]:
    """What beancount finds wrong with a file."""
    return [error.message for error in loader.load_string(text)[1]]


def history(amount: int, *, currency: str = "USD", posted: int | None = None, balance: int | None = None) -> str:
    """Two accounts, one transaction, both balances."""
    debit, credit = f"cash:bank:{currency}", f"merchant_available:m_1:{currency}"
    lines = [Line(debit, currency, amount), Line(credit, currency, -(amount if posted is None else posted))]
    held = amount if balance is None else balance
    return "".join([
        opening(debit, currency, DAY),
        opening(credit, currency, DAY),
        transaction(Txn(7, "po_1:x", "payout", "pi_1", DAY), lines),
        assertion(debit, currency, held, NEXT),
        assertion(credit, currency, -amount, NEXT),
    ])  # fmt: skip


@given(accounts, accounts, currencies)
def test_two_accounts_never_become_one(one: str, other: str, currency: str) -> None:
    mine, theirs = (beancount_account(f"{account}:{currency}", currency) for account in (one, other))
    assert (mine == theirs) == (one == other)


@given(st.lists(accounts, min_size=1, max_size=5, unique=True), currencies)
def test_beancount_takes_every_account(found: list[str], currency: str) -> None:
    """Whatever a merchant is called: the name is legal, and the account's own id is read back."""
    ids = [f"{account}:{currency}" for account in found]
    entries, errors, _ = loader.load_string("".join(opening(one, currency, DAY) for one in ids))
    assert errors == []
    assert sorted(entry.meta["account"] for entry in entries if isinstance(entry, Open)) == sorted(ids)


@given(names, names, names)
def test_beancount_reads_back_what_was_said(reference: str, kind: str, aggregate: str) -> None:
    text = transaction(Txn(9, reference, kind, aggregate, DAY), [])
    (entry,), errors, _ = parser.parse_string(text)
    assert not errors
    assert isinstance(entry, Transaction)
    said = (entry.meta["txn_id"], entry.meta["reference"], entry.meta["kind"], entry.meta["aggregate"])
    assert said == ("9", reference, kind, aggregate)
    assert entry.narration == kind


@given(currencies, st.integers(-(10**27), 10**27))  # beancount itself reckons with 28 digits
def test_amounts_are_exact_far_past_any_float(currency: str, amount: int) -> None:
    (entry,), _, _ = parser.parse_string(assertion(f"cash:b:{currency}", currency, amount, DAY))
    assert isinstance(entry, Balance)
    assert entry.amount.number == Decimal(amount).scaleb(-EXPONENTS[currency])
    assert parse_minor(str(entry.amount.number), currency) == amount


@each("currency", ["USD", "JPY", "BHD", "CLF"])
@each("amount", [1, 100, limits.AMOUNT_MINOR_MAX])
def test_a_true_history_is_silent_and_one_unit_is_not(currency: str, amount: int) -> None:
    """A line that is off by one unit does not balance; a balance that is off by one is told, too."""
    assert loaded(history(amount, currency=currency)) == []
    assert any(
        "does not balance" in message for message in loaded(history(amount, currency=currency, posted=amount + 1))
    )
    for off in (-1, 1):
        assert any("Balance failed" in m for m in loaded(history(amount, currency=currency, balance=amount + off)))


def test_an_account_of_another_currency_is_refused() -> None:
    for account in ("cash:b:EUR", "USD", "cash"):
        with pytest.raises(ValueError, match="is not of the currency USD"):
            beancount_account(account, "USD")


def test_a_quote_does_not_end_a_string() -> None:
    assert quoted('a"\\\n') == '"a\\"\\\\\\n"'
