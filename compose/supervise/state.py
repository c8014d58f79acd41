"""What a stack is doing, in one file of its home: written by the supervisor only, read by everybody else."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Literal

from compose.stack.home import read_json, write_private
from compose.stack.processes import ProcessId

if TYPE_CHECKING:
    from compose.stack.home import Home

#: the exit status of a supervisor in whose home another one runs
ANOTHER_RUNS: Final = 3
#: the mark of every process of one run; see ``compose.stack.processes.marked``
STACK_ID_VARIABLE: Final = "MILLRACE_STACK_ID"

#: degraded: it serves, but for a process that was there and is not now, or answers nothing
Phase = Literal["starting", "ready", "degraded", "stopping", "stopped", "failed"]
Kind = Literal["supervisor", "server", "service"]
#: silent: it runs, and has answered nothing for long
Condition = Literal["starting", "ready", "silent", "restarting", "stopped"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessState:
    """One process of the stack as ``millrace status`` shows it."""

    name: str
    kind: Kind
    pid: int | None = None
    started: int = 0  # with the pid the identity of the process
    condition: Condition = "starting"
    address: str | None = None
    ops_url: str | None = None
    restarts: int = 0
    note: str = ""

    @property
    def process(self) -> ProcessId | None:
        """The process itself, if one was started."""
        return None if self.pid is None else ProcessId(self.pid, self.started)


@dataclass(frozen=True, slots=True, kw_only=True)
class StackState:
    """The whole stack at one moment."""

    stack_id: str  # also in the environment of every process that belongs to this run
    phase: Phase
    servers_only: bool = False
    error: str = ""
    processes: list[ProcessState] = field(default_factory=list)

    @property
    def supervisor(self) -> ProcessId | None:
        """The process that keeps this file."""
        return next((state.process for state in self.processes if state.name == "supervisor"), None)

    def running(self) -> bool:
        """Whether the supervisor that wrote this still runs."""
        supervisor = self.supervisor
        return supervisor is not None and supervisor.alive()

    def write(self, home: Home) -> None:
        """Replaces the file at once."""
        write_private(home.state_file, json.dumps(asdict(self), indent=1))

    def line(self) -> bytes:
        """The state as one line, for the guard."""
        return json.dumps(asdict(self)).encode() + b"\n"


def read_state(home: Home) -> StackState | None:
    """The last written state; None before the first start. It may be of a stack that was killed: ask ``running``."""
    found = read_json(home.state_file)
    return None if found is None else _state(found)


def state_of_line(line: bytes) -> StackState:
    """The reverse of ``StackState.line``."""
    return _state(json.loads(line))


def _state(found: dict[str, Any]) -> StackState:
    processes = [ProcessState(**state) for state in found.pop("processes")]
    return replace(StackState(**found), processes=processes)
