"""Linux's Landlock: a process gives up every file and address but those it names, for the rest of its life.

landlock(7); kernel 5.13 for files, 6.7 for TCP, 6.12 for signals. Grants of an engine rule what its SQL may do, and
bounds of a decoder what it takes; this holds where they have a hole. The numbers are those of ``linux/landlock.h`` and
are the same on x86-64 and arm64.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

_CREATE_RULESET: Final = 444
_ADD_RULE: Final = 445
_RESTRICT_SELF: Final = 446
_VERSION_FLAG: Final = 1
_PATH_BENEATH: Final = 1
_NO_NEW_PRIVILEGES: Final = 38
_READ: Final = 0b1101  # execute, read a file, read a folder
#: the accesses to files that a version knows (refer, truncate and ioctl came later); from version 4 on TCP too
_FILES_BY_VERSION: Final = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1, 5: (1 << 16) - 1}
_OF_A_FILE: Final = 0b1_1100_0000_0000_0111 & ~(1 << 13)  # what may be allowed of one that is no folder
#: write, read, remove and make files, truncate: no folders, links or devices
_FILLS: Final = 1 << 1 | 1 << 2 | 1 << 5 | 1 << 8 | 1 << 14
_CONNECT_TCP: Final = 1 << 1
_TCP_SINCE: Final = 4
_OWN_SIGNALS: Final = 0b11  # and no abstract sockets of others
_SIGNALS_SINCE: Final = 6


def confine(read: Iterable[Path], write: Iterable[Path] = (), fill: Iterable[Path] = ()) -> bool:
    """From here on this thread and all that it starts reads only below ``read``, and reads and writes below ``write``.

    Below ``fill`` it reads and writes plain files alone. It makes no TCP connection, and signals none but those that it
    starts, where the kernel can forbid that. False where there is no Landlock: then nothing is
    confined. Paths that do not exist are passed over. Raises OSError when the kernel refuses, and RuntimeError when
    other threads run already: they would stay free.
    """
    if sys.platform != "linux" or platform.machine() not in ("x86_64", "aarch64"):
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    version = libc.syscall(_CREATE_RULESET, None, 0, _VERSION_FLAG)
    if version < 1:
        return False
    if len(list(Path("/proc/self/task").iterdir())) > 1:
        raise RuntimeError("landlock: a thread that runs already would not be confined")
    files = _FILES_BY_VERSION[min(version, max(_FILES_BY_VERSION))]
    handled = [files] + [_CONNECT_TCP] * (version >= _TCP_SINCE) + [_OWN_SIGNALS] * (version >= _SIGNALS_SINCE)
    rules = struct.pack(f"={len(handled)}Q", *handled)
    ruleset = _called(libc.syscall(_CREATE_RULESET, rules, len(rules), 0))
    try:
        for paths, allowed in ((read, _READ), (write, files), (fill, _FILLS)):
            for path in paths:
                _allow(libc, ruleset, path, allowed & files)
        _called(libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0))
        _called(libc.syscall(_RESTRICT_SELF, ruleset, 0))
    finally:
        os.close(ruleset)
    return True


def _allow(libc: ctypes.CDLL, ruleset: int, path: Path, allowed: int) -> None:
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        if not path.is_dir():
            allowed &= _OF_A_FILE
        _called(libc.syscall(_ADD_RULE, ruleset, _PATH_BENEATH, struct.pack("=Qi", allowed, place), 0))
    finally:
        os.close(place)


def _called(result: int) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), f"landlock: {os.strerror(ctypes.get_errno())}")
    return result
