"""A row-by-row comparison finds exactly what differs, whatever the two sides are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciliation.contract.compare import compare_rows
from reconciliation.replay.run import partition_offsets

TABLE = st.dictionaries(st.tuples(st.integers(0, 5), st.integers(0, 5)), st.integers(0, 2), max_size=20)


@given(TABLE, TABLE)
def test_differences_are_those_of_the_two_mappings(
    live: dict[tuple[int, int], int], shadow: dict[tuple[int, int], int]
) -> None:
    rows_live = iter(sorted((*key, value) for key, value in live.items()))
    rows_shadow = iter(sorted((*key, value) for key, value in shadow.items()))
    found = compare_rows("t", ("a", "b", "v"), 2, rows_live, rows_shadow)
    expected = {k for k in live.keys() | shadow.keys() if live.get(k) != shadow.get(k)}
    assert found.differences == len(expected)
    assert (found.rows_live, found.rows_shadow) == (len(live), len(shadow))
    if len(expected) <= 20:
        assert {(d["key"]["a"], d["key"]["b"]) for d in found.sample} == expected


def test_a_row_that_is_there_twice_is_a_difference() -> None:
    found = compare_rows("t", ("a", "v"), 1, iter([(1, 0), (1, 0), (2, 0)]), iter([(1, 0), (2, 0)]))
    assert found.differences == 1
    assert found.sample == [{"key": {"a": 1}, "reason": "only live"}]


def test_the_columns_that_differ_are_named() -> None:
    found = compare_rows("t", ("a", "v", "w"), 1, iter([(1, 2, 3)]), iter([(1, 2, 4)]))
    assert found.sample == [{"key": {"a": 1}, "reason": "differs", "values": {"w": {"live": 3, "replay": 4}}}]


def test_offsets_are_read_or_refused_in_one_line() -> None:
    assert partition_offsets(["3:120", "0:0"], 4) == {3: 120, 0: 0}
    for wrong in ("3", "a:1", "1:-2", "1:"):
        with pytest.raises(ValueError, match="PARTITION:OFFSET"):
            partition_offsets([wrong], 4)
    with pytest.raises(ValueError, match="there is no partition 4; there are 0 to 3"):
        partition_offsets(["4:1"], 4)
