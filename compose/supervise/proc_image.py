"""What /proc says of a process that was forked and not executed: a command line and environment of its own.

``ps`` names it, and ``compose.stack.processes.marked`` finds it by the mark of its stack, as any other process. Source:
PR_SET_MM_MAP of prctl(2), which needs no privilege; a kernel without it (CONFIG_CHECKPOINT_RESTORE) refuses.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_PR_SET_MM: Final = 35
_PR_SET_MM_MAP: Final = 14
_NO_FILE: Final = 0xFFFFFFFF
#: fields of /proc/<pid>/stat by their number in proc(5), which are told again as they are
_KEPT: Final = {
    "start_code": 26,
    "end_code": 27,
    "start_data": 45,
    "end_data": 46,
    "start_brk": 47,
    "start_stack": 28,
}
_AFTER_NAME: Final = 3  # the number of the first field after the name


class _Map(ctypes.Structure):
    """``struct prctl_mm_map`` of linux/prctl.h."""

    _fields_ = (
        *((name, ctypes.c_uint64) for name in ("start_code", "end_code", "start_data", "end_data", "start_brk", "brk")),
        *((name, ctypes.c_uint64) for name in ("start_stack", "arg_start", "arg_end", "env_start", "env_end", "auxv")),
        ("auxv_size", ctypes.c_uint32),
        ("exe_fd", ctypes.c_uint32),
    )


#: the kernel reads from it as long as the process is there, which is longer than the interpreter
_keep: Final = ctypes.pythonapi.Py_IncRef


def show(command: Sequence[str], environment: Mapping[str, str]) -> None:
    """From now on this process is listed so; raises ``NotImplementedError`` where the kernel does not offer it."""
    words = b"".join(os.fsencode(word) + b"\0" for word in command)
    variables = b"".join(os.fsencode(f"{name}={value}") + b"\0" for name, value in environment.items())
    text = ctypes.create_string_buffer(words + variables, len(words) + len(variables))
    begin = ctypes.addressof(text)
    libc = ctypes.CDLL(None, use_errno=True)
    libc.sbrk.restype = ctypes.c_void_p
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    wanted = _Map(
        **{name: int(fields[number - _AFTER_NAME]) for name, number in _KEPT.items()},
        brk=libc.sbrk(0),
        arg_start=begin,
        arg_end=begin + len(words),
        env_start=begin + len(words),
        env_end=begin + len(text),
        exe_fd=_NO_FILE,
    )
    if libc.prctl(_PR_SET_MM, _PR_SET_MM_MAP, ctypes.byref(wanted), ctypes.c_ulong(ctypes.sizeof(wanted)), 0) != 0:
        raise NotImplementedError(f"this kernel does not set what /proc shows: {os.strerror(ctypes.get_errno())}")
    _keep(ctypes.py_object(text))
