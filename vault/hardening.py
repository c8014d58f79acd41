"""Keeps what this process has in memory out of files: no core dump, and no other process of the user may read it."""

from __future__ import annotations

import ctypes
import logging
import resource
import sys
from typing import Final

_PR_GET_DUMPABLE: Final = 3
_PR_SET_DUMPABLE: Final = 4


class NotHardenedError(RuntimeError):
    """The memory of this process could be written to a file."""


def keep_memory_private() -> None:
    """Afterwards a crash leaves no core and ptrace needs root. Call it before the first key is read."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
        if libc.prctl(_PR_GET_DUMPABLE, 0, 0, 0, 0) != 0:
            raise NotHardenedError("the kernel still lets this process be dumped: do not run the vault here")
    # HTTP clients describe requests at these levels; nothing of them may reach a log.
    for name in ("httpx", "httpcore", "asyncio"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
