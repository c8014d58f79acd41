"""Amounts in a processor's own unit: exact both ways, or refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas import limits
from schemas.fields.currency import EXPONENTS
from schemas.payments.processor_currency import exponent, from_processor, to_processor


@pytest.mark.parametrize(
    ("code", "ours", "theirs"),
    [
        ("USD", 1_099, 1_099),
        ("JPY", 500, 500),
        ("KWD", 5_120, 5_120),
        ("ISK", 5, 500),  # no minor unit in ISO 4217; two decimals at Stripe, which must be 00
        ("MGA", 1_200, 12),  # two in ISO 4217, none at Stripe
        ("HUF", 1_045, 1_045),  # whole amounts in payouts only
    ],
)
def test_stripe_counts_some_currencies_otherwise(code: str, ours: int, theirs: int) -> None:
    assert to_processor("stripe", ours, code) == theirs
    assert from_processor("stripe", theirs, code) == ours
    assert to_processor("simulator", ours, code) == ours


@pytest.mark.parametrize(("code", "amount"), [("MGA", 1_201), ("KWD", 5_124), ("BHD", 1), ("UGX", 100)])
def test_what_cannot_be_said_exactly_is_refused(code: str, amount: int) -> None:
    with pytest.raises(ValueError, match=r"fraction|takes|certain"):
        to_processor("stripe", amount, code)


def test_a_processors_fraction_of_a_unit_is_no_amount_of_ours() -> None:
    with pytest.raises(ValueError, match="fraction"):
        from_processor("stripe", 4_010, "ISK")


@given(
    st.sampled_from(["simulator", "stripe"]),
    st.integers(0, limits.AMOUNT_MINOR_MAX),
    st.sampled_from(sorted(EXPONENTS)),
)
def test_every_amount_comes_back_as_it_was_or_is_refused(adapter: str, amount: int, code: str) -> None:
    """Property: no rounding anywhere, and the value is the same in both units."""
    try:
        theirs = to_processor(adapter, amount, code)
    except ValueError:
        assert adapter == "stripe"
        return
    assert from_processor(adapter, theirs, code) == amount
    assert theirs * 10 ** EXPONENTS[code] == amount * 10 ** exponent(adapter, code)
