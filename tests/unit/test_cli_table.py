"""What commands print, on a terminal that is wide enough and on one that is not."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from msgspec import structs

from compose.cli.payments.reconcile import _print
from compose.cli.printed import json_text
from compose.cli.table import print_table
from reconciliation.payments.settlement.file_result import Discrepancy, FileResult
from reconciliation.payments.settlement.run import ReconcileReport

ROW: dict[str, Any] = {
    "policy_id": "pl_52rgf4kdqlixlye3kt76mmdgnu",
    "consistency": "exact",
    "shadow": True,
    "health": "ok, without a replica",
    "remaining": 99,
    "reset_ms": 6_735_986_960,
    "note": "",
}


@pytest.mark.parametrize("width", [40, 80, 200])
def test_every_figure_is_there_however_narrow_the_terminal_is(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    print_table([ROW, ROW], tuple(ROW))
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= width
    assert all(sum(str(value) in line for line in lines) >= 2 for value in ROW.values())
    assert (len(lines) == 3) is (width == 200)


def test_no_row_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    print_table([], ("policy_id",))
    assert capsys.readouterr().out == "no policy\n"


@pytest.mark.parametrize("width", [40, 80, 100, 119, 200])
def test_what_reconciliation_does_not_explain_is_told_with_whole_ids(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """They are what people copy: into ``millrace cases`` and into the processor's own site."""
    monkeypatch.setenv("COLUMNS", str(width))
    operation = "op_52rgf4kdqlixlye3kt76mmdgnu_1"
    found = Discrepancy(
        found_class="currency_mismatch",
        reference="pi_52rgf4kdqlixlye3kt76mmdgnu",
        amount=2_002,
        currency="USD",
        processor="simulator",
        subject="ln_1",
        detail=f"charge of 2002, fee 62, expected 2000 [of] {operation}",
        case_id=None,
        first_seen="2026-01-01T00:00:00+00:00",
    )
    report = "rpt_52rgf4kdqlixlye3kt76mmdgnu_of_a_day_that_is_long.csv"
    file = FileResult(name=report, format="stripe", state="taken_in", discrepancies=[found])
    others = [structs.replace(found, reference="pi_other", subject="ln_2")]
    _print(ReconcileReport(files=[file], matched=0, discrepancies=[found, *others], unmatched_older_than_horizon=0))
    lines = capsys.readouterr().out.splitlines()
    for whole in (found.reference, operation, report, "20.02 USD", "[of]"):
        assert any(whole in line for line in lines), (whole, lines)
    assert any("detail:" in line for line in lines) is (width < 120)


def test_times_for_programs_are_those_of_the_api() -> None:
    """RFC 3339 in UTC: with a blank for the T, as Python prints them, some parsers refuse them."""
    east = timezone(timedelta(hours=2))
    found = {
        "at": datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC),
        "there": datetime(2026, 1, 2, 3, 4, 5, tzinfo=east),
        "day": date(2026, 1, 2),
        "amount": Decimal("1.50"),
        "none": None,
    }
    assert json.loads(json_text(found)) == {
        "at": "2026-01-02T03:04:05.000006Z",
        "there": "2026-01-02T01:04:05.000000Z",
        "day": "2026-01-02",
        "amount": "1.50",
        "none": None,
    }
