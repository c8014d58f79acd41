"""Entries of frames that wait for the store: whoever finds no room goes on later, in turn, and only once."""

from __future__ import annotations

from functools import partial

from limiter.edge.frame_room import FrameRoom
from schemas.limiter import limits

WHOLE = limits.LIMIT_FRAME_ENTRIES_MAX


def test_a_part_of_the_calls_is_left_to_everybody_else() -> None:
    assert WHOLE <= limits.LIMIT_FRAME_ENTRIES_WAITING_MAX < limits.LIMIT_STORE_CALLS_MAX


def test_room_is_for_one_more_whole_frame() -> None:
    room = FrameRoom()
    room.take(limits.LIMIT_FRAME_ENTRIES_WAITING_MAX - WHOLE)
    assert not room.is_full
    room.take(1)
    assert room.is_full
    room.give_back(1)
    assert not room.is_full


def test_who_was_kept_out_goes_on_in_turn_and_once() -> None:
    room, went_on = FrameRoom(), list[str]()

    def frame_of(name: str) -> None:
        went_on.append(name)
        room.take(WHOLE)

    first, second, gone = partial(frame_of, "first"), partial(frame_of, "second"), partial(frame_of, "gone")
    room.take(limits.LIMIT_FRAME_ENTRIES_WAITING_MAX)
    for waiting in (gone, first, second, first):
        room.call_when_there_is_some(waiting)
    room.forget(gone)
    room.give_back(1)
    assert went_on == []
    room.give_back(WHOLE)
    assert went_on == ["first"]
    room.give_back(WHOLE)
    assert went_on == ["first", "second"]
    room.give_back(WHOLE)
    assert went_on == ["first", "second"]
