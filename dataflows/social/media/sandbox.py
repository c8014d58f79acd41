"""Decodes media, each in a process of its own, which can hurt nobody: ``python -m dataflows.social.media.sandbox``.

It imports what decodes pictures once, and then forks for each medium that is ordered: a fork costs milliseconds, an
interpreter with its imports a tenth of a second. It reads no medium itself and has one thread. The fork gives up all
that it does not need (memory, processor time, a network, other processes, other files) before the decoder sees a byte,
and ends with ``UNDECODABLE`` where the decoder found that the bytes are not what they were declared to be, with
``EITHER`` where the bytes or the machine may be the reason, and with any other status where the machine is.
"""

from __future__ import annotations

import contextlib
import errno
import gc
import os
import resource
import select
import signal
import sys
from importlib import import_module
from pathlib import Path
from typing import Final, NoReturn

import msgspec

from dataflows.social.media import no_network, no_processes
from schemas.social import limits
from sinks import landlock

UNDECODABLE: Final = os.EX_DATAERR
EITHER: Final = os.EX_OSERR
_FAILED: Final = 1
_KILLED_FIRST: Final = Path("/proc/self/oom_score_adj")
_FILES: Final = 32
_KILLED_AFTER_S: Final = 5  # by a signal that says nothing: at the same bound the kernel sends it first
_ORDERS: Final = 0  # the descriptor that they come by
_OF_THE_MACHINE: Final = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.ENOENT, errno.EMFILE, errno.ENFILE}
)
_OF_EITHER: Final = frozenset({errno.ENOMEM, errno.EAGAIN, errno.EIO})  # FFmpeg says EIO of what is cut, too
#: what a decoder may be imported from, and the libraries that it is made of
_CODE: Final = (
    *(Path(place) for place in (sys.prefix, sys.base_prefix, "/usr", "/lib", "/lib64", "/etc/ld.so.cache")),
    Path(__file__).parents[2],
)


class Order(msgspec.Struct):
    """One medium: renditions of the source into the folder."""

    source: str
    folder: str
    mime: str


class Answer(msgspec.Struct):
    """How the process of a medium ended, and the list of renditions that it told."""

    status: int
    said: bytes


def main() -> None:
    """Carries out one order after the other, each a line, until there are no more."""
    bound()
    import_module("dataflows.social.media.images").be_ready()
    gc.freeze()  # no collection writes into what is imported: its pages stay shared
    while line := sys.stdin.buffer.readline():
        answer = carried_out(msgspec.json.decode(line, type=Order))
        sys.stdout.buffer.write(msgspec.json.encode(answer) + b"\n")
        sys.stdout.buffer.flush()


def carried_out(order: Order) -> Answer:
    """The end of a child of its own. Where nobody waits for it any more the child is killed, and this process ends."""
    told, tells = os.pipe()
    ours = os.getpid()
    try:
        child = os.fork()
    except OSError:
        os.close(tells)
        os.close(told)
        return Answer(_FAILED, b"")
    if not child:
        os.close(told)
        _decode(order, tells, ours)
    os.close(tells)
    said = b""
    while len(said) <= limits.MEDIA_MANIFEST_LENGTH_MAX and (piece := _more(child, told)):
        said += piece
    os.close(told)
    if len(said) > limits.MEDIA_MANIFEST_LENGTH_MAX:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return Answer(-signal.SIGXFSZ, b"")  # as whoever writes too much
    return Answer(os.waitstatus_to_exitcode(_ended(child)), said)


def _more(child: int, told: int) -> bytes:
    ready, _, _ = select.select([told, _ORDERS], [], [])
    if _ORDERS in ready:
        _give_up(child)
    return os.read(told, limits.MEDIA_MANIFEST_LENGTH_MAX)


def _ended(child: int) -> int:
    """It says no more, and ends soon, if nothing in it has another mind."""
    while not (found := os.waitpid(child, os.WNOHANG))[0]:
        if select.select([_ORDERS], [], [], limits.MEDIA_SANDBOX_LOOK_S)[0]:
            _give_up(child)
    return found[1]


def _give_up(child: int) -> NoReturn:
    """No order comes while one is carried out: whoever asked has gone, or wants no more."""
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os._exit(0)


def _decode(order: Order, tells: int, parent: int) -> NoReturn:
    """In the child: within bounds first. Whatever goes wrong is an exit status."""
    status = _FAILED
    try:
        confine(order, parent)
        decoder = import_module(f"dataflows.social.media.{'images' if _is_image(order) else 'videos'}")
        made = decoder.renditions(Path(order.source), Path(order.folder), order.mime)
        os.write(tells, msgspec.json.encode(made))
        status = 0
    except Exception as error:  # noqa: BLE001 - a decoder raises anything
        status = status_of(error)
    finally:
        os._exit(status)


def _is_image(order: Order) -> bool:
    return order.mime.startswith("image/")


def status_of(error: Exception) -> int:
    """What the end of a decoder says: of the bytes, of the machine, or of either. A bomb is out of memory, too."""
    number = error.errno if isinstance(error, OSError) else None
    if isinstance(error, MemoryError) or number in _OF_EITHER:
        return EITHER
    return _FAILED if isinstance(error, ImportError) or number in _OF_THE_MACHINE else UNDECODABLE


def bound() -> None:
    """No more memory and files than a medium needs, and no network; nothing is left of a crash."""
    for kind, most in (
        (resource.RLIMIT_AS, limits.MEDIA_RENDERING_MEMORY_BYTES),
        (resource.RLIMIT_FSIZE, limits.MEDIA_RENDERING_FILE_BYTES),
        (resource.RLIMIT_NOFILE, _FILES),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(kind, (most, most))
    no_network.forgo()


def confine(order: Order, parent: int) -> None:
    """In the process of one medium: no more time than it needs, no order or answer, no other process, no other file.

    Where the machine has no memory left, it is the first that the kernel ends.
    """
    with contextlib.suppress(OSError):  # Linux alone
        _KILLED_FIRST.write_text("1000")
    no_processes.end_with(parent)
    os.dup2(2, _ORDERS)
    os.dup2(2, 1)
    cpu_s = limits.MEDIA_RENDERING_CPU_S if _is_image(order) else limits.MEDIA_VIDEO_CPU_S
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s + _KILLED_AFTER_S))
    landlock.confine(read=[*_CODE, Path(order.source)], fill=[Path(order.folder)])
    no_processes.forgo()


if __name__ == "__main__":
    main()
