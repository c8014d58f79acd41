"""Who disturbs a stack: each kind that is to stand still does so in the first turn, with all its children."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from compose.proof import limits
from compose.proof.soak.disturbance import Disturber, _freeze
from compose.proof.soak.social_run import _kinds
from compose.stack import processes
from compose.supervise.state import ProcessState
from tests.eventually import becomes

if TYPE_CHECKING:
    import pytest

NAMES = ["kafka", "media_cache", "social_fanout-0", "social_fanout-1", "ingress-0", "tenancy_owner-0"]


def test_each_kind_stands_still_once_in_the_first_turn_and_one_of_them_in_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    there = {name: ProcessState(name=name, kind="service", pid=1) for name in NAMES}
    monkeypatch.setattr(Disturber, "there", lambda _: there)
    kinds = _kinds([{"name": name} for name in NAMES])
    assert kinds == ["ingress", "media_cache", "social_fanout"]
    stack: Any = None  # is asked for nothing but what is there
    disturber = Disturber(stack, random.Random(3), {}, lambda _: None, frozen=kinds)
    first, second = ([name for name, how in disturber._order(first=n == 0) if how == "frozen"] for n in range(2))
    assert _kinds([{"name": name} for name in first]) == kinds
    assert (len(first), len(second)) == (3, 1)


def test_who_stands_still_does_so_with_its_children_and_all_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SOAK_FREEZE_MS", 60_000)
    child = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'print(input())'])"
    with subprocess.Popen([sys.executable, "-c", child], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        found = processes.identify(parent.pid)
        becomes(lambda: len(processes.descendants(found)), 1)
        both = [found, *processes.descendants(found)]

        async def frozen() -> None:
            freezing = asyncio.create_task(_freeze(found))
            await asyncio.sleep(0)
            await asyncio.to_thread(becomes, lambda: {_state(one.pid) for one in both}, {"T"})
            freezing.cancel()

        asyncio.run(frozen())
        out, _ = parent.communicate(b"went on\n", timeout=60)
    assert out == b"went on\n"


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
