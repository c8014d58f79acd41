"""Instants as texts: which can be said at all, and to which microsecond."""

from __future__ import annotations

from schemas.tenancy.instants import instant, parsed


def test_an_instant_that_cannot_be_written_in_utc_is_none() -> None:
    """One of them said in a command would park its tenant: its owner could not answer."""
    assert [parsed(text) for text in ("0001-01-01T00:00:00+10:00", "9999-12-31T23:59:59-10:00")] == [None, None]
    for text in ("0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z"):
        at = parsed(text)
        assert at is not None
        assert instant(at) == text


def test_a_fraction_counts_to_the_microsecond_on_both_sides_of_1970() -> None:
    for fraction, us in (("", 0), (".5", 500_000), (".000001", 1), (".1234567", 123_456), (".999999999", 999_999)):
        assert parsed(f"1970-01-01T00:00:01{fraction}Z") == 1_000_000 + us
        assert parsed(f"1969-12-31t23:59:59{fraction}z") == us - 1_000_000
