"""Array literals for Postgres as text. That Postgres reads them back is proved in tests/property/test_arrays_postgres.py."""

from __future__ import annotations

import struct

import pytest

from sinks.postgres import arrays


def test_texts_are_always_quoted() -> None:
    assert arrays.text_array(["a", "", "NULL", "{}", "a,b"]) == '{"a","","NULL","{}","a,b"}'


def test_quotes_and_backslashes_are_escaped_once() -> None:
    assert arrays.text_array(['"', "\\", '\\"', "\\\\"]) == r'{"\"","\\","\\\"","\\\\"}'


def test_no_values() -> None:
    assert arrays.text_array([]) == "{}"
    assert arrays.int_array([]) == "{}"
    assert arrays.bool_array([]) == "{}"
    assert arrays.Bigints([]).encoded() == struct.pack(">3i", 0, 0, 20)
    assert arrays.Blobs([]).encoded() == struct.pack(">3i", 0, 0, 17)


def test_one_empty_text_is_not_no_text() -> None:
    assert arrays.text_array([""]) == '{""}'


def test_none_travels_as_the_empty_text() -> None:
    assert arrays.optional_text_array([None, "a", None]) == '{"","a",""}'


def test_numbers_and_booleans() -> None:
    assert arrays.int_array([0, -1, 2**63 - 1]) == "{0,-1,9223372036854775807}"
    assert arrays.bool_array([True, False]) == "{t,f}"


def test_columns_of_several_batches_become_one() -> None:
    assert arrays.Texts(["a"]).joined([arrays.Texts(["b", "c"]), arrays.Texts([])]).values == ["a", "b", "c"]


def binary(oid: int, code: str, *values: int) -> bytes:
    """The binary form of a one-dimensional array, written out element by element."""
    elements = b"".join(struct.pack(f">i{code}", struct.calcsize(f">{code}"), value) for value in values)
    return struct.pack(">5i", 1, 0, oid, len(values), 1) + elements


@pytest.mark.parametrize("count", [1, 2, 31, 32, 33, 500])
def test_binary_arrays_are_what_the_wire_format_says(count: int) -> None:
    """Few values and many take different ways to the same bytes."""
    longs = [(-1) ** n * (n * 7**n % 2**63) for n in range(count)]
    assert arrays.Bigints(longs).encoded() == binary(20, "q", *longs)
    ints = [(-1) ** n * (n * 7**n % 2**31) for n in range(count)]
    assert arrays.Integers(ints).encoded() == binary(23, "i", *ints)


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1])
def test_a_number_that_no_bigint_holds(value: int) -> None:
    with pytest.raises(OverflowError):
        arrays.Bigints([value]).encoded()
