"""Starts of processes of ours in tests: forked from a process of each worker that has imported their modules once.

A run starts hundreds of them, and each would import for a second. Of each kind the first start of a run is executed,
as every start outside tests is (commands of the shell are one kind in the gate, and one each in the proof); so is
whatever cannot be forked alike. Services of other packages have a server of their own. The workers of a run are forked,
too (``tests.xdist_worker``).
"""

from __future__ import annotations

import inspect
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from execnet.gateway_io import popen_bootstrapline

from compose.supervise.fork_server import Order
from compose.supervise.forking import ForkRefusedError, ForkServer
from tests import run_folder
from tests.gate import PROOF

_Executed: Final = subprocess.Popen
_GIVEN: Final = tuple(inspect.signature(_Executed._execute_child).parameters)[1:]
_ENDS: Final = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
_NOT_SET: Final = -1
_MILLRACE: Final = str(Path(sys.executable).with_name("millrace"))
_PACKAGES: Final = ("compose.services", "compose.simulator", "compose.supervise", "tests.faults", "tests.worlds")
_WORKER: Final = "tests.xdist_worker"
_EXECNETS_WORKER: Final = [sys.executable, "-u", "-c", popen_bootstrapline]
#: what tests import besides; the last reads what is imported by then
_OF_WORKERS: Final = ("hypothesis.stateful", "playwright.sync_api", "pytest", "tests.xdist_literals")
#: read while modules are imported: each value of it has a server of its own
_MODULES: Final = "MILLRACE_SERVICE_MODULES"
#: what these change in an environment is read before
_OF_PYTHON: Final = "PYTHON"


def install() -> None:
    """From here on ``subprocess`` starts processes of ours so, in this process."""
    subprocess.Popen = Popen  # type: ignore[misc]


class Popen(_Executed):
    """As the original, and its process is one as any other; only imports are saved."""

    def _execute_child(self, *given: Any) -> None:
        told = dict(zip(_GIVEN, given, strict=True))
        command = [os.fspath(word) for word in told["args"]] if isinstance(told["args"], list | tuple) else []
        environment = dict(os.environ if told["env"] is None else told["env"])
        forked = _forked(command, environment) if _is_plain(told) else None
        if forked is None:
            super()._execute_child(*given)
            return
        server, command = forked
        ends = {0: told["p2cread"], 1: told["c2pwrite"], 2: told["errwrite"]} | {n: n for n in told["pass_fds"]}
        descriptors = {number: number if end == _NOT_SET else end for number, end in ends.items()}
        order = Order(
            command=command,
            environment=environment,
            folder=os.fspath(told["cwd"] or Path.cwd()),
            descriptors=list(descriptors),
            leads_session=told["start_new_session"],
        )
        try:
            self.pid = server.fork(order, list(descriptors.values()))
        except ForkRefusedError:
            super()._execute_child(*given)
            return
        self._child_created = True
        self._close_pipe_fds(*(told[name] for name in _ENDS))


def begin_server(*program: str, **environment: str) -> ForkServer:
    """A server of all modules of ours, or another program that serves; it ends when this process does."""
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    command = [sys.executable, *(program or ("-m", "tests.fork_server")), str(there.fileno())]
    root = Path(__file__).parents[1]
    given = os.environ | environment
    process = _Executed(command, env=given, pass_fds=(there.fileno(),), start_new_session=True, cwd=root)
    there.close()
    process.returncode = 0  # nobody waits for it
    return ForkServer(here, process.pid)


_servers: Final[dict[str, ForkServer]] = {}


def use(server: ForkServer) -> None:
    """Starts of this process, of which there was none yet, are forked from this one."""
    _servers[""] = server


def _forked(command: list[str], environment: dict[str, str]) -> tuple[ForkServer, list[str]] | None:
    """From what it is forked, and what it then is; None: it is executed."""
    if command == _EXECNETS_WORKER:
        if _WORKER not in _servers:
            _servers[_WORKER] = begin_server("-m", "tests.fork_server", *_OF_WORKERS)
        return _servers[_WORKER], [sys.executable, "-m", _WORKER]
    kind = _kind(command)
    if kind is None or run_folder.next_number(f"started {kind}") == 0:
        return None
    modules = environment.get(_MODULES, "")
    if modules not in _servers:
        _servers[modules] = begin_server(**{_MODULES: modules})
    return _servers[modules], command if command[0] == sys.executable else [sys.executable, *command]


def end() -> None:
    """Ends the servers of this process, if there are any."""
    while _servers:
        _servers.popitem()[1].end()


def _kind(command: list[str]) -> str | None:
    """What sort of process of ours this starts; None: another program."""
    if command[:1] == [_MILLRACE]:
        return " ".join(["millrace", *command[1:2]]) if PROOF else "millrace"
    if command[:2] != [sys.executable, "-m"] or not command[2].startswith(_PACKAGES):
        return None
    return " ".join(command[2:4] if command[2] == "compose.services" else command[2:3])


def _is_plain(told: dict[str, Any]) -> bool:
    """Nothing is asked of its start that a fork from another process could not give."""
    unusual = [told[name] for name in ("preexec_fn", "executable", "shell", "startupinfo", "uid", "gid", "gids")]
    numbers = [told[name] for name in ("umask", "process_group")]
    before, after = os.environ, told["env"] if told["env"] is not None else os.environ
    changed = [name for name in {*before, *after} if before.get(name) != after.get(name)]
    return (
        not any(unusual)
        and all(number == _NOT_SET for number in numbers)
        and not any(name.startswith(_OF_PYTHON) for name in changed)
    )
