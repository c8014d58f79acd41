"""Both ways of doing things to many records, the one in Python and the compiled one, give the same bytes."""

from __future__ import annotations

import shutil
import sysconfig
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from limiter.spending.ring import ALLOWED, ALSO, IDENTIFIED, RECORD_TYPE, SLOT_SHIFT
from limiter.stream import columns
from limiter.stream.charges import CHARGE_TYPE

NAMES = ("Numbering", "tally", "count_leases", "write_stale", "joined")
PLAIN = {name: getattr(columns, f"Plain{name}" if name == "Numbering" else f"plain_{name}") for name in NAMES}
KINDS = [PLAIN] + [{name: getattr(columns, name) for name in NAMES}] * columns.IS_COMPILED
ROWS, SLOTS, HOMES = 6, 5, 3
HEADER = Path(sysconfig.get_paths()["include"]) / "Python.h"

flags = st.builds(lambda low, slot: low | slot << SLOT_SHIFT, st.integers(0, 127), st.integers(0, SLOTS - 1))
records = st.lists(
    st.tuples(st.integers(0, ROWS - 1), st.integers(0, 2**32 - 1), flags, st.integers(0, 9), st.integers(0, 2**64 - 1)),
    max_size=40,
).map(lambda some: np.array(some, RECORD_TYPE))


@pytest.fixture(params=range(len(KINDS)), ids=["plain", "compiled"][: len(KINDS)])
def kind(request: pytest.FixtureRequest) -> dict[str, Any]:
    found: dict[str, Any] = KINDS[request.param]
    return found


@pytest.mark.skipif(not (shutil.which("gcc") and HEADER.exists()), reason="no C compiler, or no headers of Python")
def test_where_there_is_a_compiler_both_are_tested() -> None:
    assert columns.IS_COMPILED


@given(taken=records, homes=st.lists(st.integers(0, HOMES - 1), min_size=ROWS, max_size=ROWS), mask=st.integers(0, 255))
def test_every_decision_is_in_the_part_of_its_row(taken: Any, homes: list[int], mask: int) -> None:
    found = [each["Numbering"]().split(taken, bytes(homes), HOMES, mask) for each in KINDS]
    assert found[0] == found[-1]
    again: list[Any] = []
    for home, (places, part, rows) in enumerate(found[-1]):
        numbered = np.frombuffer(part, RECORD_TYPE).copy()
        numbered["row"] = np.frombuffer(rows, np.uint32)[numbered["row"]]
        assert {homes[row] for row in numbered["row"].tolist()} <= {home}
        again += zip(np.frombuffer(places, np.uint32).tolist(), numbered.tolist(), strict=True)
    expected = [
        (at, (row, cost, flag & mask, left, when))
        for at, (row, cost, flag, left, when) in enumerate(taken.tolist())
        if not flag & ALSO
    ]
    assert sorted(again) == expected


@given(taken=records, homes=st.lists(st.integers(-1, HOMES - 1), min_size=SLOTS, max_size=SLOTS))
def test_every_charge_is_in_the_part_of_its_lease(taken: Any, homes: list[int]) -> None:
    identities, keys = np.arange(100, 100 + len(taken), dtype=np.uint64), np.arange(1, ROWS + 1, dtype=np.uint64)
    arguments = (taken, identities, keys, np.array(homes, np.int8), HOMES)
    found = [each["Numbering"]().charged(*arguments) for each in KINDS]
    assert found[0] == found[-1]
    parts, lost = found[-1]
    again: list[Any] = []
    for home, (charges, slots) in enumerate(parts):
        for identity, when, key, lease, cost in np.frombuffer(charges, CHARGE_TYPE).tolist():
            slot = int(np.frombuffer(slots, np.uint32)[lease])
            assert homes[slot] == home
            again.append((identity, when, key, slot, cost))
    told = [
        (100 + at, when, 0 if flag & ALSO else row + 1, flag >> SLOT_SHIFT, cost)
        for at, (row, cost, flag, _, when) in enumerate(taken.tolist())
        if flag & IDENTIFIED
    ]
    assert sorted(again) == [charge for charge in told if homes[charge[3]] >= 0]
    assert lost == len(told) - len(again)


@given(st.lists(records, max_size=4))
def test_a_numbering_remembers_nothing(some: list[Any]) -> None:
    homes = bytes(ROWS)
    for each in KINDS:
        one = each["Numbering"]()
        assert [one.split(r, homes, 1, 255) for r in some] == [
            each["Numbering"]().split(r, homes, 1, 255) for r in some
        ]


@given(st.lists(records, max_size=4))
def test_what_leases_spent_is_counted_and_written_once(some: list[Any]) -> None:
    """The half that is written then is that of the counters; the other one is behind, and marked where it is."""
    due_at, made = np.array([2**62, 50, 0, 2**33, 2**62]), []
    for each in KINDS:
        counters, stale = np.zeros((3, SLOTS), np.int64), np.zeros((2, SLOTS), np.bool_)
        halves = np.zeros((2, 3, SLOTS), np.int64)
        due = []
        for at, taken in enumerate(some):
            due.append(each["count_leases"](taken, counters, due_at, stale))
            each["write_stale"](counters, stale[at % 2], halves[at % 2])
            assert (halves[at % 2] == counters).all()
            assert not stale[at % 2].any()
        made.append((due, counters.tolist(), stale.tolist(), halves.tolist()))
    assert made[0] == made[-1]
    spent = np.zeros(SLOTS, np.int64)
    for taken in some:
        for _, cost, flag, _, _ in taken.tolist():
            spent[flag >> SLOT_SHIFT] += cost * bool(flag & ALLOWED and flag >> SLOT_SHIFT)
    assert made[0][1][0] == spent.tolist()


@given(records)
def test_kinds_of_decisions_are_tallied(taken: Any) -> None:
    tallied = np.frombuffer(columns.tally(taken), np.uint64).reshape(2, columns.KINDS)
    assert columns.plain_tally(taken) == tallied.tobytes()
    for kind in range(columns.KINDS):
        costs = [cost for _, cost, flag, _, _ in taken.tolist() if flag % columns.KINDS == kind]
        assert tallied[:, kind].tolist() == [len(costs), sum(costs)]


@given(st.lists(st.text(max_size=9), min_size=1, max_size=9), st.data())
def test_texts_are_joined_to_a_list(texts: list[str], data: st.DataObject) -> None:
    numbers = data.draw(st.lists(st.integers(0, len(texts) - 1), max_size=70))
    packed = [msgspec.msgpack.encode(text) for text in texts]
    for each in KINDS:
        joined = columns.packed_list(len(numbers), each["joined"](packed, np.array(numbers, np.uint32)))
        assert msgspec.msgpack.decode(joined) == [texts[number] for number in numbers]


@pytest.mark.parametrize("count", [0, 15, 16, 65_535, 65_536])
def test_a_list_begins_with_its_length(count: int) -> None:
    assert len(msgspec.msgpack.decode(columns.packed_list(count, b"\x01" * count))) == count


WRONG_RECORDS = np.array([(ROWS, 1, IDENTIFIED | SLOTS << SLOT_SHIFT, 1, 1)], RECORD_TYPE)


def test_what_lies_outside_is_refused_and_reads_nothing(kind: dict[str, Any]) -> None:
    homes, due_at = np.zeros(SLOTS, np.int8), np.zeros(SLOTS, np.int64)
    counters, stale = np.zeros((3, SLOTS), np.int64), np.zeros((2, SLOTS), np.bool_)
    keys, one = np.ones(ROWS, np.uint64), np.ones(1, np.uint64)
    with pytest.raises(ValueError, match=r"."):
        kind["Numbering"]().split(WRONG_RECORDS, bytes(ROWS), HOMES, 255)
    with pytest.raises(ValueError, match=r"."):
        kind["Numbering"]().split(WRONG_RECORDS, bytes([HOMES] * 9), HOMES, 255)
    with pytest.raises(ValueError, match=r"."):
        kind["Numbering"]().charged(WRONG_RECORDS, one, np.ones(9, np.uint64), homes, HOMES)
    with pytest.raises(ValueError, match=r"."):
        kind["Numbering"]().charged(WRONG_RECORDS, one, keys, np.zeros(9, np.int8), HOMES)
    with pytest.raises(ValueError, match=r"."):
        kind["count_leases"](WRONG_RECORDS, counters, due_at, stale)
    with pytest.raises(IndexError):
        kind["joined"]([b"a"], np.array([1], np.uint32))
    with pytest.raises(ValueError, match=r"."):
        kind["tally"](bytes(RECORD_TYPE.itemsize + 1))
    with pytest.raises(ValueError, match=r"."):
        kind["write_stale"](counters, stale[0], bytearray(8))
    assert not counters.any()
