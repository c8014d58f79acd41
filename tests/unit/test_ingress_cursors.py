"""A cursor is only good for whom and for what it was made."""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingress import limits
from ingress.http.cursors import Cursors
from schemas import errors

CURSORS = Cursors(b"k" * 32)


@given(st.lists(st.integers(0, 2**62), max_size=64))
def test_a_cursor_is_read_as_it_was_written(place: list[int]) -> None:
    assert CURSORS.read("m", "events", CURSORS.write("m", "events", place), list[int]) == place


def test_a_cursor_of_another_caller_list_or_secret_is_refused() -> None:
    text = CURSORS.write("m_1", "events", [1, 2])
    for reader, merchant, name in (
        (CURSORS, "m_2", "events"),
        (CURSORS, "m_1", "payment_intents"),
        (CURSORS, "m_1\x1fevents", ""),
        (Cursors(b"x" * 32), "m_1", "events"),
    ):
        with pytest.raises(errors.MalformedRequest):
            reader.read(merchant, name, text, list[int])


@given(st.text(max_size=80) | st.sampled_from(["AAAA", "", "=", "0", "A" * (limits.QUERY_TEXT_LENGTH_MAX + 1)]))
def test_any_other_text_is_refused(text: str) -> None:
    with pytest.raises(errors.MalformedRequest):
        CURSORS.read("m", "events", text, list[int])


def test_every_changed_character_is_refused() -> None:
    """No second text leads to the same place."""
    text = CURSORS.write("m", "events", [5, 7])
    for n, old in enumerate(text):
        for new in "Ab0_-":
            if new != old:
                changed = text[:n] + new + text[n + 1 :]
                with pytest.raises(errors.MalformedRequest):
                    CURSORS.read("m", "events", changed, list[int])


def test_a_cursor_tells_nothing_of_its_place() -> None:
    """The last entry that a list examined may be one that its reader may not see."""
    text = CURSORS.write("u_1", "search", (1_700_000_000_000_000, "post_hidden"))
    assert b"hidden" not in _raw(text)
    assert msgspec.msgpack.encode(1_700_000_000_000_000) not in _raw(text)
    nearly = CURSORS.write("u_1", "search", (1_700_000_000_000_000, "post_hiddex"))
    assert sum(one == other for one, other in zip(_raw(text), _raw(nearly), strict=True)) < len(_raw(text)) // 2


def test_readers_of_the_same_place_share_no_cursor() -> None:
    place = (1, "post_1")
    texts = {CURSORS.write(caller, name, place) for caller in ("u_1", "u_2") for name in ("a", "b")}
    assert len(texts) == 4
    assert CURSORS.write("u_1", "a", place) in texts, "one place has one text"


@given(st.lists(st.integers(0, 2**62), max_size=64))
def test_a_cursor_of_before_they_were_sealed_is_good(place: list[int]) -> None:
    assert CURSORS.read("m", "events", _signed(b"k" * 32, "m", "events", place), list[int]) == place


def test_a_signed_cursor_of_another_caller_list_or_secret_is_refused() -> None:
    for secret, merchant, name in ((b"x" * 32, "m", "events"), (b"k" * 32, "n", "events"), (b"k" * 32, "m", "cases")):
        with pytest.raises(errors.MalformedRequest):
            CURSORS.read("m", "events", _signed(secret, merchant, name, [1]), list[int])


def test_what_a_release_sealed_the_next_one_opens() -> None:
    """A fixed text: cursors live in clients, over releases."""
    assert CURSORS.read("m_1", "events", "y6XxSn5SAeLEdJ9UQYn6qaPRDQ", list[int]) == [5, 7]


def test_a_cut_or_lengthened_cursor_is_refused() -> None:
    text = CURSORS.write("m", "events", [5, 7])
    for changed in (*(text[:n] for n in range(1, len(text))), text + "A", text + "AAAA"):
        with pytest.raises(errors.MalformedRequest):
            CURSORS.read("m", "events", changed, list[int])


def _raw(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def _signed(secret: bytes, merchant: str, name: str, place: Any) -> str:
    """As releases wrote them that signed and did not seal."""
    body = msgspec.msgpack.encode(place)
    signature = hmac.new(secret, f"{merchant}\x1f{name}\x1f".encode() + body, hashlib.sha256).digest()[:16]
    return base64.urlsafe_b64encode(signature + body).rstrip(b"=").decode()
