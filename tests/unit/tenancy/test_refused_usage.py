"""What is kept of usage that does not count: judged as the record itself, and nothing in it that strangers wrote."""

from __future__ import annotations

import json
import string
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dataflows.tenancy.usage.counting import Metered
from dataflows.tenancy.usage.records import metered
from dataflows.tenancy.usage.refused import judged_again
from schemas import errors
from schemas.tenancy import limits
from schemas.tenancy.instants import instant
from schemas.tenancy.refused_usage import kept, raise_unless, shape
from schemas.tenancy.usage_event import record_key
from tests.each import each
from tests.unit.tenancy.test_usage import GOOD, NOW_US

KEY = record_key("tn_1", "/meter", "e1").encode()
SECRET = "what nobody may read"
CARD = "4111111111111111"
OUTSIDE = "producer.a", ("tenant:tn_1",)
DAY_US = 86_400_000_000

leaves = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(max_size=9)
anything = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(), inner, max_size=2)
)
names = st.sampled_from(
    [*GOOD, "subject", "datacontenttype", "tenant", "tenantid", "traceparent", "trace_id", "data_base64"]
)
changes = st.dictionaries(names, anything, max_size=3)
data = st.dictionaries(st.sampled_from(["dimension", "quantity", "tenant", "more"]), anything, max_size=2)
fields = st.lists(st.sampled_from(["ce_specversion", "ce_a_b", "ce_data", "mac"]), max_size=2)


@example({"subject": {}}, None, set(), [])
@example({"datacontenttype": [1]}, None, set(), [])
@example({"id": {"a": 1}}, {"quantity": 2**70}, set(), [])
@given(changes, st.none() | data, st.sets(st.sampled_from([*GOOD]), max_size=1), fields)
def test_what_is_kept_is_judged_as_the_record_was(
    said: dict[str, Any], of_data: dict[str, Any] | None, without: set[str], headers: list[str]
) -> None:
    """Else sending again would count what was refused for good reason, or for another sum."""
    event = {name: value for name, value in (GOOD | said).items() if name not in without}
    if of_data is not None:
        event["data"] = GOOD["data"] | of_data
    value = json.dumps(event).encode()
    found = metered(KEY, value, NOW_US, *OUTSIDE, headers)
    keeps = kept(KEY, value, headers)
    if keeps.is_whole:
        again = metered(KEY, keeps.said.encode(), NOW_US, *OUTSIDE, keeps.fields)
        assert isinstance(again, Metered) == isinstance(found, Metered)
        assert again == found or not isinstance(found, Metered)


def test_of_what_is_no_usage_the_names_alone_are_kept() -> None:
    event = GOOD | {"note": SECRET, "tenant": {"a": SECRET}, "data": GOOD["data"] | {"more": [SECRET]}}
    keeps = kept(KEY, json.dumps(event).encode(), ["ce_x", "authorization"])
    assert (keeps.is_whole, keeps.fields) == (True, ("ce_x",))
    assert SECRET not in keeps.said
    assert json.loads(keeps.said) == GOOD | {"note": None, "tenant": None, "data": GOOD["data"] | {"more": None}}


@each(
    "value",
    [
        json.dumps(GOOD | {"subject": f"card {CARD}"}),
        json.dumps(GOOD | {"data": {"dimension": "tokens", "quantity": int(CARD)}}),
        json.dumps(GOOD | {CARD: 1}),
        json.dumps(GOOD | {"subject": "a" * 100_000}),
        json.dumps(GOOD | {f"a{n}": n for n in range(5_000)}),
        json.dumps(GOOD)[:-1] + SECRET,
        json.dumps([GOOD, SECRET]),
        '{"a":' * 100_000 + SECRET,
        "\x00\x1b[31m" + SECRET,
    ],
)
def test_what_cannot_be_kept_is_known_by_its_shape_alone(value: str) -> None:
    keeps = kept(KEY, value.encode())
    assert not keeps.is_whole
    assert len(keeps.said) <= limits.USAGE_REFUSED_SHAPE_LENGTH
    assert keeps.said.isprintable()
    assert not set(keeps.said) & set(string.ascii_letters + string.digits) - {"a", "9"}
    assert CARD not in keeps.said


def test_a_key_that_is_no_text_is_kept_nowhere_as_one() -> None:
    assert not kept(b"\xff", json.dumps(GOOD).encode()).is_whole
    assert shape(b"") == ""


def test_its_age_is_judged_as_it_came_and_its_future_as_it_is() -> None:
    """A week in which nobody looked makes it no older; a clock that was ahead is right by now."""
    value = json.dumps(GOOD).encode()
    later = NOW_US + (limits.USAGE_AGE_MAX_S + 86_400) * 1_000_000
    assert isinstance(judged_again(KEY, value, NOW_US, later, *OUTSIDE, ()), Metered)
    ahead = json.dumps(GOOD | {"time": instant(NOW_US + DAY_US)}).encode()
    assert judged_again(KEY, ahead, NOW_US, NOW_US, *OUTSIDE, ()) == "wrong_time"
    assert isinstance(judged_again(KEY, ahead, NOW_US, NOW_US + 2 * DAY_US, *OUTSIDE, ()), Metered)
    old = json.dumps(GOOD | {"time": "1999-01-01T00:00:00Z"}).encode()
    assert judged_again(KEY, old, NOW_US, later, *OUTSIDE, ()) == "wrong_time"
    assert judged_again(KEY, value, NOW_US, later, "producer.a", ("tenant:tn_2",), ()) == "scope_not_allowed"


def test_what_the_database_says_is_told_in_sentences() -> None:
    raise_unless("asked", "asked")
    with pytest.raises(errors.NotFound):
        raise_unless("not_found", "asked")
    for word, told in (
        ("unsigned", "Nobody whom we know"),
        ("not_whole", "Too little"),
        ("is_counted", "counted already"),
    ):
        with pytest.raises(errors.StateConflict, match=told):
            raise_unless(word, "asked")
