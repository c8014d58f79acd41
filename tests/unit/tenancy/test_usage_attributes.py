"""Values of attributes that are not metered: what no CloudEvent can say is refused at the door, and counts if it was taken."""

from __future__ import annotations

from typing import Any, Final

import pytest

from schemas import errors
from schemas.tenancy.usage_event import TYPE, UsageEvent, read, read_all

NOW_US: Final = 1_780_000_000_000_000
GOOD: Final[dict[str, Any]] = {
    "specversion": "1.0",
    "type": TYPE,
    "id": "e1",
    "source": "/meter",
    "time": "2026-05-28T20:26:40Z",
    "data": {"dimension": "tokens", "quantity": 3},
}
WRONG: Final[list[tuple[str, Any]]] = [
    *(("dataschema", value) for value in (5, "", " ", "a b", "no scheme", "urn:", "1:a", "urn:a\n", True, {}, [])),
    *(("ext", value) for value in ({}, [], {"a": 1}, 1.5, 2.0, 2**31, -(2**31) - 1, 10**30)),
]
RIGHT: Final[list[tuple[str, Any]]] = [
    *(("dataschema", value) for value in (None, "urn:a", "https://example.org/a?b=c#d", "tag:a,2026:%20")),
    *(("ext", value) for value in (None, "", "a b", True, False, 0, 2**31 - 1, -(2**31))),
]


@pytest.mark.parametrize(("name", "value"), WRONG)
def test_a_value_that_no_attribute_can_have_is_refused_and_counts_where_it_was_taken(name: str, value: object) -> None:
    event = GOOD | {name: value}
    with pytest.raises(errors.InvalidCommand) as refused:
        read_all([GOOD, event], NOW_US, is_batch=True)
    assert [one["field"] for one in refused.value.errors] == [f"[1].{name}"]
    assert isinstance(read(event, NOW_US), UsageEvent)


@pytest.mark.parametrize(("name", "value"), RIGHT)
def test_what_an_attribute_can_say_is_taken(name: str, value: object) -> None:
    assert read_all([GOOD | {name: value}], NOW_US, is_batch=False) == read_all([GOOD], NOW_US, is_batch=False)
