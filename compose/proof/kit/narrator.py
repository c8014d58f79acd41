"""Tells what the demo does: a live line on a terminal, plain lines elsewhere, each with the seconds since the start."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.markup import escape

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.status import Status

    from compose.supervise.state import StackState

#: a terminal tells its width; a pipe gets one in which a timeline fits
_WIDTH_OF_A_PIPE: Final = 160
_QUARTERS: Final = 4


class Narrator:
    """One story teller for one run."""

    def __init__(self, *, on_stderr: bool = False, verbose: bool = True) -> None:
        self.verbose = verbose  # else only what a summary needs
        width = None if Console(stderr=on_stderr).is_terminal else _WIDTH_OF_A_PIPE
        self.console = Console(stderr=on_stderr, width=width, highlight=False)
        self._began = time.monotonic()
        self._status: Status | None = None
        self._quarter = 0

    @property
    def seconds(self) -> float:
        """Since the start."""
        return time.monotonic() - self._began

    def say(self, line: str) -> None:
        """One line that stays."""
        self.console.print(f"[dim]{self.seconds:6.1f} s[/dim]  {escape(line)}", soft_wrap=True)

    @contextmanager
    def busy(self, line: str) -> Iterator[None]:
        """Something that takes a while: a spinner on a terminal, a line elsewhere."""
        if not self.console.is_terminal:
            self.say(line)
            yield
            return
        with self.console.status(escape(line)) as status:
            self._status = status
            try:
                yield
            finally:
                self._status = None

    def stack(self, state: StackState) -> None:
        """Where the start of the stack is."""
        if self._status is not None:
            missing = [entry.name for entry in state.processes if entry.condition != "ready"]
            self._status.update(f"starting the stack: {escape(', '.join(missing) or 'services')}")

    def now(self, line: str) -> None:
        """Where something long is: beside the spinner on a terminal, a line elsewhere."""
        if self._status is not None:
            self._status.update(escape(line))
        else:
            self.say(line)

    def payments(self, ended: int, total: int) -> None:
        """How many payments came to their end."""
        if self._status is not None:
            self._status.update(f"{ended} of {total} payments have ended")
        elif ended * _QUARTERS // total > self._quarter:
            self._quarter = ended * _QUARTERS // total
            self.say(f"{ended} of {total} payments have ended")
