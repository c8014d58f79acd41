"""Where a batch ends of which only the first offset is known."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sinks.kafka.unreadable import first_beyond


@given(begins=st.integers(0, 2**40), length=st.integers(1, 2**30))
def test_the_end_is_found_in_few_questions(begins: int, length: int) -> None:
    asked: list[int] = []

    def is_within(offset: int) -> bool:
        asked.append(offset)
        return begins <= offset < begins + length

    assert first_beyond(begins, is_within) == begins + length
    assert len(asked) <= 2 * length.bit_length() + 1
