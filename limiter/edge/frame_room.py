"""How many entries of frames may wait for the store at once, over all connections of a gateway.

A gateway has a bounded number of calls under way (``LIMIT_STORE_CALLS_MAX``); past it a decision is what the failure
mode says, although the store is well. Clients of frames can be made to wait instead: a connection reads on only while
one more whole frame would find room. A part of the calls is left to everybody else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from schemas.limiter import limits

if TYPE_CHECKING:
    from collections.abc import Callable


class FrameRoom:
    """Counts entries that wait; who finds no room is called, in the order of asking, when there is some again."""

    def __init__(self) -> None:
        self._waiting = 0
        self._kept_out: dict[Callable[[], None], None] = {}  # in order

    @property
    def is_full(self) -> bool:
        """Whether a frame of the largest size would not fit."""
        return self._waiting + limits.LIMIT_FRAME_ENTRIES_MAX > limits.LIMIT_FRAME_ENTRIES_WAITING_MAX

    def take(self, entries: int) -> None:
        """They wait for the store from now on."""
        self._waiting += entries

    def give_back(self, entries: int) -> None:
        """They are answered: whoever was kept out goes on, as far as there is room."""
        self._waiting -= entries
        while self._kept_out and not self.is_full:
            go_on = next(iter(self._kept_out))
            del self._kept_out[go_on]
            go_on()

    def call_when_there_is_some(self, go_on: Callable[[], None]) -> None:
        """``go_on`` is called once, when the room is not full any more."""
        self._kept_out[go_on] = None

    def forget(self, go_on: Callable[[], None]) -> None:
        """It ended, and wants no room any more."""
        self._kept_out.pop(go_on, None)
