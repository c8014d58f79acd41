"""Amounts of every ISO 4217 currency as text and back, exactly, and what is not an amount."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.fields import currency
from tests.each import each

CODES = sorted(currency.EXPONENTS)
AMOUNTS = (0, 1, 9, 10, 99, 100, 999, 1_000, 10_000, 2**53 - 1, -1, -999, -10_000)


def test_the_exponents_that_money_can_have() -> None:
    assert set(currency.EXPONENTS.values()) == {0, 2, 3, 4}
    sample = {"USD": 2, "EUR": 2, "JPY": 0, "KRW": 0, "KWD": 3, "BHD": 3, "TND": 3, "CLF": 4, "UYW": 4}
    assert {code: currency.EXPONENTS[code] for code in sample} == sample


@each("code", ["XAU", "XTS", "XXX", "usd", "US", "USDX", "", " USD", "DEM"])
def test_what_money_cannot_be_held_in(code: str) -> None:
    assert not currency.is_currency(code)


@each("code", CODES)
def test_format_then_parse_is_the_amount(code: str) -> None:
    for amount in AMOUNTS:
        text = currency.format_minor(amount, code)
        assert currency.parse_minor(text, code) == amount
        assert len(text.partition(".")[2]) == currency.EXPONENTS[code]


@given(st.integers(), st.sampled_from(CODES))
def test_format_then_parse_is_any_amount(amount: int, code: str) -> None:
    assert currency.parse_minor(currency.format_minor(amount, code), code) == amount


@each(
    ("text", "code", "minor"),
    [
        ("10.99", "USD", 1_099),
        ("10.9", "USD", 1_090),
        ("10", "USD", 1_000),
        ("0.05", "USD", 5),
        ("-0.05", "USD", -5),
        ("007", "USD", 700),
        ("1099", "JPY", 1_099),
        ("1.234", "KWD", 1_234),
        ("1.2345", "CLF", 12_345),
    ],
)
def test_parse(text: str, code: str, minor: int) -> None:
    assert currency.parse_minor(text, code) == minor


@each(
    ("text", "code"),
    [
        ("10.999", "USD"),
        ("10.0", "JPY"),
        ("1.", "USD"),
        (".5", "USD"),
        ("", "USD"),
        ("-", "USD"),
        ("--1", "USD"),
        ("+1", "USD"),
        ("1e2", "USD"),
        ("1_000", "USD"),
        ("1,000", "USD"),
        (" 1", "USD"),
        ("1\n", "USD"),
        ("NaN", "USD"),
        ("١٠", "USD"),  # Arabic-Indic digits are digits to Python
        ("1.²", "USD"),
        ("0x10", "USD"),
        ("1.2.3", "USD"),
        ("1.-2", "USD"),
    ],
)
def test_what_is_not_an_amount(text: str, code: str) -> None:
    with pytest.raises(ValueError, match="is not an amount"):
        currency.parse_minor(text, code)


@given(st.text())
def test_parse_takes_nothing_that_it_does_not_understand(text: str) -> None:
    """Any text is an amount that formats to the same number, or refused."""
    try:
        amount = currency.parse_minor(text, "KWD")
    except ValueError:
        return
    assert currency.parse_minor(currency.format_minor(amount, "KWD"), "KWD") == amount
    assert set(text) <= set("-.0123456789")
