"""Logs that became too long while their processes go on are begun anew, so that none of them fills the disk.

Every process writes at the end of its log, wherever that is by then, so its text can be taken away under it. The text
lies beside it until the next time.
"""

from __future__ import annotations

import os
import shutil
import time
from typing import TYPE_CHECKING

from compose import limits

if TYPE_CHECKING:
    from pathlib import Path

    from compose.stack.home import Home


class LongLogs:
    """The logs of a home. ``look`` gives what there is to say, or None."""

    def __init__(self, home: Home) -> None:
        self._folder = home.logs
        self._look_again_at = 0.0

    def look(self) -> str | None:
        """Begins those anew that are past the bound; asks the disk once in a while only."""
        now = time.monotonic()
        if now < self._look_again_at:
            return None
        self._look_again_at = now + limits.LOG_LOOK_INTERVAL_S
        try:
            long = [log for log in self._folder.glob("*.log") if log.stat().st_size > limits.LOG_BYTES_MAX]
            for log in long:
                _begin_anew(log)
        except OSError as error:
            return f"a log that is too long stays so: {error}"
        return f"begun anew, what was said is in .log.1: {', '.join(log.name for log in long)}" if long else None


def _begin_anew(log: Path) -> None:
    """What is written between the two steps is lost."""
    shutil.copyfile(log, log.with_suffix(".log.1"))
    os.truncate(log, 0)
