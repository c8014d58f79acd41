"""What the stack tells an operator: one line that says what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


class StackError(Exception):
    """The stack cannot do what was asked; the text is one line that names the way out."""


class AnotherSupervisorError(StackError):
    """The home is another supervisor's, which may have been started in the same moment."""

    def __init__(self, home: Path) -> None:
        super().__init__(f"another supervisor runs in {home}: see 'millrace status'")
