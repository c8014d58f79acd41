"""Kills every process of ours, one after the other, without warning, and freezes owners until others took their place.

A process is killed again only when all are whole. The next turn has another order; the seed decides which.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from compose.stack.errors import StackError
from compose.supervise.state import read_state
from schemas import limits

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Mapping

    from compose.demo.own_stack import OwnStack
    from compose.supervise.state import ProcessState

#: what a killed sender of these held is sent again only when its lease is over: it is killed while there is time
_FIRST: Final = "merchant_webhooks"
_FROZEN: Final = "owner"


@dataclass(frozen=True, slots=True, kw_only=True)
class Disturbance:
    """One process that was disturbed. ``back_after_s`` None: it did not come back in time."""

    name: str
    how: str  # killed | frozen
    at_s: float
    back_after_s: float | None

    def __str__(self) -> str:
        if self.back_after_s is None:
            return f"{self.name} {self.how}, did not come back"
        if self.how == "frozen":
            frozen_s = limits.SOAK_FREEZE_MS / 1_000
            return f"{self.name} frozen for {frozen_s:g} s, all ready {self.back_after_s:.1f} s later"
        return f"{self.name} killed, all ready after {self.back_after_s:.1f} s"


class Disturber:
    """Disturbs one stack for as long as it is let."""

    def __init__(
        self,
        stack: OwnStack,
        chance: random.Random,
        steady: Mapping[str, asyncio.Lock],
        say: Callable[[str], None],
    ) -> None:
        self._stack = stack
        self._chance = chance
        self._steady = steady  # by process: whoever holds the lock needs it alive
        self._say = say
        self._began = time.monotonic()
        self.done: list[Disturbance] = []

    async def disturb(self, until: float) -> None:
        """Turns until that moment; the first turn is always whole."""
        turn = 0
        while turn == 0 or time.monotonic() < until:
            for name, freeze in self._order(first=turn == 0):
                if turn and time.monotonic() > until:
                    return
                await asyncio.sleep(self._chance.uniform(limits.SOAK_PAUSE_MIN_S, limits.SOAK_PAUSE_MAX_S))
                lock = self._steady.get(name)
                if lock is None:
                    await self._one(name, freeze=freeze)
                else:
                    async with lock:
                        await self._one(name, freeze=freeze)
            turn += 1

    def _order(self, *, first: bool) -> list[tuple[str, bool]]:
        names = [p.name for p in self._processes().values()]
        steps = [(name, False) for name in names]
        steps.append((self._chance.choice([name for name in names if name.startswith(_FROZEN)]), True))
        self._chance.shuffle(steps)
        return sorted(steps, key=lambda step: not step[0].startswith(_FIRST)) if first else steps

    async def _one(self, name: str, *, freeze: bool) -> None:
        before, at = self._processes()[name], time.monotonic()
        if before.pid is None:
            raise StackError(f"{name} is not there to be killed: {before.note or before.condition}")
        if freeze:
            await _freeze(before.pid)
            back: float | None = await self._whole(name, None)
        else:
            os.kill(before.pid, signal.SIGKILL)
            back = await self._whole(name, before.pid)
        disturbance = Disturbance(
            name=name, how="frozen" if freeze else "killed", at_s=at - self._began, back_after_s=back
        )
        self.done.append(disturbance)
        self._say(str(disturbance))

    async def _whole(self, name: str, killed: int | None) -> float | None:
        """The seconds until every process is ready and the killed one is another one; None past the bound."""
        began = time.monotonic()
        while time.monotonic() - began < limits.SOAK_BACK_WAIT_S:
            await asyncio.sleep(limits.SOAK_POLL_MS / 1_000)
            there = self._processes()
            if there[name].pid != killed and all(p.condition == "ready" for p in there.values()):
                return time.monotonic() - began
        return None

    def _processes(self) -> dict[str, ProcessState]:
        state = read_state(self._stack.settings.the_home())
        if state is None or not state.running():
            raise StackError(f"the stack in {self._stack.home} has ended")
        return {p.name: p for p in state.processes if p.kind == "service"}


async def _freeze(pid: int) -> None:
    """Stands still for longer than a session lasts: when it wakes, others own what it believes to be its own."""
    os.kill(pid, signal.SIGSTOP)
    try:
        await asyncio.sleep(limits.SOAK_FREEZE_MS / 1_000)
    finally:
        os.kill(pid, signal.SIGCONT)
