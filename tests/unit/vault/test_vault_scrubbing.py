"""A number leaves a processor's answer in whatever writing it stands there, and nothing else does."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.worlds.payments.card_traces import traces
from vault.scrubbing import Withheld, holds_number, scrubbed

NUMBER = "4000056655665556"


def grouped(gap: str) -> str:
    return gap.join(NUMBER[n : n + 4] for n in range(0, 16, 4))


WRITINGS = {
    "digits": NUMBER,
    "blanks": grouped(" "),
    "dashes": grouped("-"),
    "hard blanks": grouped("\u00a0"),
    "in an address": grouped("%20"),
    "apart": " ".join(NUMBER),
    "base64": base64.b64encode(NUMBER.encode()).decode(),
    "urlsafe": base64.urlsafe_b64encode(NUMBER.encode()).decode().rstrip("="),
    "hexadecimal": NUMBER.encode().hex(),
    "as a float": "4.000056655665556e15",
}


@given(st.sampled_from(sorted(WRITINGS)), st.text(max_size=12), st.text(max_size=12), st.booleans())
def test_no_writing_stays(name: str, before: str, after: str, ascii_only: bool) -> None:
    """In the middle of any text of any JSON."""
    # A digit beside it would make it another number.
    text = f"{before}|{WRITINGS[name]}|{after}"
    body = json.dumps({"a": [text, {text: 1}]}, ensure_ascii=ascii_only).encode(errors="replace")
    cleaned, was_held = scrubbed(body, NUMBER)
    assert was_held
    assert [t for t in traces(NUMBER) if t in cleaned] == []
    json.loads(cleaned)


@given(st.binary(max_size=20), st.binary(max_size=20))
def test_base64_is_found_at_every_alignment(before: bytes, after: bytes) -> None:
    encoded = base64.b64encode(before + NUMBER.encode() + after)
    cleaned, was_held = scrubbed(b'{"x":"' + encoded + b'"}', NUMBER)
    assert was_held
    assert encoded not in cleaned


@given(st.binary(max_size=40), st.sampled_from(sorted(WRITINGS)), st.binary(max_size=40))
def test_what_is_no_json_is_cleaned_too(before: bytes, name: str, after: bytes) -> None:
    cleaned, was_held = scrubbed(b"<" + before + b"|" + WRITINGS[name].encode() + b"|" + after, NUMBER)
    assert was_held
    assert [t for t in traces(NUMBER) if t in cleaned] == []


json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)


@given(json_values)
def test_what_does_not_hold_it_is_left_as_it_is(value: Any) -> None:
    """Byte for byte; another card's number too."""
    body = json.dumps({"value": value, "last4": NUMBER[-4:], "other": "4242424242424242"}, indent=1).encode()
    assert scrubbed(body, NUMBER) == (body, False)


@pytest.mark.parametrize(
    "body", [b'{"n":4000056655665556}', b"[4000056655665556.0]", b"4000056655665556", b'"\\u0034000056655665556"']
)
def test_numbers_and_escapes(body: bytes) -> None:
    cleaned, was_held = scrubbed(body, NUMBER)
    assert was_held
    assert NUMBER not in json.dumps(json.loads(cleaned))


def test_it_shows_the_last_four() -> None:
    assert scrubbed(f'{{"n":"{NUMBER}"}}'.encode(), NUMBER)[0] == b'{"n":"************5556"}'


def test_what_is_too_deep_to_look_into_is_withheld() -> None:
    with pytest.raises(Withheld):
        scrubbed(b"[" * 40 + b'"4000056655665556"' + b"]" * 40, NUMBER)


def test_headers_are_looked_at() -> None:
    assert holds_number(f"retry {grouped(' ')}", NUMBER)
    assert not holds_number("retry 5556", NUMBER)
