"""Clients of the limiter that never give up: one identity, asked at one gateway, at two, or after hanging up.

Which question comes next, and how it is asked, the seed decides.
"""

from __future__ import annotations

import asyncio
import random
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from compose.proof import limits as proof_limits
from compose.proof.soak.limiter.ledger import COST_MAX, QUOTAS, Conversation, Quota
from limiter.frames.frame_client_async import AsyncFrameClient
from limiter.frames.frame_fleet import AsyncFrameFleet
from limiter.frames.frame_requests import Check, GatewayUnavailable
from limiter.frames.frames import DEGRADED, IDENTITY_BYTES, INVALID, REUSED
from schemas.limiter import limits as limiter_limits

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from limiter.frames.frames import Answer

#: plain: as clients do. elsewhere: asked again at another gateway. at once: at two at the same time.
#: hung up: asked at one gateway, not listened to, then asked as clients do
How = Literal["plain", "elsewhere", "at once", "hung up"]
_HOWS: Final[tuple[tuple[How, int], ...]] = (("plain", 70), ("elsewhere", 14), ("at once", 8), ("hung up", 8))
#: how often each quota is asked for, and by how many users: a key has to be busy to be leased
SHARES: Final[dict[Quota, tuple[float, int]]] = {"exact": (0.25, 8), "leased": (0.6, 3), "open": (0.15, 4)}
ROUTE: Final = "/soak"
_ALMOST: Final = 0.9


class Question(NamedTuple):
    """What is asked."""

    quota: Quota
    user: str
    cost: int
    identity: bytes
    how: How
    gateways: tuple[int, int]  # two different ones, for those that are asked by themselves

    @property
    def check(self) -> Check:
        """As gateways get it: the tenant is named as its quota is."""
        return Check(self.quota, self.user, ROUTE, self.cost, self.identity)


def draw(seed: int, number: int, gateways: int) -> Question:
    """The question of this number: the same for the same seed."""
    chance = random.Random(f"{seed}:{number}")
    first, second = chance.sample(range(gateways), 2)
    quota = chance.choices(QUOTAS, [SHARES[quota][0] for quota in QUOTAS])[0]
    users = SHARES[quota][1]
    return Question(
        quota=quota,
        user=f"u{chance.choices(range(users), [1 / (n + 1) for n in range(users)])[0]}",  # some are hotter
        cost=chance.randint(1, COST_MAX),
        identity=chance.randbytes(IDENTITY_BYTES),
        how=chance.choices([how for how, _ in _HOWS], [share for _, share in _HOWS])[0],
        gateways=(first, second),
    )


class Clients:
    """All clients of one run; on one event loop."""

    def __init__(self, sockets: Sequence[str]) -> None:
        timeout_s = proof_limits.SOAK_CHECK_TIMEOUT_S
        self._fleet = AsyncFrameFleet(sockets, timeout_s=timeout_s)
        self.gateways = [AsyncFrameClient(path, timeout_s=timeout_s) for path in sockets]

    def close(self) -> None:
        """Hangs up everywhere."""
        self._fleet.close()
        for gateway in self.gateways:
            gateway.close()

    async def converse(self, question: Question) -> Conversation | str:
        """Everything that was heard under one identity; a text when there was no definite answer in time."""
        asking = _Asking(question.check)
        one, other = (self.gateways[n] for n in question.gateways)
        sent_s = time.monotonic()
        if question.how == "at once":
            await asyncio.gather(asking.until_told(one.check_many), asking.until_told(other.check_many))
        else:
            if question.how == "hung up":
                await asking.hang_up(one)
            await asking.until_told(self._fleet.check_many)
            if question.how == "elsewhere":
                await asking.until_told(other.check_many)
        if asking.problem:
            return f"{question.quota}:{question.user}, {question.how}: {asking.problem}"
        counter = (question.quota, question.user)
        told_s = time.monotonic()
        return Conversation(counter, question.cost, asking.answers, sent_s, told_s, asking.doubts)


class _Asking:
    """One check until each of its ways has a definite answer."""

    def __init__(self, check: Check) -> None:
        self._check = check
        self._ends_at = time.monotonic() + proof_limits.SOAK_PERSISTENCE_S
        self.answers: list[Answer] = []
        self.doubts = 0
        self.problem = ""

    async def until_told(self, ask: Callable[[Sequence[Check]], Awaitable[list[Answer]]]) -> None:
        """What was refused without the store is asked again: it may have been charged."""
        why = ""
        while time.monotonic() < self._ends_at:
            asked_s = time.monotonic()
            try:
                answer = (await ask([self._check]))[0]
            except GatewayUnavailable as error:
                why = str(error)
                if _was_slow(asked_s):  # else they did not listen, or a kill cut it off, which the ledger knows
                    self.doubts = limiter_limits.LIMIT_GATEWAY_PROCESSES_MAX  # any of them may have charged it
            else:
                self.doubts += _was_slow(asked_s)  # one was given up
                if answer.flags & (INVALID | REUSED):
                    self.problem = "answered as invalid"
                    return
                if answer.allowed or not answer.flags & DEGRADED:
                    self.answers.append(answer)
                    return
                why = "refused without the store"
                self.doubts += 1
            await asyncio.sleep(proof_limits.SOAK_POLL_MS / 1_000)
        if not self.answers:
            self.problem = f"no definite answer for {proof_limits.SOAK_PERSISTENCE_S} s: {why}"

    async def hang_up(self, gateway: AsyncFrameClient) -> None:
        """Asks, and does not wait."""
        self.doubts += 1
        asking = asyncio.ensure_future(gateway.check_many([self._check]))
        for _ in range(3):  # turns of the loop, in which the question leaves
            await asyncio.sleep(0)
        asking.cancel()
        with suppress(asyncio.CancelledError, GatewayUnavailable):
            await asking


def _was_slow(asked_s: float) -> bool:
    """Whether a try may have run into its time limit, a little early by another clock."""
    return time.monotonic() - asked_s > proof_limits.SOAK_CHECK_TIMEOUT_S * _ALMOST
