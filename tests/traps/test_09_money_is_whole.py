"""Money is whole minor units in every package: no float, no true division, no rounding by accident, no overflow.

Trap 9. Amounts of every ISO 4217 currency as text and back are proved in tests/unit/test_currency.py.
"""

from __future__ import annotations

import ast
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataflows.payments import ledger_statements
from dataflows.payments.domain.policies.fees import FeeSchedule, fee_minor
from schemas import limits
from schemas.fields import currency
from schemas.payments.records import LedgerEntry, LedgerTxn
from tests.tidy import tree

#: names of money; times, rates and shares of requests are something else
MONEY = re.compile(
    r"(^|_)(amounts?|minor|gross|net|fees?|debits?|credits?|balances?|captured|refunded|disputed|received|payout)(_|$)"
)
NOT_MONEY = re.compile(r"_(count|counts|at|ms|s|lines|id|ids|url)$|^is_|^has_")
AMOUNT = st.integers(1, limits.AMOUNT_MINOR_MAX)


def names_money(node: ast.AST) -> bool:
    """Whether an expression speaks of an amount."""
    words = [n.id for n in ast.walk(node) if isinstance(n, ast.Name)]
    words += [n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute)]
    return any(MONEY.search(word) and not NOT_MONEY.search(word) for word in words)


def is_inexact(node: ast.AST) -> bool:
    """A true division, a product with a float, or a float made of something."""
    if isinstance(node, ast.BinOp):
        has_float = any(isinstance(s, ast.Constant) and isinstance(s.value, float) for s in (node.left, node.right))
        return has_float or isinstance(node.op, ast.Div)
    return isinstance(node, ast.Call) and ast.unparse(node.func) in ("float", "round", "math.floor", "math.ceil")


@pytest.mark.parametrize("package", tree.PACKAGES)
def test_no_amount_meets_a_float(package: str) -> None:
    found = [
        tree.marked(file, node)
        for file in tree.sources(package)
        for node in tree.nodes(file)
        if is_inexact(node) and names_money(node)
    ]
    assert found == []


@pytest.mark.parametrize("line", ["amount / 2", "0.5 * gross", "float(row.net)", "round(fee_minor)", "x.debit * 1.0"])
def test_the_lint_sees_what_it_is_for(line: str) -> None:
    node = ast.parse(line, mode="eval").body
    assert is_inexact(node)
    assert names_money(node)


@given(amount=AMOUNT, platform_bps=st.integers(0, 10_000))
def test_a_split_adds_up_to_the_last_unit(amount: int, platform_bps: int) -> None:
    """In every currency alike: a fee knows no exponent."""
    fees = FeeSchedule(platform_bps=platform_bps, processor_bps=60)
    share = fees.merchant_share(amount)
    assert share + fee_minor(amount, platform_bps) == amount
    assert 0 <= share <= amount


@given(amounts=st.lists(AMOUNT, min_size=1, max_size=12), code=st.sampled_from(sorted(currency.EXPONENTS)))
def test_parts_as_text_add_up_to_the_whole(amounts: list[int], code: str) -> None:
    parts = [currency.parse_minor(currency.format_minor(amount, code), code) for amount in amounts]
    whole = currency.parse_minor(currency.format_minor(sum(amounts), code), code)
    assert sum(parts) == whole


def test_the_balances_of_a_batch_may_pass_what_eight_bytes_hold() -> None:
    """A batch of the largest amounts sums to more than 2^63; its statement carries every digit."""
    count = 2**63 // limits.AMOUNT_MINOR_MAX + 2
    entry = LedgerEntry(account_id="cash:b:USD", debit=limits.AMOUNT_MINOR_MAX, credit=0, currency="USD")
    txns = [LedgerTxn(txn_id=n, reference=str(n), kind="k", effective_at=0, entries=[entry]) for n in range(count)]
    _, (_, _, _, debits, credited, _) = ledger_statements.balances_add(txns, 0)
    assert str(count * limits.AMOUNT_MINOR_MAX).encode() in debits.encoded()
    assert count * limits.AMOUNT_MINOR_MAX > 2**63
    assert credited.encoded() == b"{0}"
