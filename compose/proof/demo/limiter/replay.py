"""Asks three gateways what an access log asks, at a multiple of its speed, and lets the judge hear every answer.

Requests that share a counter are asked one after another, in the order of the log: then the oracle knows their order.
All others go on at once. A part of them is retried under the same identity: at once, as a client does that lost
patience, or after the answer; where the policies are exact at another gateway.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from compose.proof.demo.limiter.policies import Asked, asked_for
from compose.stack.ports import LOOPBACK
from limiter.frames.frame_client_async import AsyncFrameClient
from limiter.frames.frame_requests import Check, GatewayUnavailable
from limiter.frames.frames import DEGRADED

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from compose.proof.demo.limiter.access_log import AccessLog
    from compose.proof.demo.limiter.gateways import Gateways
    from compose.proof.demo.limiter.judge import Judge
    from limiter.frames.frames import Answer

AT_ONCE, AFTERWARDS = "at_once", "afterwards"
_SEED: Final = 5
_UNDER_WAY_MAX: Final = 256
_ATTEMPTS_MAX: Final = 20
_CLIENT_TIMEOUT_S: Final = 15.0  # more than two store calls of a gateway here
_PAUSE_S: Final = 0.05


class NotAnswered(Exception):
    """No gateway decided on a request."""


@dataclass
class Replay:
    """One pass over a log. ``unanswered``: attempts that the killed gateway left so; ``degraded``: asked again."""

    gateways: Gateways
    judge: Judge
    progress: Callable[[int], None]
    requests: int = 0
    retries: int = 0
    unanswered: int = 0
    degraded: int = 0
    lost: int = 0  # requests that nobody decided on
    _locks: dict[tuple[str, str], asyncio.Lock] = field(default_factory=dict)
    _clients: list[AsyncFrameClient] = field(default_factory=list)

    async def run(self, log: AccessLog, speed: float, half_way: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Every request of the log; ``half_way`` happens beside the traffic of the third quarter.

        It is over before the last quarter: on the slowest machine something is left for the later policies.
        """
        begin_s, began = log.visits[0].at_s, time.monotonic()
        room = asyncio.Semaphore(_UNDER_WAY_MAX)
        kinds = random.Random(_SEED)  # the same are retried every time
        async with AsyncExitStack() as leaving:
            for port in self.gateways.ports:
                client = AsyncFrameClient((LOOPBACK, port), timeout_s=_CLIENT_TIMEOUT_S)
                self._clients.append(await leaving.enter_async_context(client))
            change: asyncio.Task[None] | None = None
            async with asyncio.TaskGroup() as tasks:
                for number, visit in enumerate(log.visits):
                    await asyncio.sleep(max((visit.at_s - begin_s) / speed - (time.monotonic() - began), 0))
                    await room.acquire()
                    kind = kinds.choices(("", AT_ONCE, AFTERWARDS), (80, 10, 10))[0]
                    task = tasks.create_task(self._request(number, asked_for(visit), kind))
                    task.add_done_callback(lambda _: room.release())
                    if number == len(log.visits) // 2:
                        change = tasks.create_task(half_way())
                    if change is not None and number == len(log.visits) * 3 // 4:
                        await change

    async def _request(self, number: int, asked: Asked, kind: str) -> None:
        counters = self.judge.counters_of(asked)
        locks = [self._locks.setdefault((c.level.id_, c.values), asyncio.Lock()) for c in counters]
        async with AsyncExitStack() as held:
            for lock in locks:  # in the order of their names: no two requests wait for each other
                await held.enter_async_context(lock)
            try:
                await self._asked(number, asked, kind, is_leased=any(c.is_leased for c in counters))
            except NotAnswered:
                self.lost += 1
        self.requests += 1
        self.progress(self.requests)

    async def _asked(self, number: int, asked: Asked, kind: str, *, is_leased: bool) -> None:
        check = Check(*asked, hashlib.blake2b(str(number).encode(), digest_size=16).digest())
        first = self._next(number)
        places = [first]
        if kind == AT_ONCE:
            self.retries += 1
            places.append(first if is_leased else self._next(first + 1))
        began = _now_us()
        found = await asyncio.gather(*(self._answer(check, place) for place in places))
        place = found[0][1]  # a leased one that was taken by another gateway when its own was killed is not a retry
        was_charged = self._heard(asked, [answer for answer, at in found if not is_leased or at == place], began)
        if kind != AFTERWARDS or (is_leased and place not in self.gateways.alive):
            return
        self.retries += 1
        began = _now_us()
        answer, again = await self._answer(check, place if is_leased else self._next(place + 1))
        if is_leased and again != place:
            return  # its gateway was killed meanwhile: this one is another request to whoever took it
        self._heard(asked, [answer], began, was_charged=was_charged)

    def _heard(self, asked: Asked, answers: Sequence[Answer], began_us: int, *, was_charged: bool = False) -> bool:
        return self.judge.hear(asked, answers, asked_us=began_us, answered_us=_now_us(), was_charged=was_charged)

    async def _answer(self, check: Check, place: int) -> tuple[Answer, int]:
        """A decision of the store or of a lease, and who gave it: whoever fails is asked again, then the next one."""
        for _ in range(_ATTEMPTS_MAX):
            try:
                answer = (await self._clients[place].check_many([check]))[0]
            except GatewayUnavailable:
                self.unanswered += 1
                self._may_have_charged(check)
                place = self._next(place + 1)
                continue
            if not answer.flags & DEGRADED:
                return answer, place
            self.degraded += 1
            self._may_have_charged(check)
            await asyncio.sleep(_PAUSE_S)
        raise NotAnswered

    def _may_have_charged(self, check: Check) -> None:
        for counter in self.judge.counters_of(Asked(check.tenant, check.user, check.route, check.cost)):
            counter.unanswered += check.cost

    def _next(self, number: int) -> int:
        count = len(self.gateways.ports)
        return next(n % count for n in range(number, number + count) if n % count in self.gateways.alive)


def _now_us() -> int:
    return time.time_ns() // 1_000
