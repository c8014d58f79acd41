"""A process that touches no other: it starts none, becomes none, signals none and looks into none. Linux alone.

What decodes one medium and what decodes the next have one parent: the first must reach neither. Threads are its own.
"""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import sys
from typing import Final

from dataflows.social.media.call_filter import Refused, refuse

_DIE_WITH_PARENT: Final = 1
_A_THREAD: Final = 0x00010000
_STARTS: Final = (
    Refused((57, None)),  # fork
    Refused((58, None)),  # vfork
    Refused((56, 220), but_bits=_A_THREAD),  # clone
    Refused((435, 435), error=errno.ENOSYS),  # clone3, whose flags no filter can read: then it is clone that is asked
    Refused((59, 221)),  # execve
    Refused((322, 281)),  # execveat
)
_SIGNALS: Final = (
    Refused((62, 129)),  # kill
    Refused((200, 130)),  # tkill
    Refused((234, 131)),  # tgkill
    Refused((129, 138)),  # rt_sigqueueinfo
    Refused((297, 240)),  # rt_tgsigqueueinfo
    Refused((424, 424)),  # pidfd_send_signal
)
_LOOKS: Final = (
    Refused((101, 117)),  # ptrace
    Refused((310, 270)),  # process_vm_readv
    Refused((311, 271)),  # process_vm_writev
    Refused((438, 438)),  # pidfd_getfd
    Refused((302, 261), but_zero=True),  # prlimit64, but of itself
)


def forgo() -> bool:
    """From now on; False where that cannot be."""
    return refuse((*_STARTS, *_SIGNALS, *_LOOKS))


def end_with(parent: int) -> None:
    """Has the kernel kill this process when that one ends (Linux alone), and ends it now where that has ended."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)
