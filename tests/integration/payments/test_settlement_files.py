"""What became of a given file: told of the file itself, and a rejection is no word about the next try."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import pytest

from reconciliation.payments.settlement.file_result import FileResult
from reconciliation.payments.settlement.ingest import ReportFile, take_in
from reconciliation.payments.settlement.run import ReconcileSettings, reconcile
from reconciliation.payments.settlement.sources import READERS, GivenFile
from sinks.kafka.connection import KafkaConnection
from tests.integration.payments.test_bank_entries import entry, statement
from tests.worlds.payments.settlement_world import SettlementWorld, settlement_world

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.servers import World

pytestmark = pytest.mark.servers

STRIPE = (
    b"balance_transaction_id,currency,gross,fee,net,reporting_category\n"
    b"txn_1,USD,10.00,0.50,9.50,charge\ntxn_2,USD,-0.50,0,-0.50,fee\n"
)


@pytest.fixture
def world(stack: World) -> Iterator[SettlementWorld]:
    with settlement_world(stack.settings) as made:
        yield made


def given(
    world: SettlementWorld, path: Path, data: bytes, file_format: Any, processor: str | None = None
) -> FileResult:
    """Reconciles with this file alone; nobody is told anything, so that no broker is asked."""
    path.write_bytes(data)
    settings = ReconcileSettings(postgres_dsn=world.dsn, kafka=KafkaConnection(bootstrap="127.0.0.1:1"), processors={})
    (result,) = reconcile(settings, [GivenFile(path=path, format=file_format, processor=processor)]).files
    return result


def test_a_rejected_file_may_be_given_again_as_what_it_is(world: SettlementWorld, tmp_path: Path) -> None:
    path = tmp_path / "report.csv"
    for wrong in ("adyen", "simulator", "camt053"):
        result = given(world, path, STRIPE, wrong, "acme")
        assert (result.state, result.new_lines, result.is_whole) == ("rejected", 0, False)
        assert [found.found_class for found in result.discrepancies] == ["unreadable_report"]
        assert result.reasons
    result = given(world, path, STRIPE, "stripe", "acme")
    assert (result.state, result.new_lines, result.is_whole) == ("taken_in", 2, True)
    assert [found.found_class for found in result.discrepancies] == ["orphan", "unbooked_fee"]
    assert [found for found, *_ in world.open_discrepancies()] == ["orphan", "unbooked_fee"], "no rejection stays"
    again = given(world, path, STRIPE, "stripe", "acme")
    assert (again.state, again.new_lines, again.discrepancies) == ("known", 0, result.discrepancies)


def test_a_file_is_whole_when_all_of_it_could_be_read(world: SettlementWorld, tmp_path: Path) -> None:
    result = given(world, tmp_path / "cut.csv", STRIPE + b"txn_3,USD,1", "stripe")
    assert (result.state, result.is_whole) == ("truncated", False)
    result = given(world, tmp_path / "line.csv", STRIPE.replace(b"10.00", b"ten"), "stripe", "other")
    assert (result.state, result.is_whole) == ("taken_in", False)
    head = '<Document xmlns="urn:iso:std:iso:20022:tech:xsd:camt.053.001.08"><BkToCstmrStmt>'
    sound, other = statement("1", 300, entry(300)), statement("2", 300, entry(200))
    for statements, state in ((sound + other, "partly"), (other, "rejected"), (sound, "taken_in")):
        data = f"{head}{statements}</BkToCstmrStmt></Document>".encode()
        result = given(world, tmp_path / "bank.xml", data, "camt053")
        assert (result.state, result.is_whole) == (state, state == "taken_in")


def test_a_file_with_lines_that_can_be_read_now_is_read_again(world: SettlementWorld, tmp_path: Path) -> None:
    """After an upgrade that reads more: what was told of such a line is explained, and the line is there."""
    path = tmp_path / "report.csv"
    ((_, report_id),) = given(world, path, STRIPE, "stripe").reports
    world.sql("delete from settlement_line where line_id = 'txn_1'")
    world.sql("insert into settlement_discrepancy (processor, subject, class, reference, amount)"
              " values ('stripe', %s, 'unreadable_line', 'x', 0)", f"{report_id}#2")  # fmt: skip
    again = given(world, path, STRIPE, "stripe")
    assert (again.state, again.new_lines, again.is_whole) == ("taken_in", 1, True)
    assert given(world, path, STRIPE, "stripe").state == "known"


COLUMNS = (
    "balance_transaction_id,source_id,automatic_payout_id,currency,gross,fee,net,reporting_category,"
    "payment_metadata[operation_id],customer_facing_amount,customer_facing_currency\n"
)


def stripe_report(world: SettlementWorld, text: str, columns: str = COLUMNS) -> None:
    """Takes a report of Stripe's in, before anything is told to owners."""
    data = (columns + text).encode()
    report = ReportFile(processor="stripe", report_id="rpt", sha256=b"", format="stripe", is_complete_history=False)
    with world.operator() as connection:
        take_in(connection, report, READERS["stripe"](io.BytesIO(data)))


def test_stripe_s_partial_captures_exchanges_and_unknown_lines_are_paid_out(world: SettlementWorld) -> None:
    """One payout of all of them, without a line of its own: nothing false in suspense, nothing left behind."""
    part = world.capture(1_000, processor="stripe")["operation_id"]
    euro = world.capture(2_000, processor="stripe", currency="EUR")["operation_id"]
    back = world.refund(500, processor="stripe", currency="EUR")["operation_id"]
    stripe_report(
        world,
        f"txn_1,ch_1,po_1,usd,20.00,0.06,19.94,charge,{part},,\n"
        f"txn_2,ch_1,po_1,usd,-10.00,0,-10.00,partial_capture_reversal,{part},,\n"
        f"txn_3,ch_2,po_1,usd,22.00,0.62,21.38,charge,{euro},20.00,eur\n"
        f"txn_4,re_2,po_1,usd,-5.50,0,-5.50,refund,{back},5.00,eur\n"
        "txn_5,x,po_1,usd,-1.00,0,-1.00,surprise,,,\n",
    )
    assert world.open_discrepancies() == [("unknown_line", "surprise", 100)]
    due = world.sql(
        "select line_id, type, finding, posted_gross, posted_fee, posted_difference from settlement_line"
        " where posting = 'due' order by line_id"
    )
    assert due == [
        ("po_1:USD", "payout", None, 2_482, 0, 0),
        ("txn_1", "charge", "matched", 1_000, 6, 0),
        ("txn_3", "charge", "matched", 2_000, 0, 0),
        ("txn_3/exchange", "exchange", None, 2_000, 62, 0),
        ("txn_4", "refund", "matched", -500, 0, 0),
        ("txn_4/exchange", "exchange", None, -500, 0, 0),
        ("txn_5", "other", None, -100, 0, 0),
    ]
    before = world.state()
    stripe_report(world, "txn_5,x,po_1,usd,-1.00,0,-1.00,surprise,,,\n")
    assert world.state() == before, "a report that has some of its lines again says nothing of the payout"
    stripe_report(world, "txn_6,ch_6,po_1,usd,3.00,0,3.00,charge,,,\n")
    found = [found for found, *_ in world.open_discrepancies()]
    assert found == ["changed_line", "orphan", "unknown_line"], "and one that has more of them is told"


def test_a_fee_is_a_difference_only_where_a_contract_says_otherwise(world: SettlementWorld) -> None:
    """Whatever was taken is booked. A line of a card that no contract speaks of is right as it stands."""
    made = [world.capture(1_000, processor="stripe")["operation_id"] for _ in range(5)]
    row = "txn_{0},ch_{0},,usd,10.00,0.46,9.54,charge,{1},,\n"
    stripe_report(world, row.format(0, made[0]))
    assert world.open_discrepancies() == []
    contracts = '{"contracts": [{"processor": "stripe", "scheme": "visa", "bps": 140, "fixed": {"USD": 30}}]}'
    world.sql("insert into policy_version values ('processor_fees', 1, %s, 'active', 'm_ops')", contracts)
    visa, other = row.replace(",,\n", ",,,visa\n"), row.replace(",,\n", ",,,amex\n")
    agreed = visa.replace("0.46,9.54", "0.44,9.56")
    parts = visa.replace("10.00,0.46,9.54", "4.00,0.30,3.70") + visa.replace("10.00,0.46,9.54", "6.00,0.30,5.70")
    lines = agreed.format(1, made[1]) + visa.format(2, made[2]) + other.format(3, made[3])
    columns = COLUMNS.replace("\n", ",card_brand\n")
    stripe_report(world, lines + parts.format(4, made[4]), columns)
    ((found, _, amount),) = world.open_discrepancies()
    assert (found, amount) == ("fee_difference", 2)
    assert [row[1] for row in world.state()[2]] == ["settlement_difference"], "a case, that a person can close"
    assert sorted(fee for *_, fee, _ in world.due().values()) == [44, 46, 46, 46, 60]
