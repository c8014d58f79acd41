"""A filter of system calls, which nothing in a process can take off again. Linux alone.

It is made of rules, each of one call; what has none is as ever. Calls by another machine's convention end the process.
"""

from __future__ import annotations

import ctypes
import errno
import platform
import struct
import sys
from collections.abc import Sequence
from typing import Final, NamedTuple

_SET_NO_NEW_PRIVS: Final = 38
_SET_SECCOMP: Final = 22
_MODE_FILTER: Final = 2
_RETURN: Final = 0x06
_LOAD_WORD: Final = 0x20
_JUMP_EQUAL: Final = 0x15
_JUMP_AT_LEAST: Final = 0x35
_JUMP_ANY_BIT: Final = 0x45
_ALLOW: Final = 0x7FFF0000
_REFUSE: Final = 0x00050000
_KILL: Final = 0x80000000
_NUMBER_AT: Final = 0  # in what a filter reads
_MACHINE_AT: Final = 4
_FIRST_ARGUMENT_AT: Final = 16  # its lower half
_FOREIGN: Final = 0x40000000  # calls of another convention of the same machine, by which the same could be done
#: the machine as the kernel names it, and the place of its numbers in a rule
_MACHINES: Final = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}


class Refused(NamedTuple):
    """A call that is refused, unless its first argument is what it may be."""

    numbers: tuple[int | None, int | None]  # on x86_64 and on aarch64; None where there is no such call
    error: int = errno.EPERM
    but_zero: bool = False  # allowed where the argument is 0
    but_bits: int = 0  # allowed where the argument has any of these


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def refuse(rules: Sequence[Refused]) -> bool:
    """From now on; False where that cannot be: another system, or a kernel without filters."""
    if sys.platform != "linux" or platform.machine() not in _MACHINES:
        return False
    text = _program(*_MACHINES[platform.machine()], rules)
    program = _Program(len(text) // 8, text)
    prctl = ctypes.CDLL(None).prctl
    if prctl(_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:  # who could gain privileges may set no filter
        return False
    return bool(prctl(_SET_SECCOMP, _MODE_FILTER, ctypes.byref(program), 0, 0) == 0)


def _program(machine: int, column: int, rules: Sequence[Refused]) -> bytes:
    steps = [(_LOAD_WORD, 0, 0, _MACHINE_AT), (_JUMP_EQUAL, 1, 0, machine), (_RETURN, 0, 0, _KILL)]
    steps += [(_LOAD_WORD, 0, 0, _NUMBER_AT), (_JUMP_AT_LEAST, 0, 1, _FOREIGN)]
    steps += [(_RETURN, 0, 0, _REFUSE | errno.EPERM)]
    for rule in rules:
        if (number := rule.numbers[column]) is not None:
            verdict = _verdict(rule)
            steps += [(_JUMP_EQUAL, 0, len(verdict), number), *verdict]
    steps += [(_RETURN, 0, 0, _ALLOW)]
    return b"".join(struct.pack("=HBBI", *step) for step in steps)


def _verdict(rule: Refused) -> list[tuple[int, int, int, int]]:
    """Steps that end with an answer."""
    refuse_it = (_RETURN, 0, 0, _REFUSE | rule.error)
    if not rule.but_zero and not rule.but_bits:
        return [refuse_it]
    asks = (_JUMP_EQUAL, 0, 1, 0) if rule.but_zero else (_JUMP_ANY_BIT, 0, 1, rule.but_bits)
    return [(_LOAD_WORD, 0, 0, _FIRST_ARGUMENT_AT), asks, (_RETURN, 0, 0, _ALLOW), refuse_it]
