"""A cursor is only good for whom and for what it was made."""

from __future__ import annotations

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
