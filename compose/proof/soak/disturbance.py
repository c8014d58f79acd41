"""Kills every process, servers too, one after the other and several at once; freezes one of some kinds for a while.

What a killed server had acknowledged is there when it is back: it was written to the page cache, which outlives the
process (a power cut is another matter). A process is disturbed again only when all are whole. The next turn has another
order; the seed decides which.
"""

from __future__ import annotations

import asyncio
import signal
import time
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Final

from compose.proof import limits
from compose.proof.soak.outages import OWNER, Disturbance, Way, groups_of, ways_of
from compose.stack import processes
from compose.stack.errors import StackError
from compose.supervise.state import read_state

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Mapping, Sequence

    from compose.proof.kit.own_stack import OwnStack
    from compose.stack.processes import ProcessId
    from compose.supervise.state import ProcessState

#: what a killed sender of these held is sent again only when its lease is over: it is killed while there is time
_FIRST: Final = "merchant_webhooks"


class Disturber:
    """Disturbs one stack for as long as it is let."""

    def __init__(
        self,
        stack: OwnStack,
        chance: random.Random,
        steady: Mapping[str, asyncio.Lock],
        say: Callable[[str], None],
        *,
        frozen: Sequence[str] = (OWNER,),
    ) -> None:
        """``frozen``: what the names of processes that are frozen begin with.

        In the first turn one of each is frozen, in others one of one.
        """
        self._stack = stack
        self._chance = chance
        self._steady = steady  # by process: whoever holds the lock needs it alive
        self._say = say
        self._frozen = frozen
        self.done: list[Disturbance] = []

    async def disturb(self, until: float) -> None:
        """Turns until that moment; the first turn is always whole."""
        turn = 0
        while turn == 0 or time.monotonic() < until:
            for name, how in self._order(first=turn == 0):
                if turn and time.monotonic() > until:
                    return
                pause_s = self._chance.uniform(limits.SOAK_PAUSE_MIN_S, limits.SOAK_PAUSE_MAX_S)
                await asyncio.sleep(pause_s if time.monotonic() < until else limits.SOAK_PAUSE_MIN_S)
                group = dict(groups_of(self.there().values())).get(name, ())
                async with AsyncExitStack() as held:
                    for needed in group or (name,):
                        if (lock := self._steady.get(needed)) is not None:
                            await held.enter_async_context(lock)
                    await self._one(name, how, group)
            turn += 1

    def there(self) -> dict[str, ProcessState]:
        """Every process that can be disturbed, by name, as the supervisor last wrote it."""
        state = read_state(self._stack.settings.the_home())
        if state is None or not state.running():
            raise StackError(f"the stack in {self._stack.home} has ended")
        return {p.name: p for p in state.processes if ways_of(p)}

    def _order(self, *, first: bool) -> list[tuple[str, Way]]:
        there = self.there()
        steps = [(name, how) for name, process in there.items() for how in ways_of(process)]
        kinds = self._frozen if first else [self._chance.choice(self._frozen)]
        steps += [(self._chance.choice([name for name in there if name.startswith(kind)]), "frozen") for kind in kinds]
        steps += [(name, "killed together") for name, _ in groups_of(there.values())]
        self._chance.shuffle(steps)
        return sorted(steps, key=lambda step: not step[0].startswith(_FIRST)) if first else steps

    async def _one(self, name: str, how: Way, group: tuple[str, ...]) -> None:
        there, at = self.there(), time.monotonic()
        before = {one: _process(there[one], how) for one in group or (name,)}
        if how == "frozen":
            await _freeze(before[name])
        elif how == "shut down":
            processes.send(before[name], signal.SIGQUIT)
        else:
            _kill(*before.values())
        back = await self._whole({} if how == "frozen" else before)
        back_after_s = None if back is None else back - at
        disturbance = Disturbance(name=name, how=how, at_s=at, back_after_s=back_after_s, group=group)
        self.done.append(disturbance)
        self._say(str(disturbance))

    async def _whole(self, gone: Mapping[str, ProcessId]) -> float | None:
        """The moment when every process is ready and those that had to go are others; None past the bound."""
        within_s = limits.SOAK_BACK_WAIT_S if len(gone) <= 1 else limits.SOAK_ALL_BACK_WAIT_S
        ends_at = time.monotonic() + within_s
        while time.monotonic() < ends_at:
            await asyncio.sleep(limits.SOAK_POLL_MS / 1_000)
            there = self.there()
            are_others = all(there[name].process != process for name, process in gone.items())
            if are_others and all(p.condition == "ready" for p in there.values()):
                return time.monotonic()
        return None


def _process(state: ProcessState, how: Way) -> ProcessId:
    if state.process is None:
        raise StackError(f"{state.name} is not there to be {how}: {state.note or state.condition}")
    return state.process


def _kill(*gone: ProcessId) -> None:
    """With all their children, which a server would otherwise give time to say goodbye. All at the same moment."""
    for one in [one for process in gone for one in (process, *processes.descendants(process))]:
        processes.send(one, signal.SIGKILL)


async def _freeze(process: ProcessId) -> None:
    """Stands still for longer than a session lasts: when it wakes, others own what it believes to be its own.

    With its children: of a cache and of an ingress it is these that answer.
    """
    still = [process, *processes.descendants(process)]
    try:
        for one in still:
            processes.send(one, signal.SIGSTOP)
        await asyncio.sleep(limits.SOAK_FREEZE_MS / 1_000)
    finally:
        for one in still:
            processes.send(one, signal.SIGCONT)
