"""Starts processes of ours by forking a server that has imported their modules (``compose.supervise.fork_server``).

What is started is a process as any other: a child of who asked, who takes its exit status, with its own session,
environment, folder, descriptors and command line in /proc. Where a fork is refused, or the server was killed, the same
command is executed instead.
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Final

import msgspec

from compose import limits
from compose.stack import processes
from compose.stack.processes import ChildProcess
from compose.supervise import fork_server
from compose.supervise.fork_server import Order

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_PR_SET_CHILD_SUBREAPER: Final = 36
_STANDARD: Final = [0, 1, 2]


class ForkRefusedError(RuntimeError):
    """The fork server is gone or cannot fork: execute the command instead."""


class ForkServer:
    """A fork server as its parent sees it; any thread may ask."""

    def __init__(self, line: socket.socket, pid: int) -> None:
        self.process = processes.identify(pid)
        self._line = line
        self._line.settimeout(limits.FORK_TIMEOUT_S)
        self._asking = Lock()

    def spawn(self, command: Sequence[str], *, environment: Mapping[str, str], log: Path, folder: Path) -> ChildProcess:
        """As ``processes.spawn``, but forked; executed where that is refused."""
        with processes.end_of(log) as output, Path(os.devnull).open("rb") as nothing:
            order = Order(list(command), {**os.environ, **environment}, str(folder), _STANDARD, leads_session=True)
            try:
                return ChildProcess(self.fork(order, [nothing.fileno(), output.fileno(), output.fileno()]))
            except ForkRefusedError:
                return processes.spawn(command, environment=environment, log=log, folder=folder)

    def fork(self, order: Order, descriptors: Sequence[int]) -> int:
        """The pid of a new child of this process; raises ``ForkRefusedError``, and then there is none."""
        try:
            content = msgspec.msgpack.encode(order)
        except UnicodeEncodeError as error:
            raise ForkRefusedError from error
        if len(content) > limits.FORK_ORDER_BYTES_MAX:
            raise ForkRefusedError
        answer = None
        with self._asking, _adopting():
            try:
                socket.send_fds(self._line, [content], descriptors)
                answer = self._line.recv(limits.FORK_ANSWER_BYTES_MAX)
            except OSError as error:
                raise ForkRefusedError from error
            finally:
                if answer is None:  # what came later would be taken for the answer to another order
                    self._line.close()
        if not answer or not int(answer):
            raise ForkRefusedError
        return int(answer)

    def end(self) -> None:
        """Ends the server; what it forked goes on."""
        self._line.close()
        processes.send(self.process, signal.SIGKILL)
        os.waitpid(self.process.pid, 0)


@contextmanager
def _adopting() -> Iterator[None]:
    """Meanwhile a process whose parent ends becomes a child of this one, as the forked one does: see prctl(2)."""
    libc = ctypes.CDLL(None)
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        yield
    finally:
        libc.prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def start(modules: Sequence[str], environment: Mapping[str, str]) -> ForkServer:
    """Forks this process into a server of these modules; it and /proc have ``environment`` besides this process' own.

    Only for a process that has one thread, no connection and no handler of signals yet.
    """
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pid = os.fork()
    if pid:
        there.close()
        return ForkServer(here, pid)
    os.setsid()
    here.close()
    os.environ.update(environment)
    return fork_server.serve(there, modules)
