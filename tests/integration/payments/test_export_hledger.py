"""The export as hledger reads it: strictly, every balance asserted to the last unit, whatever text is in it."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from reconciliation.payments.export.hledger import HEAD, assertion, opening, transaction
from reconciliation.payments.export.ledger import Line, Txn
from tests.eventually import patient
from tests.servers import servers_missing

DAY, NEXT = "2026-02-28", "2026-03-01"
HOSTILE = 'a; b: 1\n2026-01-01 x\r\u2028    Assets:Cash  5 USD "\\'


def found_wrong(text: str) -> str:
    """What hledger finds wrong with a journal."""
    hledger = shutil.which("hledger")
    if hledger is None:
        servers_missing("hledger is not installed on this machine")
    done = subprocess.run(
        [hledger, "-f", "-", "check", "--strict"], input=text, capture_output=True, text=True, check=False, timeout=patient(60),
        env={"LANG": "C.UTF-8"},
    )  # fmt: skip
    return "" if done.returncode == 0 else done.stderr


def history(currency: str, amount: int, posted: int, balance: int) -> str:
    debit, credit = f"cash:bank:{currency}", f"merchant_available:m_1:{currency}"
    return "".join([
        HEAD,
        opening(debit, currency, DAY),
        opening(credit, currency, DAY),
        transaction(Txn(7, HOSTILE, HOSTILE, HOSTILE, DAY), [Line(debit, currency, amount), Line(credit, currency, -posted)]),
        assertion(debit, currency, balance, NEXT),
        assertion(credit, currency, -posted, NEXT),
    ])  # fmt: skip


@pytest.mark.parametrize("currency", ["USD", "JPY", "CLF"])
def test_a_true_history_is_silent_and_one_unit_is_not(currency: str) -> None:
    amount = 10**27 + 1  # far past any float
    assert found_wrong(history(currency, amount, amount, amount)) == ""
    assert "balance this transaction" in found_wrong(history(currency, amount, amount + 1, amount))
    assert "assert" in found_wrong(history(currency, amount, amount, amount - 1))


def test_what_a_merchant_wrote_stays_on_its_line() -> None:
    text = transaction(Txn(7, HOSTILE, "k", "a", DAY), [])
    assert len(text.splitlines()) == 6
    assert [line for line in text.splitlines()[2:] if not line.lstrip().startswith(";")] == []
