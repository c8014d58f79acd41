"""A process that has imported the modules of our services, and forks them: a start costs milliseconds of imports.

Nothing is inherited but imported code. The server has one thread and opens nothing, and it never reads what it is asked
for (a process between it and the child does): no environment of one child is in the memory of another. After
Chromium's zygote and multiprocessing's fork server. ``compose.supervise.forking`` is the side that asks.
"""

from __future__ import annotations

import atexit
import fcntl
import gc
import importlib
import os
import runpy
import select
import signal
import socket
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

import msgspec

from compose import limits
from compose.supervise import proc_image

if TYPE_CHECKING:
    from collections.abc import Sequence

_NOBODY_ASKS: Final = 3  # exit status of the process between


class Order(msgspec.Struct, frozen=True, array_like=True):
    """What a child is to be. The descriptors that it gets under these numbers come with the message."""

    command: list[str]  # the interpreter, then ``-m module`` or a script, then its arguments
    environment: dict[str, str]
    folder: str
    descriptors: list[int]
    leads_session: bool


def serve(line: socket.socket, modules: Sequence[str]) -> NoReturn:
    """Imports the modules, then forks whatever is asked for; ends when nobody holds the other end.

    Each child runs its command above this call and then ends the interpreter.
    """
    keep_only(0, 1, 2, line.fileno())
    try:
        proc_image.show([sys.executable, "-m", __name__], os.environ)
    except NotImplementedError as error:
        sys.exit(f"nothing is forked here: {error}")
    signal.pthread_sigmask(signal.SIG_SETMASK, ())  # whoever started this may have blocked some
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # read as numpy is imported, which else starts a thread
    gc.disable()
    for module in modules:
        importlib.import_module(module)
    gc.freeze()  # no collection writes into what is imported: its pages stay shared
    while (order := _fork_once(line)) is None:
        pass
    line.detach()  # its number is another file's now
    _run(order)


def keep_only(*descriptors: int) -> None:
    """Closes every other descriptor of this process."""
    for number in [int(entry.name) for entry in Path("/proc/self/fd").iterdir()]:
        if number not in descriptors:
            os.closerange(number, number + 1)  # the one that listed them is closed already


def _fork_once(line: socket.socket) -> Order | None:
    """In the server, None, with one child more; in the child its order, once its pid is known to its parent."""
    select.select([line], [], [])
    if len(list(Path("/proc/self/task").iterdir())) > 1:
        sys.exit("nothing is forked here: a module started a thread as it was imported")
    pid_read, pid_write = os.pipe()
    go_read, go_write = os.pipe()
    between = os.fork()
    if not between:
        os.close(go_write)
        return _be_between(line, pid_write, go_read)
    os.close(pid_write)
    os.close(go_read)
    _, status = os.waitpid(between, 0)  # from here on the child's parent is who asked
    if os.waitstatus_to_exitcode(status) == _NOBODY_ASKS:
        os._exit(0)
    pid = os.read(pid_read, limits.FORK_ANSWER_BYTES_MAX)
    try:
        line.send(pid or b"0")
        if pid:
            os.write(go_write, b".")
    except BrokenPipeError:
        os._exit(0)
    finally:
        os.close(pid_read)
        os.close(go_write)
    return None


def _be_between(line: socket.socket, pid_write: int, go_read: int) -> Order:
    """Reads the order, leaves a child that becomes what it says, and ends; returns in the child alone."""
    try:
        content, received, flags, _ = socket.recv_fds(line, limits.FORK_ORDER_BYTES_MAX, limits.FORK_DESCRIPTORS_MAX)
        if not content:
            os._exit(_NOBODY_ASKS)
        if flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC) or os.fork():
            os._exit(0)
    except OSError:
        os._exit(1)
    os.write(pid_write, str(os.getpid()).encode())
    if not os.read(go_read, 1):
        os._exit(1)  # nobody was told of this process
    order = msgspec.msgpack.decode(content, type=Order)
    above = max(order.descriptors) + 1
    spare = [fcntl.fcntl(descriptor, fcntl.F_DUPFD, above) for descriptor in received]
    for descriptor, number in zip(spare, order.descriptors, strict=True):
        os.dup2(descriptor, number)
    keep_only(*order.descriptors)
    return order


def _run(order: Order) -> NoReturn:
    """Makes this process what was ordered, and ends with it."""
    if order.leads_session:
        os.setsid()
    os.chdir(order.folder)
    os.environ.clear()
    os.environ.update(order.environment)
    time.tzset()
    proc_image.show(order.command, order.environment)
    gc.enable()
    try:
        _become(*order.command[1:])
    except SystemExit as end:
        _end(end.code)
    _end(None)


def _become(program: str, *arguments: str) -> None:
    if program == "-m":
        module, *given = arguments
        sys.modules.pop(module, None)  # runpy would warn that it was imported: it runs as __main__
        sys.argv = [module, *given]
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    else:
        sys.argv = [program, *arguments]
        runpy.run_path(program, run_name="__main__")


def _end(code: object) -> NoReturn:
    """Ends as the interpreter would, but takes nothing apart, as multiprocessing does with what it forked.

    Threads are waited for, exit functions called, and streams flushed. To take apart all that was imported would copy
    each page of it first: a tenth of a second of a core.
    """
    if code is not None and not isinstance(code, int):
        print(code, file=sys.stderr, flush=True)
    threading._shutdown()  # type: ignore[attr-defined]  # noqa: SLF001 - nothing public waits for threads and pools
    atexit._run_exitfuncs()  # noqa: SLF001 - nor calls these
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # nobody reads any more, or it is closed
            stream.flush()
    os._exit(code & 0xFF if isinstance(code, int) else code is not None)
