"""All processes of a stack stand still for a copy, also those that its state does not name, and all go on after it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from compose.backup.frozen import frozen
from compose.stack import processes
from compose.stack.errors import StackError
from compose.supervise.state import STACK_ID_VARIABLE, ProcessState, StackState
from tests.eventually import becomes

if TYPE_CHECKING:
    from collections.abc import Iterator

_SERVES = "import sys; print('up', flush=True); sys.stdin.read()"


class Stack:
    """Processes that are marked as a stack's, and its state, which names some of them."""

    def __init__(self, until: ExitStack) -> None:
        self._until = until
        self.stack_id = uuid.uuid4().hex
        self.named: list[ProcessState] = []

    def start(self, name: str = "") -> int:
        """A process; without a name the state does not tell of it."""
        pid = self._until.enter_context(_process(self.stack_id))
        if name:
            found = processes.identify(pid)
            self.named.append(ProcessState(name=name, kind="service", pid=pid, started=found.started))
        return pid

    def look(self) -> StackState:
        """What the supervisor wrote."""
        return StackState(stack_id=self.stack_id, phase="ready", processes=list(self.named))


@contextmanager
def _process(stack_id: str) -> Iterator[int]:
    environment = {**os.environ, STACK_ID_VARIABLE: stack_id}
    command = [sys.executable, "-c", _SERVES]
    with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        process.stdout.readline()
        try:
            yield process.pid
        finally:
            process.kill()


@pytest.fixture
def stack() -> Iterator[Stack]:
    with ExitStack() as until:
        yield Stack(until)


def stands(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def test_who_was_started_after_the_last_look_stands_too_and_postgres_goes_on(stack: Stack) -> None:
    pids = [stack.start("owner-0"), stack.start()]
    database = stack.start("postgres")
    supervisor = stack.start("supervisor")
    with frozen(stack.look):
        assert [stands(pid) for pid in (*pids, database, supervisor)] == [True, True, False, False]
    for pid in pids:
        becomes(lambda one=pid: stands(one), False)


@pytest.mark.parametrize("name", ["", "owner-1"])
def test_a_process_that_is_started_meanwhile_makes_the_copy_worth_nothing(stack: Stack, name: str) -> None:
    first = stack.start("owner-0")
    with pytest.raises(StackError, match="was started while all stood still"), frozen(stack.look):
        stack.start(name)
    becomes(lambda: stands(first), False)


def test_all_go_on_when_the_copier_is_killed(stack: Stack) -> None:
    pid = stack.start("owner-0")
    entry = stack.named[0]
    code = (
        "import os, signal; from compose.backup.frozen import frozen; from compose.supervise.state import *\n"
        f"entry = ProcessState(name='owner-0', kind='service', pid={pid}, started={entry.started})\n"
        f"with frozen(lambda: StackState(stack_id={stack.stack_id!r}, phase='ready', processes=[entry])):\n"
        f"    print(open('/proc/{pid}/stat').read().rpartition(')')[2].split()[0], flush=True)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)"
    )
    killed = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert (killed.returncode, killed.stdout) == (-signal.SIGKILL, b"T\n")
    becomes(lambda: stands(pid), False)
