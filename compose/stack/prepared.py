"""A program that prepares a server's folder, once: it ends well, or an operator is told in one line why not."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

from compose import limits
from compose.stack.errors import StackError

if TYPE_CHECKING:
    from collections.abc import Sequence


def prepare_by(command: Sequence[str], failing: str) -> None:
    """Returns when the program has ended well; one that takes longer than ``SERVER_START_TIMEOUT_S`` is killed.

    Raises StackError: what is ``failing``, and the last line that the program said.
    """
    allowed_s = limits.SERVER_START_TIMEOUT_S
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=allowed_s)
    except subprocess.TimeoutExpired:
        # without the error's own text: it is the whole command, with a hundred jars in it
        raise StackError(
            f"{failing}: it took longer than {allowed_s} s; start again when the machine is idle"
        ) from None
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip().splitlines()[-1:] or [f"exit status {done.returncode}"]
        raise StackError(f"{failing}: {said[0]}")
