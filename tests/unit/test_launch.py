"""Two that start the stack of one home in the same moment."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING

from compose.settings.settings import Settings
from compose.stack import processes
from compose.supervise import __main__ as supervise
from compose.supervise import launch
from compose.supervise.state import ANOTHER_RUNS, ProcessState, StackState

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_a_supervisor_that_finds_another_ends_with_a_status_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    home = Settings(home=tmp_path).the_home()
    home.prepare()
    monkeypatch.setenv("MILLRACE_HOME", str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["supervise", "--servers-only"])
    with home.lock_file.open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert supervise.main() == ANOTHER_RUNS
    assert "another supervisor runs in" in capsys.readouterr().err


def test_who_is_second_waits_for_the_stack_of_who_was_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first one has written nothing yet when the second one's supervisor finds its lock."""
    settings = Settings(home=tmp_path)
    home = settings.the_home()
    ours = processes.identify(os.getpid())
    first = ProcessState(name="supervisor", kind="supervisor", pid=ours.pid, started=ours.started)
    started: list[int] = []

    def spawn(*_: object, **__: object) -> SimpleNamespace:
        ended = subprocess.Popen([sys.executable, "-S", "-c", ""])
        ended.wait()
        if started:
            StackState(stack_id="first", phase="ready", processes=[first]).write(home)
        started.append(ended.pid)
        return SimpleNamespace(pid=ended.pid, poll=lambda: ANOTHER_RUNS)

    monkeypatch.setattr(processes, "spawn", spawn)
    monkeypatch.setattr(processes, "identify", lambda pid: processes.ProcessId(pid, 1))
    state = launch.up(settings)
    assert (state.stack_id, len(started)) == ("first", 2)
    assert not launch.is_started_here(state)
