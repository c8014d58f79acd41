"""A table in one test fails as its cases do."""

from __future__ import annotations

import inspect

import pytest

from tests.each import each


def test_every_case_of_all_tables_is_tried() -> None:
    tried = []

    @each("first", "ab")
    @each("second, third", [(1, 2), (3, 4)])
    def pairs(first: str, second: int, third: int) -> None:
        tried.append((first, second, third))

    pairs()
    assert tried == [("a", 1, 2), ("a", 3, 4), ("b", 1, 2), ("b", 3, 4)]


@pytest.mark.parametrize(("number", "wrong"), [(1, "a"), (2, "b"), (3, "c")])
def test_the_case_that_fails_is_told_wherever_it_stands(number: int, wrong: str) -> None:
    @each("case", "abc")
    def refused(case: str) -> None:
        with pytest.raises(ZeroDivisionError):  # where nothing is raised, this fails with what is no Exception
            assert 1 / (case == wrong)

    with pytest.raises(pytest.fail.Exception) as failed:
        refused()
    assert failed.value.__notes__ == [f"case {number} of 3: case={wrong!r}"]


def test_fixtures_are_asked_for_and_names_are_known() -> None:
    @each("case", [1])
    def with_a_fixture(tmp_path: object, case: int) -> None:
        assert (tmp_path, case) == ("folder", 1)

    assert list(inspect.signature(with_a_fixture).parameters) == ["tmp_path"]
    with_a_fixture(tmp_path="folder")
    with pytest.raises(AssertionError, match="does not take"):
        each("other", [1])(with_a_fixture)
    with pytest.raises(AssertionError, match="without a case"):
        each("case", [])
    with pytest.raises(AssertionError, match=r"pytest\.param"):
        each("case", [1, pytest.param(2, marks=pytest.mark.proof)])
