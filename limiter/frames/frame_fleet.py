"""Clients of several gateways: a key is asked at one of them, and at the next when that one does not answer.

Every client orders the gateways of a key in the same way (rendezvous hash of key and address, whatever order the
addresses are given in), so its leases and identities are in one place, and a gateway that joins or leaves moves its
own keys only. An identity is fixed before the first question and goes along to the next gateway: what ``exact`` and
``durable`` policies count consumes once at all of them. What leases of two gateways paid under it is charged twice
until the stream gives one back (``refunds.md``): so the same gateway is asked again first, on a new connection.
"""

from __future__ import annotations

import asyncio
import os
import time
from typing import TYPE_CHECKING

import xxhash

from limiter.frames.frame_client import FrameClient
from limiter.frames.frame_client_async import AsyncFrameClient
from limiter.frames.frame_requests import GatewayUnavailable
from limiter.frames.frames import IDENTITY_BYTES
from schemas.limiter import limits

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from types import TracebackType
    from typing import Self

    from limiter.frames.frame_requests import Address, Check
    from limiter.frames.frames import Answer

_Part = tuple[int, list[int], frozenset[int]]  # gateway; places of checks; gateways that were tried, this one too


class Spread:
    """Which gateways a key is asked at, in their order; who did not answer lately is asked last."""

    def __init__(self, addresses: Sequence[Address]) -> None:
        if not addresses or len(set(addresses)) < len(addresses):
            raise ValueError("give the address of one gateway or more, each once")
        self._seeds = [xxhash.xxh3_64_intdigest(repr(address).encode()) for address in addresses]
        self._orders: dict[tuple[str, str, str], tuple[int, ...]] = {}
        self._away_until = [0.0] * len(addresses)

    def order(self, tenant: str, user: str, route: str) -> tuple[int, ...]:
        """The gateways of a key, its own first."""
        key = (tenant, user, route)
        order = self._orders.get(key)
        if order is None:
            if len(self._orders) >= limits.LIMIT_FLEET_KEYS_MAX:
                self._orders.clear()
            name = "\0".join(key).encode(errors="surrogatepass")
            weights = [xxhash.xxh3_64_intdigest(name, seed) for seed in self._seeds]
            order = self._orders[key] = tuple(sorted(range(len(weights)), key=weights.__getitem__, reverse=True))
        return order

    def tries(self, tenant: str, user: str, route: str) -> list[int]:
        """The same, with those last that did not answer lately."""
        now = time.monotonic()
        return sorted(self.order(tenant, user, route), key=lambda n: self._away_until[n] > now)

    def away(self, gateway: int) -> None:
        """It did not answer."""
        self._away_until[gateway] = time.monotonic() + limits.LIMIT_FLEET_AWAY_S

    def is_spent(self, tried: frozenset[int]) -> bool:
        """Every gateway was tried."""
        return len(tried) == len(self._seeds)


class _Asking:
    """Some checks until each is answered, under identities that do not change."""

    def __init__(self, spread: Spread, checks: Sequence[Check]) -> None:
        self._spread = spread
        self._checks = [c if c.identity else c._replace(identity=os.urandom(IDENTITY_BYTES)) for c in checks]
        self._left: list[tuple[Iterable[int], frozenset[int]]] = [(range(len(checks)), frozenset())]
        self._found: dict[int, Answer] = {}

    def parts(self) -> list[_Part]:
        """What is to be asked next, gateway by gateway."""
        found: list[_Part] = []
        for places, tried in self._left:
            by_gateway: dict[int, list[int]] = {}
            for place in places:
                tries = self._spread.tries(*self._checks[place][:3])
                by_gateway.setdefault(next(n for n in tries if n not in tried), []).append(place)
            found += [(gateway, mine, tried | {gateway}) for gateway, mine in by_gateway.items()]
        self._left = []
        return found

    def checks(self, part: _Part) -> list[Check]:
        """What the gateway of a part is asked."""
        return [self._checks[place] for place in part[1]]

    def answered(self, part: _Part, answers: Sequence[Answer]) -> None:
        """The gateway of a part has answered."""
        self._found.update(zip(part[1], answers, strict=True))

    def failed(self, part: _Part, error: GatewayUnavailable) -> None:
        """It did not: the next one is asked. Raises the error when there is none."""
        gateway, places, tried = part
        self._spread.away(gateway)
        if self._spread.is_spent(tried):
            raise error
        self._left.append((places, tried))

    def answers(self) -> list[Answer]:
        """In the order of the checks."""
        return [self._found[place] for place in range(len(self._checks))]


class FrameFleet:
    """Blocking; of one thread. One gateway after another is asked."""

    def __init__(self, addresses: Sequence[Address], *, timeout_s: float = limits.LIMIT_FRAME_TIMEOUT_S) -> None:
        self._spread = Spread(addresses)
        self._gateways = [FrameClient(address, timeout_s=timeout_s) for address in addresses]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def check_many(self, checks: Sequence[Check]) -> list[Answer]:
        """Decisions in the same order. Raises GatewayUnavailable when no gateway answers one of them, FrameError."""
        asking = _Asking(self._spread, checks)
        while parts := asking.parts():
            for part in parts:
                try:
                    asking.answered(part, self._gateways[part[0]].check_many(asking.checks(part)))
                except GatewayUnavailable as error:
                    asking.failed(part, error)
        return asking.answers()

    def close(self) -> None:
        """The next question opens new connections."""
        for gateway in self._gateways:
            gateway.close()


class AsyncFrameFleet:
    """For one event loop. Gateways are asked side by side."""

    def __init__(self, addresses: Sequence[Address], *, timeout_s: float = limits.LIMIT_FRAME_TIMEOUT_S) -> None:
        self._spread = Spread(addresses)
        self._gateways = [AsyncFrameClient(address, timeout_s=timeout_s) for address in addresses]

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self.close()

    async def check_many(self, checks: Sequence[Check]) -> list[Answer]:
        """Decisions in the same order. Raises GatewayUnavailable when no gateway answers one of them, FrameError."""
        asking = _Asking(self._spread, checks)
        while parts := asking.parts():
            asked = (self._gateways[part[0]].check_many(asking.checks(part)) for part in parts)
            for part, found in zip(parts, await asyncio.gather(*asked, return_exceptions=True), strict=True):
                if isinstance(found, GatewayUnavailable):
                    asking.failed(part, found)
                elif isinstance(found, BaseException):
                    raise found
                else:
                    asking.answered(part, found)
        return asking.answers()

    def close(self) -> None:
        """The next question opens new connections."""
        for gateway in self._gateways:
            gateway.close()
