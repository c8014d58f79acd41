"""Fields that two readers could read in two ways are refused; everything else is handed on."""

from __future__ import annotations

import pytest

from ingress import limits
from ingress.http.requests.header_fields import why_refused
from schemas import errors

GOOD = [(b"host", b"pay.example"), (b"authorization", b"Bearer x"), (b"content-type", b"application/json")]


@pytest.mark.parametrize("name", [b"authorization", b"host", b"content-type", b"content-length"])
def test_what_is_single_is_given_once(name: bytes) -> None:
    for value in (b"Bearer x", b"other"):
        refusal = why_refused([*GOOD, (name, value), (name, b"Bearer x")])
        assert isinstance(refusal, errors.MalformedRequest)
        assert "Bearer x" not in refusal.public


def test_lists_of_values_may_be_spread_over_fields() -> None:
    assert why_refused([*GOOD, (b"prefer", b"wait=1"), (b"prefer", b"respond-async")]) is None


def test_a_host_and_a_bounded_number_of_fields() -> None:
    assert isinstance(why_refused([(b"host", b"")]), errors.MalformedRequest)
    refusal = why_refused([(b"x", b"y")] * (limits.HEADERS_MAX + 1))
    assert refusal is not None
    assert refusal.code == "headers_too_large"
