"""Reports add up at every moment; the bank's statements tell what became of payouts."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import uuid
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from tests.eventually import patient
from tests.integration.operator_shell import MILLRACE
from tests.integration.payments.test_ingress_accounts import (
    PAYOUTS,
    approved,
    balance,
    fund,
    operate,
    operator,
    other,
    pay_out,
    refused,
    tell,
)
from tests.servers import clean_environment
from tests.worlds.public_system import merchant, public, stranger

if TYPE_CHECKING:
    from pathlib import Path

    from tests.worlds.public_system import Merchant, PublicSystem

__all__ = ["merchant", "operator", "other", "public", "stranger"]  # the fixtures of this module
pytestmark = pytest.mark.servers


def report(merchant: Merchant, name: str, start: datetime, end: datetime, **params: Any) -> list[dict[str, Any]]:
    """Every row, page by page."""
    found, cursor = [], None
    ends = {"from": start.isoformat(), "to": end.isoformat()}
    while True:
        answer = merchant.http.get(f"/v1/reports/{name}", params=ends | params | ({"cursor": cursor} if cursor else {}))
        assert answer.status_code == 200, answer.text
        found += answer.json()["data"]
        cursor = answer.json()["next_cursor"]
        if cursor is None:
            return found


def as_csv(merchant: Merchant, name: str, start: datetime, end: datetime) -> list[dict[str, str]]:
    params = {"from": start.isoformat(), "to": end.isoformat(), "format": "csv"}
    answer = merchant.http.get(f"/v1/reports/{name}", params=params)
    assert answer.headers["content-type"].startswith("text/csv")
    return list(csv.DictReader(io.StringIO(answer.text)))


def test_reports_add_up_at_every_moment(
    public: PublicSystem, merchant: Merchant, operator: Merchant, other: Merchant
) -> None:
    """Opening and activity make closing, for any two times, and the closing is the ledger's own balance."""
    fund(public, merchant, 5_000)
    fund(public, merchant, 900, "JPY")
    made = [pay_out(merchant, n, destination=f"=cmd|{n}").json()["result"] for n in (700, 50)]
    approved(tell(operator, made[0], "paid"), other)
    merchant.http.post(f"{PAYOUTS}/{made[1]['id']}/cancel", json={"idempotency_key": "c"})
    approved(operate(operator, f"accounts/{merchant.name}/hold_reserve", amount=100, currency="EUR", reason="r"), other)
    now = datetime.now(UTC)
    early = now - timedelta(days=1)
    lines = report(merchant, "activity", early, now, limit=3)
    assert len(lines) == 11
    assert [line["at"] for line in lines] == sorted(line["at"] for line in lines)
    moments = [early, *[datetime.fromisoformat(line["at"]) for line in lines], now]
    for start in moments[::3]:
        for end in (m for m in moments if m >= start):
            check_sums(merchant, start, end)
    closing = {(r["account"], r["currency"]): r["closing"] for r in report(merchant, "balance", early, now)}
    assert closing == {
        ("available", "EUR"): 4_200,
        ("reserved", "EUR"): 100,
        ("payout_in_transit", "EUR"): 0,
        ("available", "JPY"): 900,
    }
    assert closing["available", "EUR"] == balance(merchant)["available"]
    assert [r["currency"] for r in report(merchant, "balance", early, now, currency="JPY")] == ["JPY"]
    payouts = report(merchant, "payouts", early, now, limit=1)
    assert [(p["id"], p["state"]) for p in payouts] == [(made[0]["id"], "paid"), (made[1]["id"], "canceled")]
    cells = as_csv(merchant, "payouts", early, now)
    assert [c["destination"] for c in cells] == ["'=cmd|700", "'=cmd|50"]
    assert [int(c["amount"]) for c in as_csv(merchant, "activity", early, now)] == [line["amount"] for line in lines]


def check_sums(merchant: Merchant, start: datetime, end: datetime) -> None:
    moved: dict[tuple[str, str], int] = {}
    for line in report(merchant, "activity", start, end):
        place = (line["account"], line["currency"])
        moved[place] = moved.get(place, 0) + line["amount"]
    for row in report(merchant, "balance", start, end):
        assert row["opening"] + row["credits"] - row["debits"] == row["closing"]
        assert row["credits"] - row["debits"] == moved.get((row["account"], row["currency"]), 0)


@pytest.mark.parametrize(
    ("params", "status", "code"),
    [
        ({}, 422, "invalid_command"),
        ({"from": "yesterday", "to": "2026-01-01T00:00:00Z"}, 422, "invalid_command"),
        ({"from": "2026-01-02T00:00:00Z", "to": "2026-01-01T00:00:00Z"}, 422, "invalid_command"),
        ({"from": "2020-01-01T00:00:00Z", "to": "2026-01-01T00:00:00Z"}, 422, "invalid_command"),
        ({"from": "2026-01-01T00:00:00Z", "to": "2026-01-02T00:00:00Z", "currency": "eur"}, 422, "invalid_command"),
        ({"from": "2026-01-01T00:00:00Z", "to": "2026-01-02T00:00:00Z", "format": "xlsx"}, 422, "invalid_command"),
        ({"from": "2026-01-01T00:00:00Z", "to": "2026-01-02T00:00:00Z", "limit": "1001"}, 422, "invalid_command"),
        ({"from": "2026-01-01T00:00:00Z", "to": "2026-01-02T00:00:00Z", "cursor": "x"}, 400, "malformed_request"),
    ],
)
def test_a_report_that_cannot_be_made_is_refused(
    merchant: Merchant, params: dict[str, str], status: int, code: str
) -> None:
    refused(merchant.http.get("/v1/reports/activity", params=params), status, code)
    refused(merchant.http.get("/v1/reports/nothing", params=params), 404, "not_found")


def test_a_page_of_a_report_is_good_for_that_report_only(
    public: PublicSystem, merchant: Merchant, stranger: Merchant
) -> None:
    fund(public, merchant, 10)
    fund(public, merchant, 20)
    now = datetime.now(UTC)
    ends = {"from": (now - timedelta(days=1)).isoformat(), "to": now.isoformat()}
    path, params = "/v1/reports/activity", ends | {"limit": "1"}
    cursor = merchant.http.get(path, params=params).json()["next_cursor"]
    assert merchant.http.get(path, params=params | {"cursor": cursor}).json()["data"][0]["amount"] == 20
    refused(stranger.http.get(path, params=params | {"cursor": cursor}), 400, "malformed_request")
    refused(merchant.http.get(path, params=params | {"cursor": cursor, "currency": "EUR"}), 400, "malformed_request")
    assert stranger.http.get(path, params=params).json()["data"] == []


def statement(payout: str, amount: int, is_debit: bool) -> str:
    """A bank statement with one entry; opening and closing balance foot."""
    money = f'<Amt Ccy="EUR">{amount // 100}.{amount % 100:02d}</Amt>'
    side, before, after = (
        ("DBIT", money, '<Amt Ccy="EUR">0.00</Amt>') if is_debit else ("CRDT", '<Amt Ccy="EUR">0.00</Amt>', money)
    )
    credit = "<CdtDbtInd>CRDT</CdtDbtInd>"
    return (
        '<Document xmlns="urn:iso:std:iso:20022:tech:xsd:camt.053.001.08"><BkToCstmrStmt><Stmt>'
        f"<Id>S{uuid.uuid4().hex[:10]}</Id><Acct><Id><IBAN>NL00PAYOUT</IBAN></Id></Acct>"
        f"<Bal><Tp><CdOrPrtry><Cd>OPBD</Cd></CdOrPrtry></Tp>{before}{credit}</Bal>"
        f"<Bal><Tp><CdOrPrtry><Cd>CLBD</Cd></CdOrPrtry></Tp>{after}{credit}</Bal>"
        f"<Ntry>{money}<CdtDbtInd>{side}</CdtDbtInd><Sts><Cd>BOOK</Cd></Sts><NtryDtls><TxDtls><Refs>"
        f"<EndToEndId>{payout}</EndToEndId></Refs></TxDtls></NtryDtls></Ntry></Stmt></BkToCstmrStmt></Document>"
    )


def reconciled(public: PublicSystem, file: Path) -> list[tuple[str, str]]:
    """Class and reference of what is open after a run over the file."""
    done = subprocess.run(
        [MILLRACE, "reconcile", "--json", "--file", str(file), "--format", "camt053"],
        env=clean_environment() | public.settings.environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=patient(150),
    )
    assert done.returncode == 0, done.stderr
    return [(d["class"], d["reference"]) for d in json.loads(done.stdout)["discrepancies"]]


def test_the_banks_statements_tell_what_became_of_a_payout(
    public: PublicSystem, merchant: Merchant, tmp_path: Path
) -> None:
    """Booked: paid. Sent back: failed. The same file again changes nothing; another amount is a finding, no posting."""
    fund(public, merchant, 1_000)
    made, other = (pay_out(merchant, n).json()["result"] for n in (600, 400))
    files = {name: tmp_path / f"{name}.xml" for name in ("booked", "returned", "short")}
    files["booked"].write_text(statement(made["id"], 600, is_debit=True))
    files["returned"].write_text(statement(made["id"], 600, is_debit=False))
    files["short"].write_text(statement(other["id"], 399, is_debit=True))
    for _ in range(2):
        reconciled(public, files["booked"])
        assert merchant.fresh(f"{PAYOUTS}/{made['id']}").json()["state"] == "paid"
    reconciled(public, files["returned"])
    found = merchant.fresh(f"{PAYOUTS}/{made['id']}").json()
    assert (found["state"], found["failure_reason"], found["version"]) == ("failed", "returned_by_bank", 3)
    assert ("bank_difference", other["id"]) in reconciled(public, files["short"])
    assert merchant.fresh(f"{PAYOUTS}/{other['id']}").json()["state"] == "pending"
    assert balance(merchant)["available"] == 600
