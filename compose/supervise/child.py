"""One supervised process: started, asked for ever whether it lives, and started again without end at a bounded pace."""

from __future__ import annotations

import contextlib
import signal
import time
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from compose import limits as compose_limits
from compose.stack import processes
from compose.stack.errors import StackError
from compose.supervise.state import Condition, Kind, ProcessState
from sinks import limits as sinks_limits

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from compose.stack.processes import ChildProcess, ProcessId
    from compose.supervise.forking import ForkServer

_MINUTE_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildSpec:
    """What to run, how to know that it serves, and how to end it.

    ``silent`` is asked of one that serves: None when it answers, else why not. One that does not answer for long is
    started again, unless it is ``left_alone``, as a server is that recovers or waits for its disk: that is told.
    """

    name: str
    kind: Kind
    command: Callable[[], Sequence[str]]
    environment: Mapping[str, str]
    unhealthy: Callable[[], str | None]
    stop_signal: signal.Signals
    start_timeout_s: float
    log: Path
    folder: Path
    restart_timeout_s: float | None = None  # of later starts, where they take longer than the first
    address: str | None = None
    ops_url: str | None = None
    silent: Callable[[], str | None] | None = None
    left_alone: bool = False
    fork_server: ForkServer | None = None  # None: executed


@dataclass(slots=True)
class Child:
    """A process and its history. Used by one thread at a time."""

    spec: ChildSpec
    condition: Condition = "starting"
    note: str = ""
    process: ProcessId | None = None
    restarts: int = 0
    _handle: ChildProcess | None = None
    _was_killed: bool = False  # by a signal, and is not started again yet
    _started_at: float = 0.0
    start_again_at: float = 0.0
    _silences: int = 0  # questions in a row that had no answer
    _ask_again_at: float = 0.0
    _recent: deque[float] = field(default_factory=deque)

    def start(self) -> None:
        """Starts the process; whether it serves is asked with ``check``."""
        spec = self.spec
        spawn = spec.fork_server.spawn if spec.fork_server else processes.spawn
        self._handle = spawn(spec.command(), environment=spec.environment, log=spec.log, folder=spec.folder)
        self.process = processes.identify(self._handle.pid)
        self._started_at = time.monotonic()
        self._was_killed = False
        self.condition = "starting"

    def is_due(self) -> bool:
        """Whether ``check`` would find something out; costs no wait, where ``check`` may wait for an answer."""
        if self.condition == "restarting":
            return time.monotonic() >= self.start_again_at
        has_ended = self._handle is not None and self._handle.poll() is not None
        return has_ended or self.condition == "starting" or self._is_to_be_asked()

    def _is_to_be_asked(self) -> bool:
        serves = self.condition in {"ready", "silent"}
        return serves and self.spec.silent is not None and time.monotonic() >= self._ask_again_at

    def check(self) -> bool:
        """Moves the condition on by what is seen now; True when something changed."""
        before = (self.condition, self.note, self.restarts)
        if self.condition == "restarting":
            if time.monotonic() >= self.start_again_at:
                self.restarts += 1
                self._start_again()
        elif self.condition in {"starting", "ready", "silent"}:
            self._look()
        return (self.condition, self.note, self.restarts) != before

    def _start_again(self) -> None:
        """A disk without room or a machine without memory may refuse a process now and start it later."""
        self.note = ""
        try:
            self.start()
        except OSError as error:
            self.plan_restart(f"cannot be started: {error}")

    def _look(self) -> None:
        code = None if self._handle is None else self._handle.poll()
        if code is not None:
            self._died(code)
        elif self.condition == "starting":
            self._look_whether_ready()
        elif self.spec.silent is not None and self._is_to_be_asked():
            self._look_whether_alive(self.spec.silent())

    def _look_whether_ready(self) -> None:
        reason, within_s = self.spec.unhealthy(), self.spec.start_timeout_s
        if self.restarts and self.spec.restart_timeout_s is not None:
            within_s = self.spec.restart_timeout_s
        if reason is None:
            self.condition, self.note = "ready", ""
            self._silences, self._ask_again_at = 0, time.monotonic() + compose_limits.LIVENESS_INTERVAL_S
        elif time.monotonic() - self._started_at > within_s:
            self.end()
            self.plan_restart(f"not ready within {within_s:.0f} s: {reason}")
        elif self.restarts:
            self.note = f"not ready yet: {reason}"

    def _look_whether_alive(self, silence: str | None) -> None:
        """Many questions in a row without an answer: a busy machine is slow to answer, a frozen process never does.

        They are counted, not timed: a supervisor that stood still itself has asked nothing meanwhile.
        """
        if silence is None:
            self.condition, self.note = "ready", ""
            self._silences, self._ask_again_at = 0, time.monotonic() + compose_limits.LIVENESS_INTERVAL_S
            return
        self._silences, self._ask_again_at = self._silences + 1, time.monotonic() + compose_limits.LIVENESS_AGAIN_S
        if self._silences < compose_limits.LIVENESS_SILENCES_MAX:
            return
        if self.spec.left_alone:
            self.condition, self.note = "silent", f"has not answered for long: {silence}"
        else:
            self.end()
            self.plan_restart(f"frozen: {self._silences} questions had no answer ({silence})")

    def _died(self, code: int) -> None:
        self.end()
        self._was_killed = code < 0
        how = f"killed by {_signal_name(-code)}" if code < 0 else f"ended with {code}"
        if code != -signal.SIGKILL:  # it had no chance to say why
            how += f": {processes.last_line(self.spec.log)}"
        self.plan_restart(f"{how} (log: {self.spec.log})")

    def plan_restart(self, reason: str) -> None:
        """Starts it again after a pause that doubles up to its bound. It never ends: what made it die may end too.

        One that dies more often than the bound of a minute is started at the slowest pace, and its note says so.
        """
        now = time.monotonic()
        self._recent.append(now)
        while self._recent and now - self._recent[0] > _MINUTE_S:
            self._recent.popleft()
        deaths = len(self._recent)
        pause = min(compose_limits.RESTART_BACKOFF_MAX_S, compose_limits.RESTART_BACKOFF_FIRST_S * 2 ** (deaths - 1))
        self.note = reason
        if deaths > compose_limits.RESTARTS_PER_MINUTE_MAX:
            pause = compose_limits.RESTART_PAUSE_S
            self.note = f"died {deaths} times in a minute, is started again every {pause} s: {reason}"
        self.condition = "restarting"
        self.start_again_at = now + pause

    def wait_ready(self, stopping: Callable[[], bool]) -> None:
        """Waits until it serves for the first time; ending meanwhile is a ``StackError``, not a restart.

        One that a signal ended said nothing of its settings: it is started again, a few times.
        """
        while True:
            self.check()
            if self.condition == "ready":
                return
            if stopping():
                raise StackError("stopped while it was starting")
            may_restart = self._was_killed and self.restarts < compose_limits.FIRST_START_KILLED_MAX
            if self.condition != "starting" and not may_restart:
                raise StackError(f"{self.spec.name} does not start: {self.note or self.spec.unhealthy()}")
            time.sleep(sinks_limits.HEALTH_POLL_INTERVAL_S)

    def end(self) -> None:
        """Ends it and its session at once."""
        if self.process is not None:
            processes.send(self.process, signal.SIGKILL)
            processes.kill_session(self.process)
        if self._handle is not None:
            # One that waits for a dead disk ends when the disk answers; the others go on meanwhile.
            with contextlib.suppress(TimeoutError):
                self._handle.wait(compose_limits.HEALTH_CHECK_TIMEOUT_S)

    def send(self, number: signal.Signals) -> None:
        """Signals this process, if it still runs."""
        if self.process is not None:
            processes.send(self.process, number)

    def reap(self) -> None:
        """Takes the exit status of a process that was stopped, so that no zombie stays."""
        if self._handle is not None:
            self._handle.poll()

    def state(self) -> ProcessState:
        """What the state file says about it."""
        return ProcessState(
            name=self.spec.name,
            kind=self.spec.kind,
            pid=self.process.pid if self.process else None,
            started=self.process.started if self.process else 0,
            condition=self.condition,
            address=self.spec.address,
            ops_url=self.spec.ops_url,
            restarts=self.restarts,
            note=self.note,
        )


def _signal_name(number: int) -> str:
    """Real-time signals have none but the first and the last."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
