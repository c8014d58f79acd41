"""JSON is read strictly: one meaning or a refusal, for any bytes."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingress import limits
from ingress.http.requests import strict_json
from schemas import errors
from tests.each import each

_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(_VALUES)
def test_what_a_json_writer_wrote_is_read_as_it_was(value: object) -> None:
    """Colons and quotes inside strings do not look like keys."""
    assert strict_json.parse(json.dumps(value, ensure_ascii=False).encode()) == value
    assert strict_json.parse(json.dumps(value).encode()) == value


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused_as_malformed(raw: bytes) -> None:
    try:
        strict_json.parse(raw)
    except errors.MalformedRequest:
        return


@pytest.mark.parametrize(
    "raw",
    [
        b'{"a": 1, "a": 2}',
        b'{"x": {"a": 1, "a": 1}}',
        b'[{"a": 1}, {"b": "c:d", "b": 2}]',
        b'{"a": 1, "\\u0061": 2}',
        b'{"colon:": {"a": ":", "a": ":"}}',
    ],
)
def test_a_key_given_twice_is_refused(raw: bytes) -> None:
    with pytest.raises(errors.MalformedRequest, match="twice"):
        strict_json.parse(raw)


@each(
    "raw",
    [
        b"",
        b"{",
        b"nonsense",
        b"NaN",
        b"[1, Infinity]",
        b"{'a': 1}",
        b'{"a": 1}{"b": 2}',
        b'"\xff"',
        b'"\\ud800"',
        b'"\x00"',
        b"\xef\xbb\xbf{}",
        b'"\xed\xa0\x80"',
        b"9" * 5_000,
        b"01",
        b"1e400",
    ],
)
def test_what_is_not_json_in_utf8_is_refused(raw: bytes) -> None:
    with pytest.raises(errors.MalformedRequest):
        strict_json.parse(raw)


@pytest.mark.parametrize(("opening", "closing"), [(b'{"a":', b"}"), (b"[", b"]")])
def test_depth_is_bounded(opening: bytes, closing: bytes) -> None:
    """The bound itself is allowed, one level more and a hundred thousand more are not."""
    deepest = limits.JSON_DEPTH_MAX
    assert strict_json.parse(opening * deepest + b"1" + closing * deepest)
    for depth in (deepest + 1, 100_000):
        with pytest.raises(errors.MalformedRequest, match="nested"):
            strict_json.parse(opening * depth + b"1" + closing * depth)


def test_brackets_inside_strings_are_not_depth() -> None:
    assert strict_json.parse(b'{"a": "' + b"[{" * 200 + b'\\""}') == {"a": "[{" * 200 + '"'}
