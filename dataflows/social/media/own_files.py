"""A process that opens no file but its own: some to read, one folder to write into. Linux alone (Landlock).

Without it a decoder that is taken over could read keys and serve them as a picture, or write into what others made.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from dataflows.social.media.call_filter import forgo_privileges

_CREATE: Final = 444  # the same on every machine
_ADD: Final = 445
_RESTRICT: Final = 446
_ASK_VERSION: Final = 1
_BENEATH: Final = 1
_WRITE: Final = 1 << 1
_READ: Final = 1 << 2
_REMOVE: Final = 1 << 5
_MAKE: Final = 1 << 8
_ALL_CHANGES: Final = _WRITE | sum(1 << n for n in range(4, 13))  # removing and making things of any kind
_TRUNCATE: Final = 1 << 14
_TRUNCATE_SINCE: Final = 3
_SIGNALS_SINCE: Final = 6
_OWN_SIGNALS: Final = 0b11  # and no abstract sockets of others


class _Handled(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class _Rule(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("below", ctypes.c_int32))


def keep_to(read: Iterable[Path], written: Path) -> bool:
    """Reads files that are, or lie below, one of these, and writes into that folder alone, from now on.

    False where that cannot be: another system, or a kernel without it. Files that are open already stay open.
    Raises OSError where a path is not there.
    """
    if sys.platform != "linux":
        return False
    call = ctypes.CDLL(None, use_errno=True).syscall
    version = call(_CREATE, None, 0, _ASK_VERSION)
    if version <= 0 or not forgo_privileges():
        return False
    changes = _ALL_CHANGES | (_TRUNCATE if version >= _TRUNCATE_SINCE else 0)
    size = ctypes.sizeof(_Handled) if version >= _SIGNALS_SINCE else ctypes.sizeof(ctypes.c_uint64)
    rules = call(_CREATE, ctypes.byref(_Handled(changes | _READ, 0, _OWN_SIGNALS)), size, 0)
    if rules < 0:
        return False
    for path in read:
        _allow(call, rules, path, _READ)
    _allow(call, rules, written, _READ | changes & (_WRITE | _REMOVE | _MAKE | _TRUNCATE))
    return bool(call(_RESTRICT, rules, 0) == 0)


def _allow(call: ctypes._NamedFuncPointer, rules: int, path: Path, what: int) -> None:
    below = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        if call(_ADD, rules, _BENEATH, ctypes.byref(_Rule(what, below)), 0) != 0:
            raise OSError(ctypes.get_errno(), "no rule can be made", str(path))
    finally:
        os.close(below)
