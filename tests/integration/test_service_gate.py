"""Services that load while the servers start: they go on at the gate's byte, and end without one."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from compose.services.gate import Gate
from compose.stack.processes import spawn
from tests.eventually import patient

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

WAITS = "from compose.services.gate import pass_gate; pass_gate(); print('through', flush=True)"


@pytest.fixture
def gate() -> Iterator[Gate]:
    made = Gate()
    yield made
    made.close()


def waiting(gate: Gate, folder: Path, number: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", WAITS]
    log = folder / f"{number}.log"
    return spawn(command, environment=gate.environment(), log=log, folder=folder, keep=(gate.read_end,))


def test_each_waits_for_its_byte_and_all_go_on(gate: Gate, tmp_path: Path) -> None:
    children = [waiting(gate, tmp_path, number) for number in range(2)]
    with pytest.raises(subprocess.TimeoutExpired):
        children[0].wait(timeout=0.3)
    gate.open(len(children))
    assert [child.wait(timeout=patient(20)) for child in children] == [0, 0]
    assert [(tmp_path / f"{number}.log").read_text() for number in range(2)] == ["through\n"] * 2


def test_a_gate_that_closes_unopened_ends_them(tmp_path: Path) -> None:
    gate = Gate()
    child = waiting(gate, tmp_path, 0)
    gate.close()
    assert child.wait(timeout=patient(20)) != 0
    assert "the supervisor ended before the servers were ready" in (tmp_path / "0.log").read_text()


def test_without_a_gate_there_is_nothing_to_wait_for() -> None:
    assert subprocess.run([sys.executable, "-c", WAITS], capture_output=True, check=True).stdout == b"through\n"
