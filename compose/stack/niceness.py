"""Who gives way: a process whose answer nobody waits for takes what others leave, and catches up when there is time."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from compose import limits


def give_way() -> None:
    """Lowers this process for good. It costs nothing where there is a core for each that has something to do.

    Linux may weigh sessions instead of processes (sched(7), autogroup): then that of a session's leader is lowered too.
    """
    os.nice(limits.BACKGROUND_NICENESS)
    if os.getsid(0) == os.getpid():
        with suppress(OSError):  # there is none in a control group, or on another system
            Path("/proc/self/autogroup").write_text(str(limits.BACKGROUND_NICENESS))
