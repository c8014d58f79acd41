"""What a support grant masks is in no answer, at no depth; what it does not mask keeps its bytes."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingress.tenancy.support.access import _call
from ingress.tenancy.support.gate import masked
from schemas import errors
from schemas.tenancy import field_masks, limits
from schemas.tenancy.desk_operations import DESK, REQUEST_SUPPORT_GRANT
from tests.each import each

_NAMES = st.sampled_from(["a", "b", "email", "payload", "\u00e9"])
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_NAMES, inner, max_size=4),
    max_leaves=20,
)


def _left(value: Any, masks: set[str], around: str = "") -> Any:
    """An oracle for masks of one or two names."""
    if isinstance(value, list):
        return [_left(item, masks, around) for item in value]
    if not isinstance(value, dict):
        return value
    kept = {name: inner for name, inner in value.items() if not masks & {name, f"{around}.{name}"}}
    return {name: _left(inner, masks, name) for name, inner in kept.items()}


@given(_JSON, st.sets(st.sampled_from(["email", "a", "payload.email", "payload", "a.b", "payload.payload"])))
def test_what_is_left_is_all_that_no_mask_names(value: Any, masks: set[str]) -> None:
    assert json.loads(field_masks.without(json.dumps(value).encode(), masks)) == _left(value, masks)


def test_values_that_stay_keep_their_bytes() -> None:
    text = b'{"n":1.10,"big":123456789012345678901234567890,"e":1e3,"s":"\\u00e9","gone":1,"l":[{"gone":2,"k":-0.0}]}'
    left = b'{"n":1.10,"big":123456789012345678901234567890,"e":1e3,"s":"\\u00e9","l":[{"k":-0.0}]}'
    assert field_masks.without(text, ["gone"]) == left
    assert field_masks.without(b' {"a": [ {"b" : 1} ] }\n', ["b"]) == b'{"a":[{}]}'


def test_a_name_that_is_written_with_escapes_is_that_name() -> None:
    assert field_masks.without(b'{"\\u0065mail":1}', ["email"]) == b"{}"


@pytest.mark.parametrize("text", [b"{", b"id,email\n1,x@example.com\n", b'{"a":1}\n{"email":2}', b'{"a":[1,}'])
def test_what_is_no_json_is_not_shown(text: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        field_masks.without(text, ["email"])


@each(
    "masks",
    [[], "email", [""], ["a."], [".a"], ["a b"], ["a..b"], [7], ["x" * 65], ["a"] * (limits.MASKS_MAX + 1), ["e\n"]],
)
def test_what_is_no_list_of_masks(masks: object) -> None:
    assert _wrong({"masked_fields": masks}) == ["payload.masked_fields"]


def test_masks_go_with_reading_alone() -> None:
    assert _wrong({"masked_fields": ["payload.email", "card"], "scopes": ["resources:read", "usage:read"]}) == []
    assert _wrong({"masked_fields": ["email"], "scopes": ["resources:write"]}) == ["payload.masked_fields"]
    assert _wrong({"scopes": ["resources:write"]}) == []


def _wrong(said: dict[str, Any]) -> list[str]:
    base = {"reason": "r", "ticket": "t", "person": "s_1"}
    return [one["field"] for one in DESK[REQUEST_SUPPORT_GRANT].normalize(base | said)[1]]


def _answer(body: bytes, **headers: str) -> list[dict[str, Any]]:
    fields = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    begins = {"type": "http.response.start", "status": 200, "headers": fields}
    return [begins, *({"type": "http.response.body", "body": part} for part in (body[:5], body[5:]))]


def test_an_answer_whose_fields_cannot_be_told_is_not_given() -> None:
    json_ = {"content_type": "application/json; charset=utf-8", "content_length": "21"}
    begins, told = masked(_answer(b'{"email":1,"kept": 2}', **json_), ["email"])
    assert (told["body"], dict(begins["headers"])[b"content-length"]) == (b'{"kept":2}', b"10")
    for body, headers in (
        (b"email\nx\n", {"content_type": "text/csv"}),
        (b'{"email":1}\n{"email":2}', {"content_type": "application/json"}),
        (b"\x1f\x8b", {"content_type": "application/json", "content_encoding": "gzip"}),
        (b'{"email":1}', {}),
    ):
        with pytest.raises(errors.Forbidden):
            masked(_answer(body, **headers), ["email"])
        assert masked(_answer(body, **headers), []) == _answer(body, **headers)
    assert masked(_answer(b""), ["email"]) == _answer(b"")


@pytest.mark.parametrize(
    ("stored", "told"), [("done", ("done", False)), ("refused", ("refused", False)), ("begun", ("refused", True))]
)
def test_a_call_of_support_is_told_as_done_or_refused(stored: str, told: tuple[str, bool]) -> None:
    """One whose process ended before its answer was given to nobody; its row says that it came to no end."""
    call = _call((1, 0, "ann", "sg_1", "GET /v1/resources", "resources", stored))
    assert (call["result"], call["unfinished"]) == told
