"""Array literals for Postgres as text. That Postgres reads them back is proved in tests/property/test_arrays_postgres.py."""

from __future__ import annotations

from sinks.postgres import arrays


def test_texts_are_always_quoted() -> None:
    assert arrays.text_array(["a", "", "NULL", "{}", "a,b"]) == '{"a","","NULL","{}","a,b"}'


def test_quotes_and_backslashes_are_escaped_once() -> None:
    assert arrays.text_array(['"', "\\", '\\"', "\\\\"]) == r'{"\"","\\","\\\"","\\\\"}'


def test_no_values() -> None:
    assert arrays.text_array([]) == "{}"
    assert arrays.int_array([]) == "{}"
    assert arrays.bool_array([]) == "{}"
    assert arrays.bytes_column([]) == (b"", "{}", "{}")


def test_one_empty_text_is_not_no_text() -> None:
    assert arrays.text_array([""]) == '{""}'


def test_none_travels_as_the_empty_text() -> None:
    assert arrays.optional_text_array([None, "a", None]) == '{"","a",""}'


def test_numbers_and_booleans() -> None:
    assert arrays.int_array([0, -1, 2**63 - 1]) == "{0,-1,9223372036854775807}"
    assert arrays.bool_array([True, False]) == "{t,f}"


def test_bytes_travel_as_one_blob_with_places() -> None:
    assert arrays.bytes_column([b"ab", b"", b"c"]) == (b"abc", "{1,3,3}", "{2,0,1}")
