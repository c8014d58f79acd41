"""Columns follow from the types of a record's fields."""

from __future__ import annotations

import pytest
from msgspec import Struct
from psycopg._queries import MAX_CACHED_STATEMENT_LENGTH

from ingress.http.store import _read_queries
from sinks.postgres.arrays import Bigints, Booleans, OptionalTexts, Texts, Times
from sinks.postgres.struct_columns import columns


class Row(Struct, frozen=True):
    """One field of each kind."""

    name: str
    note: str | None
    size: int
    until: int | None
    gone: bool
    quotas: dict[str, str]
    approvers: tuple[str, ...]
    created_at: int


ROWS = [
    Row("a", None, 2**53, None, False, {"b": "2", "a": "1"}, (), 1),
    Row("b", "x", -1, 7, True, {}, ("p", 'q"'), 2),
]


def test_each_kind_travels_as_its_column() -> None:
    found = columns(ROWS)
    kinds = [Texts, OptionalTexts, Bigints, Bigints, Booleans, Texts, Texts, Bigints]
    assert [type(column) for column in found] == kinds
    assert [column.values for column in found] == [
        ["a", "b"],
        [None, "x"],
        [2**53, -1],
        [0, 7],
        [False, True],
        ['{"a":"1","b":"2"}', "{}"],
        ["[]", '["p","q\\""]'],
        [1, 2],
    ]


def test_names_choose_the_columns_and_their_order_and_packers_how_they_travel() -> None:
    created, name = columns(ROWS, ("created_at", "name"), {"created_at": Times})
    assert (type(created), created.values, name.values) == (Times, [1, 2], ["a", "b"])
    with pytest.raises(KeyError):
        columns(ROWS, ("size_of",))


def test_psycopg_knows_every_read_of_the_ingress_by_heart() -> None:
    """What is longer it takes apart anew at each call, which was a sixth of what a read of a home cost the ingress."""
    reads = _read_queries(("ingress",))
    assert {name: len(text) for name, text in reads.items() if len(text) > MAX_CACHED_STATEMENT_LENGTH} == {}
    assert [name for name, text in reads.items() if "\n--" in f"\n{text}"] == []
