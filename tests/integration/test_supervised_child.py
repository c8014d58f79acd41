"""A supervised process, with small real processes in the place of servers."""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING

import pytest

from compose.stack.errors import StackError
from compose.supervise import child as child_module
from compose.supervise.child import Child, ChildSpec
from schemas import limits
from tests.eventually import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
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


def test_one_that_keeps_dying_is_given_up(make: Callable[..., Child], monkeypatch: pytest.MonkeyPatch) -> None:
    """Past the bound of restarts in a minute it is left alone, with the reason in its note."""
    monkeypatch.setattr(limits, "RESTART_BACKOFF_FIRST_S", 0.0)
    child = make(DIES, lambda: "refused")
    child.start()

    def given_up() -> bool:
        child.check()
        return child.condition == "failed"

    eventually(given_up, within_s=30, what="it is given up")
    assert child.restarts == limits.RESTARTS_PER_MINUTE_MAX
    assert child.note.startswith(f"given up after {limits.RESTARTS_PER_MINUTE_MAX} restarts in a minute: ended with 3")
    assert not child.check()


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
