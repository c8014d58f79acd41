"""Statements of several partitions as those of one transaction: order, counts, and what must stay apart."""

from __future__ import annotations

from typing import Any

from dataflows.owner.transaction.joining import joined
from sinks.postgres.arrays import Bigints, Column, Count, Texts

Shown = list[tuple[str, list[Any]]]


def shown(lists: list[list[tuple[str, Any]]]) -> tuple[Shown, list[list[int]]]:
    """Statements with plain values."""
    statements, places = joined(lists)
    plain = [
        (text, [list(p.values) if isinstance(p, Column) else p for p in parameters]) for text, parameters in statements
    ]
    return plain, places


def column(text: str, *values: str) -> tuple[str, Any]:
    return text, (Texts(values),)


def test_rows_of_a_text_are_sent_once() -> None:
    one = [("update", ("topic", Bigints([1, 2]), Count(2)))]
    other = [("update", ("topic", Bigints([3]), Count(1)))]
    assert shown([one, other]) == ([("update", ["topic", [1, 2, 3], 3])], [[0], [0]])


def test_each_list_keeps_its_order() -> None:
    """A charge that was refused makes room for the next one: the update must come before the insert."""
    lists = [
        [column("update", "a"), column("ledger", "a")],
        [column("update", "b"), column("insert", "b"), column("ledger", "b")],
        [column("insert", "c")],
    ]
    found, places = shown(lists)
    assert [text for text, _ in found] == ["update", "insert", "ledger"]
    assert found[2] == ("ledger", [["a", "b"]])
    assert places == [[0, 2], [0, 1, 2], [1]]


def test_a_statement_that_comes_twice_in_a_list_stays_twice() -> None:
    found, places = shown([[column("put", "a"), column("put", "b")], [column("put", "c")]])
    assert found == [("put", [["a", "c"]]), ("put", [["b"]])]
    assert places == [[0, 1], [0]]


def test_what_belongs_to_one_list_stays_apart() -> None:
    """A number may be a partition; a text that differs is another topic."""
    for one, other in ((1, 2), (1, 1), ("x", "y")):
        found, _ = shown([[("put", (one, Texts(["a"])))], [("put", (other, Texts(["b"])))]])
        assert sorted(rows[1] for _, rows in found) == [["a"], ["b"]]


def test_without_parameters_once_is_enough() -> None:
    assert joined([[("lock", ())], [("lock", ())]]) == ([("lock", ())], [[0], [0]])
