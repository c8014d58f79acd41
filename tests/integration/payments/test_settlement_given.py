"""Files of Stripe and Adyen on a real Postgres: other currencies, payouts that two files tell of, two merchant accounts."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import pytest

from reconciliation.payments.settlement.ingest import ReportFile, take_in
from reconciliation.payments.settlement.sources import READERS
from tests.worlds.payments.settlement_world import SettlementWorld, settlement_world

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.servers import World

pytestmark = pytest.mark.servers

ADYEN = ("Merchant Account", "Psp Reference", "Merchant Reference", "Type", "Modification Reference", "Gross Currency",
         "Gross Debit (GC)", "Gross Credit (GC)", "Net Currency", "Net Debit (NC)", "Net Credit (NC)",
         "Payment Fees (NC)", "Batch Number", "Creation Date")  # fmt: skip
STRIPE = ("balance_transaction_id", "source_id", "currency", "gross", "fee", "net", "reporting_category",
          "automatic_payout_id", "customer_facing_amount", "customer_facing_currency",
          "payment_metadata[reference]")  # fmt: skip


@pytest.fixture
def world(stack: World) -> Iterator[SettlementWorld]:
    with settlement_world(stack.settings) as made:
        yield made


def given(world: SettlementWorld, columns: tuple[str, ...], report_id: str, *rows: dict[str, Any]) -> None:
    """A file of that format is taken in."""
    text = "\n".join([",".join(columns), *(",".join(str(row.get(c, "")) for c in columns) for row in rows)]) + "\n"
    name = "adyen" if columns is ADYEN else "stripe"
    report = ReportFile(
        processor=name, report_id=report_id, sha256=text.encode(), format=name, is_complete_history=False
    )
    with world.operator() as connection:
        take_in(connection, report, READERS[name](io.BytesIO(text.encode())))


def adyen(kind: str, psp: str, modification: str, gross: str, net: str, fee: str = "0") -> dict[str, Any]:
    """A line that is paid in euros and settled in dollars."""
    side, net_side = ("Debit" if gross[0] == "-" else "Credit"), ("Debit" if net[0] == "-" else "Credit")
    return {"Type": kind, "Psp Reference": psp, "Modification Reference": modification, "Gross Currency": "EUR",
            f"Gross {side} (GC)": gross.lstrip("-"), "Net Currency": "USD", f"Net {net_side} (NC)": net.lstrip("-"),
            "Payment Fees (NC)": fee, "Batch Number": "7", "Merchant Account": "Shop"}  # fmt: skip


def exchanged(world: SettlementWorld) -> list[tuple[Any, ...]]:
    """What is exchanged because of each line: paid, its currency, fee, net, its currency."""
    return world.sql(
        "select part_of, posted_gross, currency, posted_fee, net, net_currency from settlement_line"
        " where type = 'exchange' and posting = 'due' order by line_no"
    )


@pytest.mark.parametrize(("booked", "posted"), [(0, (-2_000, "EUR", 750)), (500, (-2_500, "EUR", 0))])
def test_a_dispute_in_another_currency_is_exchanged_with_the_fee_that_it_has(
    world: SettlementWorld, booked: int, posted: tuple[int, str, int]
) -> None:
    """What its owner took from the receivable in euros comes back to it, and the dollars that the payout lacks go."""
    paid = world.capture(2_000, currency="EUR", processor="adyen", provider_ref="PSP1")
    world.sql(
        "insert into dispute values ('dp_1', %s, 'm_1', 'adyen', 'DSP1', 2000, 'EUR', %s, null, 'won', 'reinstated', 1,"
        " now(), now())",
        paid["intent_id"], booked,
    )  # fmt: skip
    taken = adyen("Chargeback", "PSP1", "DSP1", "-20.00", "-29.50", "7.50")
    back = adyen("ChargebackReversed", "PSP1", "DSP1", "20.00", "21.80", "0.20")
    given(world, ADYEN, "rpt_1", taken, back)
    rows = [row[1:] for row in exchanged(world)]
    assert rows == [(*posted, -2_950, "USD"), (2_000, "EUR", 20, 2_180, "USD")]
    assert world.open_discrepancies() == []


def test_a_refund_that_came_back_in_another_currency_is_exchanged(world: SettlementWorld) -> None:
    world.refund(500, currency="EUR", processor="adyen", provider_ref="REF1", status="failed", final=True)
    given(world, ADYEN, "rpt_1", adyen("RefundedReversed", "PSP1", "REF1", "5.00", "5.40"))
    assert [row[1:] for row in exchanged(world)] == [(500, "EUR", 0, 540, "USD")]
    assert world.open_discrepancies() == []


def test_one_line_for_several_captures_in_another_currency_is_exchanged_once(world: SettlementWorld) -> None:
    """The fee of the line is in the currency of the settlement: of the captures none was taken in theirs."""
    first = world.capture(1_000, currency="EUR", processor="stripe", provider_ref="ch_1", kind="capture")
    also = {"intent_id": first["intent_id"], "attempt": 2, "kind": "capture", "provider_ref": "ch_2"}
    world.capture(500, currency="EUR", processor="stripe", **also)
    line = {"balance_transaction_id": "txn_1", "currency": "usd", "gross": "16.50", "fee": "0.50", "net": "16.00",
            "reporting_category": "charge", "customer_facing_amount": "15.00", "customer_facing_currency": "eur",
            "payment_metadata[reference]": first["intent_id"]}  # fmt: skip
    given(world, STRIPE, "rpt_1", line)
    assert sorted(told[1:] for told in world.due().values()) == [(500, 0, 0), (1_000, 0, 0)]
    assert exchanged(world) == [("txn_1", 1_500, "EUR", 50, 1_600, "USD")]


#: lines of one payout as the activity report has them, and the payout as the reconciliation report does
ACTIVITY = [{"balance_transaction_id": f"txn_{n}", "currency": "usd", "gross": "10.00", "fee": "0.50", "net": "9.50",
             "reporting_category": "charge", "automatic_payout_id": "po_1"} for n in range(2)]  # fmt: skip
PAYOUT = {"balance_transaction_id": "txn_po", "source_id": "po_1", "currency": "usd", "gross": "-19.00", "fee": "0",
          "net": "-19.00", "reporting_category": "payout", "automatic_payout_id": "po_1"}  # fmt: skip


def announced(world: SettlementWorld) -> list[tuple[Any, ...]]:
    """Payouts that are told to the ledger."""
    return world.sql(
        "select posted_gross, posting from settlement_line where type = 'payout' and class = 'announced' order by line_id"
    )


def changed_lines(world: SettlementWorld) -> list[int]:
    return [amount for found, _, amount in world.open_discrepancies() if found == "changed_line"]


@pytest.mark.parametrize("is_activity_first", [True, False])
@pytest.mark.parametrize("sign", ["-", ""])
def test_a_payout_that_two_reports_tell_of_is_announced_once(
    world: SettlementWorld, sign: str, *, is_activity_first: bool
) -> None:
    """The activity report has its lines, the reconciliation report its own line, too; each as often as you like."""
    money = {"gross": f"{sign}19.00", "net": f"{sign}19.00"}
    files = [("rpt_activity", ACTIVITY), ("rpt_reconciled", [*ACTIVITY, PAYOUT | money])]
    for name, rows in files if is_activity_first else files[::-1]:
        given(world, STRIPE, name, *rows)
        given(world, STRIPE, name + "_again", *rows)
    assert announced(world) == [(1_900, "due")]
    assert changed_lines(world) == []


@pytest.mark.parametrize("is_activity_first", [True, False])
def test_a_payout_that_two_reports_tell_of_with_two_amounts_is_told(
    world: SettlementWorld, *, is_activity_first: bool
) -> None:
    """The first one stands: neither is posted over the other. With a line that nobody brought before, it is another sum."""
    more = ACTIVITY[0] | {"balance_transaction_id": "txn_9", "gross": "1.00", "net": "0.50"}
    files = [("rpt_activity", [*ACTIVITY, more]), ("rpt_reconciled", [*ACTIVITY, PAYOUT])]
    for name, rows in files if is_activity_first else files[::-1]:
        given(world, STRIPE, name, *rows)
    assert announced(world) == [(1_950 if is_activity_first else 1_900, "due")]
    assert changed_lines(world) == [50]


def test_payouts_of_one_name_in_two_currencies_are_two(world: SettlementWorld) -> None:
    euros = [line | {"currency": "eur", "balance_transaction_id": f"txn_e{n}"} for n, line in enumerate(ACTIVITY)]
    given(world, STRIPE, "rpt_activity", *ACTIVITY, *euros)
    given(world, STRIPE, "rpt_reconciled", *ACTIVITY, PAYOUT)
    assert announced(world) == [(1_900, "due"), (1_900, "due")]


def account_file(account: str, fee: str, *psp: str) -> list[dict[str, Any]]:
    """A file of one merchant account: a charge for each reference, the fee of the month, and what is paid out."""
    net = f"{10 * len(psp) - float(fee):.2f}"
    charges = [adyen("Settled", ref, f"M{ref}", "10.00", "10.00") | {"Gross Currency": "USD"} for ref in psp]
    fees = adyen("Fee", "", "Transaction Fees February", "0", f"-{fee}")
    payout = adyen("MerchantPayout", "", "TX1 batch 7", "0", f"-{net}")
    return [row | {"Merchant Account": account} for row in (*charges, fees, payout)]


def payouts(world: SettlementWorld) -> list[tuple[str, int]]:
    return world.sql("select batch, posted_gross from settlement_line where class = 'announced' order by batch")


def test_two_merchant_accounts_have_their_own_batches_and_fees(world: SettlementWorld) -> None:
    files = [("rpt_a", account_file("ShopA", "1.80", "PSP1")), ("rpt_b", account_file("ShopB", "2.50", "PSP2"))]
    for name, rows in files * 2:
        given(world, ADYEN, name, *rows)
    assert payouts(world) == [("ShopA/7", 820), ("ShopB/7", 750)]
    assert world.sql("select net from settlement_line where type = 'fee' order by net") == [(-250,), (-180,)]
    assert changed_lines(world) == []


def test_a_file_of_two_merchant_accounts_is_two_batches(world: SettlementWorld) -> None:
    rows = [*account_file("ShopA", "1.80", "PSP1"), *account_file("ShopB", "1.80", "PSP2")]
    given(world, ADYEN, "rpt_1", *rows)
    given(world, ADYEN, "rpt_2", *rows)
    assert payouts(world) == [("ShopA/7", 820), ("ShopB/7", 820)]


@pytest.mark.parametrize("is_whole", [True, False])
def test_what_was_taken_in_before_accounts_were_told_apart_is_known_again(
    world: SettlementWorld, *, is_whole: bool
) -> None:
    """Whole, or cut off before its fee and payout: that batch goes on under its name, and that of another account is new."""
    before = tuple(name for name in ADYEN if name != "Merchant Account")
    rows = account_file("ShopA", "1.80", "PSP1", "PSP3")
    taken = ReportFile(processor="adyen", report_id="rpt_0", sha256=b"", format="adyen", is_complete_history=False)
    cells = "\n".join(",".join(str(row.get(c, "")) for c in before) for row in (rows if is_whole else rows[:1]))
    with world.operator() as connection:
        take_in(connection, taken, READERS["adyen"](io.BytesIO(f"{','.join(before)}\n{cells}\n".encode())))
    given(world, ADYEN, "rpt_a", *rows)
    assert payouts(world) == [("7", 1_820)]
    given(world, ADYEN, "rpt_b", *account_file("ShopB", "2.50", "PSP2"))
    given(world, ADYEN, "rpt_a_again", *rows)
    assert payouts(world) == [("7", 1_820), ("ShopB/7", 750)]
    assert world.sql("select count(*) from settlement_line where type = 'fee'") == [(2,)]
    assert changed_lines(world) == []
