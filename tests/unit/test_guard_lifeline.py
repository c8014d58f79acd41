"""What the guard of a stack hears, whatever its pipe has room for."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from compose.supervise.guard import Lifeline
from compose.supervise.state import ProcessState, StackState, state_of_line

if TYPE_CHECKING:
    from collections.abc import Iterator

_PIPE_BYTES = 4096


@pytest.fixture
def pipe() -> Iterator[tuple[int, Lifeline]]:
    read_end, write_end = os.pipe()
    os.set_blocking(read_end, False)
    lifeline = Lifeline(write_end)
    yield read_end, lifeline
    lifeline.close()
    os.close(read_end)


def state(number: int) -> StackState:
    processes = [ProcessState(name=f"owner-{n}", kind="service", pid=n, note="x" * 200) for n in range(20)]
    return StackState(stack_id=f"stack-{number}", phase="ready", processes=processes)


def read_all(read_end: int, lifeline: Lifeline) -> bytes:
    heard = b""
    while True:
        try:
            heard += os.read(read_end, _PIPE_BYTES)
        except BlockingIOError:
            return heard
        lifeline.follow_up()


def test_a_guard_that_does_not_read_hears_whole_lines_and_the_newest_state_last(pipe: tuple[int, Lifeline]) -> None:
    """A line that was cut would be the last that it can read: nothing would be stopped after the supervisor died."""
    read_end, lifeline = pipe
    for number in range(100):
        lifeline.tell(state(number))
    lines = read_all(read_end, lifeline).split(b"\n")
    assert lines.pop() == b""
    heard = [state_of_line(line) for line in lines]
    assert heard[-1] == state(99)
    assert len(heard) < 100, "the pipe was never full: the test proves nothing"
    assert all(state(int(each.stack_id.rpartition("-")[2])) == each for each in heard)


def test_the_newest_state_is_heard_at_once_where_there_is_room(pipe: tuple[int, Lifeline]) -> None:
    read_end, lifeline = pipe
    lifeline.tell(state(1))
    assert state_of_line(os.read(read_end, 65_536).removesuffix(b"\n")) == state(1)
