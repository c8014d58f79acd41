"""Reconciliation of the whole system with the simulator's own reports, faults planted, kills at every step."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import psycopg
import pytest

from tests.eventually import becomes, patient
from tests.gate import examples
from tests.integration.operator_shell import MILLRACE
from tests.servers import clean_environment
from tests.worlds.payments.repair_world import audited, millrace
from tests.worlds.payments.settlement_world import csv_of
from tests.worlds.public_system import merchant, public

if TYPE_CHECKING:
    from tests.worlds.public_system import Merchant, PublicSystem

__all__ = ["merchant", "public"]
# what is settled and reconciled is everybody's
pytestmark = [pytest.mark.servers, pytest.mark.slow, pytest.mark.alone]

#: reconciles once, and dies at the n-th step
_KILLED = """
import os, signal, sys
from compose.cli.payments.reconcile import _settings
from reconciliation.payments.settlement.run import reconcile
left = int(sys.argv[1])
def step(_):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
reconcile(_settings(None, is_file_given=False), [], on_step=step)
"""


def reconciled(system: PublicSystem) -> dict[str, Any]:
    done = subprocess.run(
        [MILLRACE, "reconcile", "--json"],
        env=clean_environment() | system.settings.environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=patient(150),
    )
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def paid(merchant: Merchant, count: int) -> list[str]:
    """Payments that are captured, one after the other."""
    ids = []
    for n in range(count):
        made = merchant.create(amount=2_000 + n).json()["result"]["id"]
        assert merchant.act(made, "confirm").status_code == 200
        becomes(lambda i=made: merchant.fresh(f"/v1/payment_intents/{i}").json()["state"], "succeeded", 60)
        ids.append(made)
    return ids


def settle(system: PublicSystem, *faults: dict[str, Any]) -> list[str]:
    url = f"{system.settings.addresses().processor_url}/settlements"
    answer = httpx.post(url, json={"faults": list(faults)}, timeout=30, trust_env=False)
    assert answer.status_code in {200, 201}, answer.text
    return list(answer.json().get("reports", [answer.json()["report_id"]]))


def mine(report: dict[str, Any], ids: list[str]) -> dict[str, tuple[str, int]]:
    return {d["reference"]: (d["class"], d["amount"]) for d in report["discrepancies"] if d["reference"] in ids}


def posted(system: PublicSystem) -> list[tuple[Any, ...]]:
    """All that reconciliation brought into the ledger."""
    return system.rows(
        "select reference, kind from ledger_txn where kind like 'settle%%' or kind like 'payout%%' order by reference"
    )


def receivables_differ(system: PublicSystem) -> dict[str, list[dict[str, Any]]]:
    """What ``millrace check`` finds where processors' balances and lines are compared, by invariant."""
    done = millrace(system, "check", "--only", "14", "--only", "15", "--json")
    return {one["id"]: one["sample"] for one in json.loads(done.stdout)["invariants"]}


def left(system: PublicSystem, intent_id: str) -> dict[str, int]:
    """What a payment left with its processor: owed, taken as fees, and in suspense."""
    rows = system.rows(
        "select split_part(e.account_id, ':', 1), sum(e.debit - e.credit) from ledger_entry e join ledger_txn t using (txn_id)"
        " where t.aggregate_key = %s and e.account_id like any(array['recon_suspense:%%', 'processor_%%']) group by 1",
        intent_id,
    )
    return {account: int(amount) for account, amount in rows}


def test_each_planted_fault_is_found_once_and_a_second_run_changes_nothing(
    public: PublicSystem,
    merchant: Merchant,
) -> None:
    ids = paid(merchant, 8)
    faults = [{"kind": "short", "reference": ids[0], "amount": 7}, {"kind": "missing", "reference": ids[1]},
              {"kind": "duplicate", "reference": ids[2]}, {"kind": "sign_flipped", "reference": ids[3]},
              {"kind": "over", "reference": ids[4], "amount": 9}, {"kind": "split", "reference": ids[5]}]  # fmt: skip
    settle(public, *faults)
    first = reconciled(public)
    assert mine(first, ids) == {
        ids[0]: ("short", 7),
        ids[1]: ("missing", 2_001),
        ids[2]: ("duplicate", 2_002),
        ids[3]: ("sign_flipped", 2_003),
        ids[4]: ("over", 9),
    }
    # the duplicate was paid out, and charged for: the fee is a fee, and the money waits
    paid_twice = {"processor_receivable": 2 * (2_002 - 12), "processor_fee_expense": 2 * 12, "recon_suspense": -2_002}
    assert left(public, ids[2]) == paid_twice
    assert receivables_differ(public) == {"14": [], "15": []}
    before, balance = posted(public), merchant.fresh("/v1/balance").json()
    again = reconciled(public)
    assert (again["new_lines"], again["posted"]) == (0, {"decided": 0, "refused": 0, "undecided": 0})
    assert again["discrepancies"] == first["discrepancies"]
    assert again["matched"] == first["matched"]
    assert posted(public) == before
    assert merchant.fresh("/v1/balance").json() == balance
    # who reconciled stands in the audit log, before and after
    begun_and_done = [("settlement.reconcile", "begun"), ("settlement.reconcile", "done")]
    assert [row[1:] for row in audited(public, "all")][-4:] == begun_and_done * 2


def test_who_took_the_whole_ledger_along_is_on_record(public: PublicSystem, tmp_path: Path) -> None:
    written = tmp_path / "ledger.beancount"
    done = millrace(public, "export", "--output", str(written))
    assert (done.returncode, written.stat().st_size > 0) == (0, True), done.stderr
    assert [row[1:] for row in audited(public, str(written))] == [("ledger.export", "begun"), ("ledger.export", "done")]


def test_a_kill_at_any_step_ends_in_the_same_state(public: PublicSystem, merchant: Merchant) -> None:
    ids = paid(merchant, 5)
    settle(public, {"kind": "short", "reference": ids[0], "amount": 3}, {"kind": "duplicate", "reference": ids[1]})
    for step in range(1, 14, examples(5, 1)):
        killed = subprocess.run(
            [sys.executable, "-c", _KILLED, str(step)],
            env=clean_environment() | public.settings.environment(),
            capture_output=True,
            text=True,
            check=False,
            timeout=patient(150),
        )
        assert killed.returncode in (0, -9), killed.stderr
        if killed.returncode == 0:
            break
    else:
        pytest.fail("there are more steps than kills")
    report = reconciled(public)
    assert mine(report, ids) == {ids[0]: ("short", 3), ids[1]: ("duplicate", 2_001)}
    lines = public.rows("select line_id, posting from settlement_line where intent_id = any(%s)", ids)
    assert len(lines) == 6
    assert {posting for _, posting in lines} == {"decided"}
    assert public.rows("select id from settlement_due") == []
    differences = public.rows(
        "select kind, count(*) from ledger_txn where aggregate_key = any(%s) and kind like 'settle%%' group by 1 order by 1",
        ids,
    )
    assert differences == [("settled", 5), ("settlement_duplicate", 1), ("settlement_fee", 1), ("settlement_short", 1)]


def test_two_at_once_do_the_work_of_one(public: PublicSystem, merchant: Merchant) -> None:
    ids = paid(merchant, 4)
    settle(public, {"kind": "over", "reference": ids[0], "amount": 5})
    with ThreadPoolExecutor(2) as pool:
        reports = list(pool.map(lambda _: reconciled(public), range(2)))
    assert [mine(report, ids) for report in reports] == [{ids[0]: ("over", 5)}] * 2
    assert sorted(report["new_lines"] > 0 for report in reports) == [False, True]


def test_a_charge_that_is_settled_over_two_reports_ends_even(public: PublicSystem, merchant: Merchant) -> None:
    """Short at first, explained by the next report; nothing stays in suspense, and no fee with the processor."""
    ids = paid(merchant, 2)
    settle(public, {"kind": "split_over_days", "reference": ids[0]})
    assert mine(reconciled(public), ids) == {ids[0]: ("short", 1_000)}
    settle(public, {"kind": "resent"})
    assert mine(reconciled(public), ids) == {}
    assert reconciled(public)["posted"]["decided"] == 0
    assert left(public, ids[0]) == {
        "processor_receivable": 2_000 - 12,
        "processor_fee_expense": 12,
        "recon_suspense": 0,
    }
    assert public.rows("select state from repair_case where reference = %s", ids[0]) == [("resolved",)]
    assert receivables_differ(public) == {"14": [], "15": []}


def test_fees_that_an_earlier_version_did_not_book_are_booked_once(
    public: PublicSystem, merchant: Merchant, tmp_path: Path
) -> None:
    """Its ledgers have further lines without their fees: the processor seems to owe what it kept."""
    (intent_id,) = paid(merchant, 1)
    settle(public)
    reconciled(public)
    ((operation, ref),) = public.rows(
        "select operation_id, provider_ref from settlement_line where intent_id = %s", intent_id
    )
    row = {"line_id": f"ln_{uuid.uuid4().hex}", "report_id": "rpt", "type": "charge", "operation_id": operation,
           "reference": intent_id, "provider_ref": ref, "currency": "USD", "gross": 2_000, "fee": 0, "net": 2_000,
           "created": "2026-01-02T03:04:05Z"}  # fmt: skip
    given = tmp_path / "more.csv"
    given.write_bytes(csv_of([row], "rpt_more"))
    assert millrace(public, "reconcile", "--json", "--file", str(given), "--format", "simulator").returncode == 0
    with psycopg.connect(public.settings.addresses().postgres_dsns["millrace_operator"], autocommit=True) as connection:
        connection.execute("update settlement_line set posted_fee = 12 where line_id = %s", (row["line_id"],))
    assert [gap["gap"] for gap in receivables_differ(public)["14"]] == ["12"]
    assert [reconciled(public)["posted"]["decided"] for _ in range(2)] == [1, 0]
    assert receivables_differ(public) == {"14": [], "15": []}


def test_truncated_and_resent_reports_lose_and_double_nothing(public: PublicSystem, merchant: Merchant) -> None:
    ids = paid(merchant, 4)
    reports = settle(public, {"kind": "truncated"}, {"kind": "resent"}, {"kind": "other_timezone"})
    report = reconciled(public)
    assert mine(report, ids) == {}
    assert [(d["class"], d["reference"]) for d in report["discrepancies"] if d["reference"] in reports] == [
        ("truncated_report", reports[0])
    ]


def test_a_payout_is_seen_at_the_bank_and_posted_once(public: PublicSystem, merchant: Merchant, tmp_path: Any) -> None:
    def cash() -> tuple[int, int]:
        """Payouts that the bank has seen, and what came with them, of everybody in this system."""
        ((seen,),) = public.rows("select count(*) from ledger_txn where kind = 'payout_received'")
        ((held,),) = public.rows("select coalesce(sum(balance), 0) from account_total where account_id like 'cash:%%'")
        return int(seen), int(held)

    paid(merchant, 2)
    settle(public)
    reconciled(public)
    seen, held = cash()
    ((payout, amount),) = public.rows(
        "select provider_ref, posted_gross from settlement_line where type = 'payout' and class = 'announced'"
        " order by posted_gross desc limit 1"
    )
    statement = tmp_path / "statement.xml"
    statement.write_text(_statement(payout, amount))
    for _ in range(2):
        done = subprocess.run(
            [MILLRACE, "reconcile", "--json", "--file", str(statement), "--format", "camt053"],
            env=clean_environment() | public.settings.environment(),
            capture_output=True,
            text=True,
            check=False,
            timeout=patient(150),
        )
        assert done.returncode == 0, done.stderr
    assert cash() == (seen + 1, held + amount)


def stripe_report(*lines: dict[str, Any]) -> str:
    """A report of Stripe; its last column is of the payout that brought the lines."""
    columns = ("balance_transaction_id", "source_id", "payment_metadata[operation_id]", "payment_metadata[reference]",
               "currency", "gross", "fee", "net", "reporting_category", "customer_facing_amount",
               "customer_facing_currency", "automatic_payout_id")  # fmt: skip
    return "\n".join([",".join(columns), *(",".join(str(line.get(c, "")) for c in columns) for line in lines)]) + "\n"


def test_a_charge_in_euros_and_a_line_that_nobody_knows_are_paid_out_in_dollars(
    public: PublicSystem, merchant: Merchant, tmp_path: Path
) -> None:
    """Both are posted, and the processor owes what it owed before: no euro of the payment, and no dollar of the payout."""
    before = owed(public)
    made = merchant.create(amount=2_000, currency="EUR").json()["result"]["id"]
    assert merchant.act(made, "confirm").status_code == 200
    becomes(lambda: merchant.fresh(f"/v1/payment_intents/{made}").json()["state"], "succeeded", 60)
    ((operation,),) = public.rows("select operation_id from processor_attempt where intent_id = %s", made)
    n = uuid.uuid4().hex[:10]
    charge = {"balance_transaction_id": f"txn_{n}", "payment_metadata[operation_id]": operation, "currency": "usd",
              "payment_metadata[reference]": made, "gross": "22.00", "fee": "0.96", "net": "21.04",
              "reporting_category": "charge", "customer_facing_amount": "20.00", "customer_facing_currency": "eur",
              "automatic_payout_id": f"po_{n}"}  # fmt: skip
    unknown = {"balance_transaction_id": f"txn_{n}_x", "currency": "usd", "gross": "-1.00", "fee": "0", "net": "-1.00",
               "reporting_category": "moon_rent", "automatic_payout_id": f"po_{n}"}  # fmt: skip
    given = tmp_path / "stripe.csv"
    given.write_text(stripe_report(charge, unknown))
    report = millrace(
        public, "reconcile", "--json", "--processor", "simulator", "--file", str(given), "--format", "stripe"
    )
    assert report.returncode == 0, report.stderr
    assert json.loads(report.stdout)["posted"]["refused"] == 0
    kinds = ["payout_announced", "settlement_exchanged", "settlement_unknown"]
    posted = "select kind from ledger_txn where reference like any(%s) order by kind"
    names = [f"payout:simulator:po_{n}%", f"exchange:simulator:txn_{n}%", f"unknown_line:simulator:txn_{n}%"]
    assert [kind for (kind,) in public.rows(posted, names)] == kinds
    assert owed(public) == before
    done = millrace(
        public, "check", "--only", "14", "--only", "15", "--only", "exchanges", "--only", "settled", "--json"
    )
    assert {one["id"]: one["sample"] for one in json.loads(done.stdout)["invariants"]} == {
        "14": [], "15": [], "exchanges": [], "settled": []
    }  # fmt: skip


def owed(system: PublicSystem) -> dict[str, int]:
    """What the simulator owes us by currency, of all payments that were ever made in this system."""
    rows = system.rows(
        "select currency, sum(balance)::bigint from account_total where account_id like 'processor_receivable:simulator:%%'"
        " group by 1 having sum(balance) <> 0"
    )
    return dict(rows)


def _statement(payout: str, amount: int) -> str:
    money = f'<Amt Ccy="USD">{amount // 100}.{amount % 100:02d}</Amt><CdtDbtInd>CRDT</CdtDbtInd>'
    zero = '<Amt Ccy="USD">0.00</Amt><CdtDbtInd>CRDT</CdtDbtInd>'
    return (
        '<Document xmlns="urn:iso:std:iso:20022:tech:xsd:camt.053.001.08"><BkToCstmrStmt><Stmt>'
        f"<Id>S{uuid.uuid4().hex[:10]}</Id><Acct><Id><IBAN>NL00TEST</IBAN></Id></Acct>"
        f"<Bal><Tp><CdOrPrtry><Cd>OPBD</Cd></CdOrPrtry></Tp>{zero}</Bal>"
        f"<Bal><Tp><CdOrPrtry><Cd>CLBD</Cd></CdOrPrtry></Tp>{money}</Bal>"
        f"<Ntry>{money}<Sts><Cd>BOOK</Cd></Sts><NtryDtls><TxDtls><Refs><EndToEndId>{payout}</EndToEndId></Refs></TxDtls>"
        "</NtryDtls></Ntry></Stmt></BkToCstmrStmt></Document>"
    )
