"""What a report's cells may hold: a spreadsheet must not take a merchant's text for a formula."""

from __future__ import annotations

from typing import Any

import pytest

from ingress.payments.merchants.reports import REPORTS, neutral


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1"])
def test_a_formula_becomes_a_text(text: str) -> None:
    assert neutral(text) == f"'{text}"


@pytest.mark.parametrize("value", ["", "main account", "a=b", "'x", -5, 0, None])
def test_what_is_no_formula_stays(value: Any) -> None:
    assert neutral(value) == value


@pytest.mark.parametrize("name", REPORTS)
def test_the_place_of_a_page_is_in_its_rows(name: str) -> None:
    report = REPORTS[name]
    assert len(report.place) == len(report.at) == len(report.first)
    assert max(report.at) < len(report.columns)
    assert report.times | report.numbers | report.texts <= set(report.columns)
