"""Processes by identity: a pid together with its start time, so that a recycled pid is never signalled.

Every process of the stack leads its own session; stopping it stops what it started too.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from compose import limits as compose_limits
from sinks import limits as sinks_limits

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from typing import BinaryIO

_STATE_FIELD = 0  # of /proc/<pid>/stat after the name: the state letter
_PARENT_FIELD = 1  # and the pid of its parent
_START_TIME_FIELD = 19  # and the start time in clock ticks since boot


@dataclass(frozen=True, slots=True)
class ProcessId:
    """One process for all time: its pid and when it began."""

    pid: int
    started: int

    def alive(self) -> bool:
        """True while this very process runs; a zombie or another process with its pid does not count."""
        stat = _stat(self.pid)
        return stat is not None and stat[1] == self.started and stat[0] not in "ZX"

    def age_s(self) -> float:
        """How long ago it began."""
        return time.clock_gettime(time.CLOCK_BOOTTIME) - self.started / os.sysconf("SC_CLK_TCK")


def identify(pid: int) -> ProcessId:
    """The identity of a running process; raises ``ProcessLookupError`` when it is gone."""
    stat = _stat(pid)
    if stat is None:
        raise ProcessLookupError(pid)
    return ProcessId(pid, stat[1])


def _stat(pid: int) -> tuple[str, int] | None:
    fields = _fields(pid)
    return None if fields is None else (fields[_STATE_FIELD], int(fields[_START_TIME_FIELD]))


def _fields(pid: int) -> list[str] | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return text.rpartition(")")[2].split()


@dataclass(slots=True)
class ChildProcess:
    """A child of this process, which may outlive it. For one thread at a time."""

    pid: int
    _status: int | None = None

    def poll(self) -> int | None:
        """Its exit status, below 0 the signal that ended it; None while it runs."""
        if self._status is None:
            ended, status = os.waitpid(self.pid, os.WNOHANG)
            if ended:
                self._status = os.waitstatus_to_exitcode(status)
        return self._status

    def wait(self, within_s: float) -> int:
        """Its exit status once it ended; raises ``TimeoutError`` when it still runs after that."""
        deadline = time.monotonic() + within_s
        while (status := self.poll()) is None:
            if time.monotonic() > deadline:
                raise TimeoutError(f"process {self.pid} runs on after {within_s} s")
            time.sleep(sinks_limits.HEALTH_POLL_INTERVAL_S)
        return status


def spawn(
    command: Sequence[str],
    *,
    environment: Mapping[str, str],
    log: Path,
    folder: Path,
    keep: Sequence[int] = (),
    without: Collection[str] = (),
) -> ChildProcess:
    """Starts a session of its own whose output goes to the end of ``log``; only ``keep`` stays open in it.

    Its environment is ours, but for the variables that it is ``without``, and then ``environment``.
    """
    with end_of(log) as output:
        handle = subprocess.Popen(
            command,
            env={**{name: value for name, value in os.environ.items() if name not in without}, **environment},
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            pass_fds=keep,
        )
    handle.returncode = 0  # its status is not Popen's to take, nor its end Popen's to wait for
    return ChildProcess(handle.pid)


def end_of(log: Path) -> BinaryIO:
    """The log, to be written at its end; one that became too long is turned over first."""
    if log.exists() and log.stat().st_size > compose_limits.LOG_BYTES_MAX:
        log.replace(log.with_suffix(".log.1"))
    return log.open("ab")


def send(process: ProcessId, number: signal.Signals) -> None:
    """Signals this process if it still is the one that was identified."""
    if process.alive():
        try:
            os.kill(process.pid, number)
        except ProcessLookupError:
            return


def wait_gone(processes: Sequence[ProcessId], within_s: float) -> list[ProcessId]:
    """Waits for all of them to end; returns those that still run afterwards."""
    deadline = time.monotonic() + within_s
    left = [process for process in processes if process.alive()]
    while left and time.monotonic() < deadline:
        time.sleep(sinks_limits.HEALTH_POLL_INTERVAL_S)
        left = [process for process in left if process.alive()]
    return left


def kill_session(process: ProcessId) -> list[ProcessId]:
    """Ends whatever the session of this process left behind, by the pids of its members and no other: these."""
    leader = _stat(process.pid)
    if leader is not None and leader[1] != process.started:
        return []  # the pid was recycled, which the kernel allows only once the session had no member left
    members = _session_members(process.pid)
    for member in members:
        send(member, signal.SIGKILL)
    return members


def descendants(*roots: ProcessId) -> list[ProcessId]:
    """Children of these processes, theirs and so on: also those that lead sessions of their own, as Postgres's do."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (fields := _fields(int(entry.name))) is not None:
            children.setdefault(int(fields[_PARENT_FIELD]), []).append(int(entry.name))
    found: list[ProcessId] = []
    wanted = [root.pid for root in roots]
    while wanted:
        for pid in children.pop(wanted.pop(), []):
            if (stat := _stat(pid)) is not None:
                found.append(ProcessId(pid, stat[1]))
                wanted.append(pid)
    return found


def _session_members(session: int) -> list[ProcessId]:
    members = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            if os.getsid(int(entry.name)) == session:
                members.append(identify(int(entry.name)))
        except (ProcessLookupError, PermissionError):
            continue
    return members


def marked(stack_id: str) -> list[ProcessId]:
    """Every process of this user that carries the stack's id in its environment."""
    found = []
    mark = f"={stack_id}\0".encode()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            if mark in (entry / "environ").read_bytes():
                found.append(identify(int(entry.name)))
        except OSError:
            continue
    return found


def stop(processes: Sequence[tuple[ProcessId, signal.Signals]], within_s: float) -> list[int]:
    """Ends all of them and their sessions: the polite signal, a bounded wait, then KILL. Returns the killed pids."""
    for process, polite in processes:
        send(process, polite)
    stubborn = wait_gone([process for process, _ in processes], within_s)
    left_behind = [member for process, _ in processes for member in kill_session(process)]
    wait_gone([*stubborn, *left_behind], compose_limits.HEALTH_CHECK_TIMEOUT_S)
    return [process.pid for process in stubborn]


def last_line(log: Path) -> str:
    """The last line with words in a log, for an error message."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - compose_limits.LOG_TAIL_BYTES_MAX))
            lines = [line.strip() for line in file.read().decode(errors="replace").splitlines()]
    except FileNotFoundError:
        return "no output"
    return next((line for line in reversed(lines) if line), "no output")
