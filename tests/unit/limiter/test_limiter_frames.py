"""CHECK frames: what was written is read, and no bytes make the reader do anything else than refuse."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limiter.frames import frames, packing
from limiter.frames.frames import FrameError
from schemas.limiter import limits
from tests.each import each

uint32 = st.integers(0, 2**32 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
entries = st.lists(st.tuples(uint32, uint32, st.binary(min_size=16, max_size=16)), max_size=40)
rows = st.lists(st.tuples(uint32, uint32, int64, int64, int64), max_size=40)
places = st.lists(st.tuples(st.text(max_size=30), st.text(max_size=30), st.text(max_size=30)), max_size=20)


def read(data: bytes) -> list[frames.Frame]:
    return list(frames.frames(bytearray(data)))


@given(uint32, entries)
def test_a_question_is_read_as_it_was_written(frame_id: int, asked: list[tuple[int, int, bytes]]) -> None:
    (frame,) = read(frames.check_frame(frame_id, asked))
    assert (frame.kind, frame.entries, frame.frame_id) == (frames.CHECK, len(asked), frame_id)
    assert list(frames.ENTRY.iter_unpack(frame.body)) == asked


@given(uint32, rows)
def test_an_answer_is_read_as_it_was_written(frame_id: int, found: list[tuple[int, ...]]) -> None:
    (frame,) = read(frames.answer_frame(frame_id, b"".join(frames.ROW.pack(*row) for row in found)))
    assert frame.frame_id == frame_id
    assert [(a.flags, a.policy_version, *a[1:4]) for a in packing.answers(frames.Answer, frame.body)] == found
    assert all(a.allowed == bool(a.flags & frames.ALLOWED) for a in packing.answers(frames.Answer, frame.body))


@given(uint32, places)
def test_names_are_read_as_they_were_written(first: int, named: list[frames.Place]) -> None:
    (frame,) = read(frames.keys_frame(first, named))
    assert frames.places_of(frame) == named


@given(st.lists(entries, min_size=1, max_size=4), st.data())
def test_frames_arrive_in_any_pieces(asked: list[list[tuple[int, int, bytes]]], data: st.DataObject) -> None:
    whole = b"".join(frames.check_frame(at, some) for at, some in enumerate(asked))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=6)))
    received, found = bytearray(), []
    for begin, end in zip([0, *cuts], [*cuts, len(whole)], strict=True):
        received += whole[begin:end]
        found += list(frames.frames(received))
    assert [frame.frame_id for frame in found] == list(range(len(asked)))
    assert not received


def test_a_truncated_frame_is_never_read() -> None:
    whole = frames.check_frame(1, [(0, 1, bytes(16)), (1, 2, bytes(16))])
    assert all(read(whole[:end]) == [] for end in range(len(whole)))


@given(st.binary(max_size=200))
def test_random_bytes_are_refused_or_waited_for(data: bytes) -> None:
    received = bytearray(data)
    try:
        found = list(frames.frames(received))
    except FrameError:
        return
    assert len(received) < frames.HEADER.size + limits.LIMIT_FRAME_BYTES_MAX
    for frame in found:
        assert frame.entries <= limits.LIMIT_FRAME_ENTRIES_MAX


@given(st.integers(0, 20), st.binary(max_size=120))
def test_random_names_are_read_whole_or_refused(count: int, body: bytes) -> None:
    try:
        found = frames.places_of(frames.Frame(frames.KEYS, count, 0, body))
    except FrameError:
        return
    (again,) = read(frames.keys_frame(0, found))
    assert again.body == body


HEAD = frames.HEADER


@each(
    "head",
    [
        HEAD.pack(b"xx", 1, frames.CHECK, 0, 0, 0),
        HEAD.pack(b"rf", 2, frames.CHECK, 0, 0, 0),
        HEAD.pack(b"rf", 1, 0, 0, 0, 0),
        HEAD.pack(b"rf", 1, 99, 0, 0, 0),
        HEAD.pack(b"rf", 1, frames.CHECK, 2, 24, 0),
        HEAD.pack(b"rf", 1, frames.CHECK, 1, 25, 0),
        HEAD.pack(b"rf", 1, frames.CHECK, 0, 1, 0),
        HEAD.pack(b"rf", 1, frames.CHECK, 2**32 - 1, 24, 0),
        HEAD.pack(b"rf", 1, frames.KEYS, 1, 2**32 - 1, 0),
        HEAD.pack(b"rf", 1, frames.ANSWER, 3, 95, 0),
    ],
)
def test_a_wrong_header_is_refused_before_its_body_is_waited_for(head: bytes) -> None:
    with pytest.raises(FrameError):
        read(head)


@pytest.mark.parametrize(
    "entry", [(-1, 1, bytes(16)), (2**32, 1, bytes(16)), (0, -1, bytes(16)), (0, 2**32, bytes(16))]
)
def test_what_no_frame_can_carry_is_refused(entry: tuple[int, int, bytes]) -> None:
    with pytest.raises(FrameError):
        frames.check_frame(1, [entry])


@pytest.mark.parametrize("text", ["\ud800", "x" * 70_000])
def test_a_name_that_no_frame_can_carry_is_refused(text: str) -> None:
    with pytest.raises(FrameError):
        frames.keys_frame(0, [("t", text, "/r")])
