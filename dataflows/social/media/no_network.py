"""A process without a network: it, and whatever it starts, opens no socket from now on. Linux alone.

A decoder that can be talked into fetching (a playlist that names an address) reaches nobody. The kernel refuses by a
filter of system calls, which nothing in the process can take off again.
"""

from __future__ import annotations

import ctypes
import errno
import platform
import struct
import sys
from typing import Final

_SET_NO_NEW_PRIVS: Final = 38
_SET_SECCOMP: Final = 22
_MODE_FILTER: Final = 2
_RETURN: Final = 0x06
_LOAD_WORD: Final = 0x20
_JUMP_EQUAL: Final = 0x15
_JUMP_AT_LEAST: Final = 0x35
_ALLOW: Final = 0x7FFF0000
_REFUSE: Final = 0x00050000 | errno.EPERM
_KILL: Final = 0x80000000
_NUMBER_AT: Final = 0  # in what a filter reads
_MACHINE_AT: Final = 4
_FOREIGN: Final = 0x40000000  # calls of another convention of the same machine, by which the same could be done
_IO_URING_SETUP: Final = 425  # makes sockets by another way
#: the machine as the kernel names it, and the numbers of socket and socketpair there
_MACHINES: Final = {"x86_64": (0xC000003E, (41, 53)), "aarch64": (0xC00000B7, (198, 199))}


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def forgo() -> bool:
    """No socket is opened from now on; False where that cannot be: another system, or a kernel without filters."""
    if sys.platform != "linux" or platform.machine() not in _MACHINES:
        return False
    text = _program(*_MACHINES[platform.machine()])
    program = _Program(len(text) // 8, text)
    prctl = ctypes.CDLL(None).prctl
    if prctl(_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:  # who could gain privileges may set no filter
        return False
    return bool(prctl(_SET_SECCOMP, _MODE_FILTER, ctypes.byref(program), 0, 0) == 0)


def _program(machine: int, sockets: tuple[int, ...]) -> bytes:
    """Of another machine's convention: the end. What makes sockets: refused. All else: as ever."""
    refused = (*sockets, _IO_URING_SETUP)
    steps = [(_LOAD_WORD, 0, 0, _MACHINE_AT), (_JUMP_EQUAL, 1, 0, machine), (_RETURN, 0, 0, _KILL)]
    steps += [(_LOAD_WORD, 0, 0, _NUMBER_AT), (_JUMP_AT_LEAST, len(refused) + 1, 0, _FOREIGN)]
    steps += [(_JUMP_EQUAL, len(refused) - n, 0, number) for n, number in enumerate(refused)]
    steps += [(_RETURN, 0, 0, _ALLOW), (_RETURN, 0, 0, _REFUSE)]
    return b"".join(struct.pack("=HBBI", *step) for step in steps)
