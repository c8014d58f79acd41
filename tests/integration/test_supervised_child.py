"""A supervised process, with small real processes in the place of servers."""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING

import pytest

from compose import limits
from compose.stack import processes
from compose.stack.errors import StackError
from compose.supervise import child as child_module
from compose.supervise.child import Child, ChildSpec
from tests.eventually import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

SERVES = "import time; time.sleep(60)"
DIES = "import sys; print('out of cheese', file=sys.stderr); sys.exit(3)"


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., Child]]:
    made: list[Child] = []

    def make_child(
        program: str,
        unhealthy: Callable[[], str | None] = lambda: None,
        timeout_s: float = 10,
        restart_timeout_s: float | None = None,
        silent: Callable[[], str | None] | None = None,
        *,
        left_alone: bool = False,
    ) -> Child:
        spec = ChildSpec(
            name="tried",
            kind="service",
            command=lambda: [sys.executable, "-S", "-c", program],
            environment={},
            unhealthy=unhealthy,
            stop_signal=signal.SIGTERM,
            start_timeout_s=timeout_s,
            restart_timeout_s=restart_timeout_s,
            log=tmp_path / "tried.log",
            folder=tmp_path,
            silent=silent,
            left_alone=left_alone,
        )
        made.append(Child(spec))
        return made[-1]

    yield make_child
    for child in made:
        child.end()


def first_start(child: Child) -> None:
    child.start()
    child.wait_ready(lambda: False)


def test_a_process_is_ready_when_its_check_says_so(make: Callable[..., Child]) -> None:
    answers = iter(["not yet", "not yet"])
    child = make(SERVES, lambda: next(answers, None))
    first_start(child)
    assert (child.condition, child.note, child.restarts) == ("ready", "", 0)
    assert not child.check()


def test_one_that_dies_at_its_first_start_is_an_error_with_its_last_words(make: Callable[..., Child]) -> None:
    child = make(DIES, lambda: "refused")
    with pytest.raises(StackError, match=r"tried does not start: ended with 3: out of cheese \(log: .*tried\.log\)"):
        first_start(child)


def test_one_that_a_signal_ends_at_its_first_start_is_started_again(
    make: Callable[..., Child], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It said nothing of its settings, as one does that ends by itself; a few times, then that is an error too."""
    monkeypatch.setattr(limits, "RESTART_BACKOFF_FIRST_S", 0.01)
    monkeypatch.setattr(limits, "RESTART_BACKOFF_MAX_S", 0.02)
    crashes = "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"
    seen = tmp_path / "seen"
    once = (
        f"import pathlib; seen = pathlib.Path({str(seen)!r})\nif not seen.exists(): seen.touch(); {crashes}\n{SERVES}"
    )
    child = make(once, lambda: None if child.restarts else "refused")
    first_start(child)
    assert (child.condition, child.restarts) == ("ready", 1)
    with pytest.raises(StackError, match="tried does not start: killed by SIGSEGV"):
        first_start(make(crashes, lambda: "refused"))


def test_one_that_never_serves_is_an_error_with_the_reason(make: Callable[..., Child]) -> None:
    child = make(SERVES, lambda: "port closed", timeout_s=0.2)
    with pytest.raises(StackError, match=r"tried does not start: not ready within 0 s: port closed"):
        first_start(child)


def test_one_that_is_killed_is_started_again(make: Callable[..., Child]) -> None:
    child = make(SERVES)
    first_start(child)
    first = child.process
    assert first is not None
    child.send(signal.SIGKILL)
    eventually(lambda: child.check() and child.condition == "restarting", what="the death is seen")
    assert child.note.startswith("killed by SIGKILL")
    eventually(lambda: child.check() and child.condition == "ready", what="it runs again")
    assert child.process != first
    assert (child.restarts, child.note) == (1, "")


def test_a_signal_without_a_name_stops_no_supervisor(make: Callable[..., Child]) -> None:
    child = make(SERVES)
    first_start(child)
    assert child.process is not None
    os.kill(child.process.pid, signal.SIGRTMIN + 3)
    eventually(lambda: child.check() and child.condition == "restarting", what="the death is seen")
    assert child.note.startswith(f"killed by signal {signal.SIGRTMIN + 3}: ")


def test_a_restart_may_take_longer_than_the_first_start(
    make: Callable[..., Child], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A database that recovers is left alone: ended because it is slow, it would begin anew for ever. Status says so."""
    answers: list[str | None] = [None]
    child = make(SERVES, lambda: answers[0], timeout_s=5, restart_timeout_s=1_000)
    first_start(child)
    answers[0] = "the database system is starting up"
    child.send(signal.SIGKILL)
    eventually(lambda: child.check() and child.condition == "starting", what="it is started again")
    again, real = child.process, child_module.time.monotonic
    monkeypatch.setattr(child_module.time, "monotonic", lambda: real() + 900)
    child.check()
    assert (child.condition, child.process) == ("starting", again)
    assert child.note == "not ready yet: the database system is starting up"
    monkeypatch.setattr(child_module.time, "monotonic", lambda: real() + 2_000)
    child.check()
    assert child.condition == "restarting"
    assert child.note.startswith("not ready within 1000 s: ")


def test_one_that_keeps_dying_is_started_again_without_end(
    make: Callable[..., Child], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Past the bound of a minute at the slowest pace, and its note says so: what makes it die may end at any time."""
    for name in ("RESTART_BACKOFF_FIRST_S", "RESTART_PAUSE_S"):
        monkeypatch.setattr(limits, name, 0.0)
    child = make(DIES, lambda: "refused")
    child.start()

    def died_often() -> bool:
        child.check()
        return child.restarts > limits.RESTARTS_PER_MINUTE_MAX + 2 and child.condition == "restarting"

    eventually(died_often, within_s=30, what="it is started again")
    assert "times in a minute, is started again every 0.0 s: ended with 3: out of cheese" in child.note


def test_one_that_dies_often_is_started_at_the_slowest_pace(
    make: Callable[..., Child], monkeypatch: pytest.MonkeyPatch
) -> None:
    moments = [0.0]
    monkeypatch.setattr(child_module.time, "monotonic", lambda: moments[0])
    child = make(SERVES)
    for _ in range(limits.RESTARTS_PER_MINUTE_MAX + 1):
        child.plan_restart("because")
    assert child.start_again_at == limits.RESTART_PAUSE_S
    moments[0] = 61.0
    child.plan_restart("because")
    assert child.start_again_at == 61.0 + limits.RESTART_BACKOFF_FIRST_S


def test_one_that_cannot_be_started_now_is_tried_again(make: Callable[..., Child], tmp_path: Path) -> None:
    """A disk without room for its log, a machine without memory: no reason to stop everything else."""
    child = make(SERVES)
    first_start(child)
    log = child.spec.log
    log.unlink()
    log.mkdir()
    child.send(signal.SIGKILL)
    eventually(lambda: child.check() and child.note.startswith("cannot be started"), what="the start failed")
    log.rmdir()
    eventually(lambda: child.check() and child.condition == "ready", what="it runs again")


def test_one_that_froze_is_killed_and_started_again(
    make: Callable[..., Child], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is asked for ever; one question without an answer is no death, and an answer makes up for those before."""
    for name in ("LIVENESS_INTERVAL_S", "LIVENESS_AGAIN_S"):
        monkeypatch.setattr(limits, name, 0.0)
    silence: list[str | None] = [None]
    child = make(SERVES, silent=lambda: silence[0])
    first_start(child)
    first = child.process
    for _ in range(3):
        silence[0] = "timed out"
        for _ in range(limits.LIVENESS_SILENCES_MAX - 1):
            child.check()
        silence[0] = None
        child.check()
    assert (child.condition, child.process) == ("ready", first)
    silence[0] = "timed out"
    for _ in range(limits.LIVENESS_SILENCES_MAX):
        child.check()
    assert child.note == f"frozen: {limits.LIVENESS_SILENCES_MAX} questions had no answer (timed out)"
    assert first is not None
    assert not first.alive()
    silence[0] = None
    eventually(lambda: child.check() and child.condition == "ready", what="it runs again")
    assert child.restarts == 1


def test_one_that_is_left_alone_is_told_to_be_silent_until_it_answers(
    make: Callable[..., Child], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a server that recovers or waits for its disk; one that dies meanwhile is started again."""
    for name in ("LIVENESS_INTERVAL_S", "LIVENESS_AGAIN_S", "RESTART_BACKOFF_FIRST_S"):
        monkeypatch.setattr(limits, name, 0.0)
    silence: list[str | None] = ["timed out"]
    child = make(SERVES, silent=lambda: silence[0], left_alone=True)
    first_start(child)
    first = child.process
    told = [child.check() for _ in range(limits.LIVENESS_SILENCES_MAX + 2)]
    assert told == [False] * (limits.LIVENESS_SILENCES_MAX - 1) + [True, False, False]
    assert (child.condition, child.note) == ("silent", "has not answered for long: timed out")
    assert child.is_due()
    silence[0] = None
    assert child.check()
    assert (child.condition, child.note, child.restarts, child.process) == ("ready", "", 0, first)
    silence[0] = "timed out"
    eventually(lambda: child.check() and child.condition == "silent", what="it is silent again")
    child.send(signal.SIGKILL)
    eventually(lambda: child.check() and child.condition == "ready", what="it runs again")
    assert child.restarts == 1


def test_one_that_waits_to_be_asked_costs_nothing(make: Callable[..., Child]) -> None:
    asked: list[None] = []
    child = make(SERVES, silent=lambda: asked.append(None))
    first_start(child)
    assert not child.is_due()
    child.check()
    assert asked == []


def test_the_pause_before_a_restart_grows_to_its_bound(
    make: Callable[..., Child], monkeypatch: pytest.MonkeyPatch
) -> None:
    moments = [0.0]
    monkeypatch.setattr(child_module.time, "monotonic", lambda: moments[0])
    child = make(SERVES)
    pauses = []
    for _ in range(limits.RESTARTS_PER_MINUTE_MAX):
        child.plan_restart("because")
        pauses.append(child.start_again_at - moments[0])
    assert pauses == sorted(pauses)
    assert (pauses[0], pauses[-1]) == (limits.RESTART_BACKOFF_FIRST_S, limits.RESTART_BACKOFF_MAX_S)


def test_one_that_cannot_be_killed_stops_nothing_else(
    make: Callable[..., Child], monkeypatch: pytest.MonkeyPatch
) -> None:
    child = make(SERVES)
    first_start(child)
    with monkeypatch.context() as without_signals:
        without_signals.setattr(limits, "HEALTH_CHECK_TIMEOUT_S", 0.0)
        without_signals.setattr(child_module.processes, "send", lambda *_: None)
        without_signals.setattr(child_module.processes, "kill_session", lambda *_: None)
        child.end()
    assert child.process is not None
    assert child.process.alive()


def test_what_it_leaves_behind_is_gone_when_it_was_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is killed, and waited for: on a busy machine who looked at once found it there."""
    waited: list[processes.ProcessId] = []
    wait_gone = processes.wait_gone

    def noted(some: Sequence[processes.ProcessId], within_s: float) -> list[processes.ProcessId]:
        waited.extend(some)
        return wait_gone(some, within_s)

    monkeypatch.setattr(processes, "wait_gone", noted)
    log = tmp_path / "log"
    command = ["/bin/sh", "-c", "sleep 600 & echo $!; wait"]
    child = processes.spawn(command, environment={}, log=log, folder=tmp_path)
    left_behind = processes.identify(int(eventually(lambda: log.read_text().strip())))
    processes.stop([(processes.identify(child.pid), signal.SIGTERM)], 10)
    assert left_behind in waited
    assert not left_behind.alive()
    child.wait(10)
