"""Both ways of packing entries and reading answers, the one in Python and the compiled one, give the same."""

from __future__ import annotations

import shutil
import sysconfig
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limiter.frames import frames, packing
from tests.each import each

NAMES = ("entries", "answers")
PLAIN = {name: getattr(packing, f"plain_{name}") for name in NAMES}
KINDS = [PLAIN] + [{name: getattr(packing, name) for name in NAMES}] * packing.IS_COMPILED
HEADER = Path(sysconfig.get_paths()["include"]) / "Python.h"


@pytest.fixture(params=range(len(KINDS)), ids=["plain", "compiled"][: len(KINDS)])
def kind(request: pytest.FixtureRequest) -> dict[str, Any]:
    found: dict[str, Any] = KINDS[request.param]
    return found


@pytest.mark.skipif(not (shutil.which("gcc") and HEADER.exists()), reason="no C compiler, or no headers of Python")
def test_where_there_is_a_compiler_both_are_tested() -> None:
    assert packing.IS_COMPILED


names = st.sampled_from(["a", "b", "é", ""])
checks = st.tuples(
    names,
    names,
    names,
    st.integers(0, 2**32 - 1),
    st.none() | st.binary(min_size=16, max_size=16),
    st.none() | st.just("192.0.2.1"),
)


@given(st.lists(st.lists(checks, max_size=20), max_size=3))
def test_entries_number_their_keys_and_keep_their_identities(asked: list[list[tuple[Any, ...]]]) -> None:
    found = []
    for one in KINDS:
        numbers: dict[tuple[str, ...], int] = {}
        new: list[tuple[str, ...]] = []
        bodies = [one["entries"](numbers, some, bytes(range(16)) * len(some), new) for some in asked]
        found.append((bodies, numbers, new))
    assert found[0] == found[-1]
    bodies, _, new = found[-1]
    for body, some in zip(bodies, asked, strict=True):
        expected = [
            (cost, identity or bytes(range(16)), (t, u, r) if network is None else (t, u, r, network))
            for t, u, r, cost, identity, network in some
        ]
        assert [(cost, identity, new[number]) for number, cost, identity in frames.ENTRY.iter_unpack(body)] == expected


@each(
    "wrong",
    [
        ("t", "u", "/r", -1, None, None),
        ("t", "u", "/r", 2**32, None, None),
        ("t", "u", "/r", 2**70, None, None),
        ("t", "u", "/r", "1", None, None),
        ("t", "u", "/r", 1.0, None, None),
        ("t", "u", "/r", 1, b"", None),
        ("t", "u", "/r", 1, b"short", None),
        ("t", "u", "/r", 1, bytes(17), None),
        ("t", "u", "/r", 1, "x" * 16, None),
        ("t", ["no", "hash"], "/r", 1, None, None),
        ("t", "u", "/r", 1, None),
    ],
)
def test_what_no_entry_can_say_is_refused(kind: dict[str, Any], wrong: tuple[Any, ...]) -> None:
    with pytest.raises((TypeError, ValueError)):
        kind["entries"]({}, [wrong], bytes(16), [])


def test_an_entry_without_an_identity_of_its_own_needs_one(kind: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"."):
        kind["entries"]({}, [("t", "u", "/r", 1, None, None)] * 2, bytes(16), [])


int64 = st.integers(-(2**63), 2**63 - 1)
uint32 = st.integers(0, 2**32 - 1)


@given(st.lists(st.tuples(uint32, uint32, int64, int64, int64), max_size=40))
def test_answers_are_read_as_they_were_written(rows: list[tuple[int, ...]]) -> None:
    body = b"".join(frames.ROW.pack(*row) for row in rows)
    for one in KINDS:
        found = one["answers"](frames.Answer, body)
        assert all(type(answer) is frames.Answer for answer in found)
        assert [(a.flags, a.policy_version, *a[1:4]) for a in found] == rows
        assert all(a.allowed is bool(a.flags & frames.ALLOWED) for a in found)
