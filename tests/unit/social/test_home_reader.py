"""A store of homes that is away: homes are read from Postgres, and few wait for it."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from ingress import limits
from ingress.social.homes import HomeReader
from schemas.errors import Unavailable

NEWEST = (9, "")


class Servers:
    """The store of homes and Postgres, as far as they are asked; ``asked`` is what the store of homes was."""

    def __init__(self) -> None:
        self.is_away = False
        self.asked: list[str] = []

    async def _answer(self, what: str, answer: Any) -> Any:
        self.asked.append(what)
        if self.is_away:
            raise Unavailable(cause="TimeoutError")
        return answer

    async def read(self, *_: Any) -> Any:
        return await self._answer("read", None)

    async def begin(self, *_: Any) -> Any:
        return await self._answer("begin", 7)

    async def finish(self, *_: Any) -> Any:
        return await self._answer("finish", None)

    async def rows(self, *_: Any) -> list[tuple[int, str]]:
        return [(2, "po_2"), (1, "po_1")]

    async def require_present(self, user: str) -> None:
        """Everybody is."""


def test_a_store_of_homes_that_hangs_is_waited_for_now_and_then_and_asked_by_all_when_it_is_back() -> None:
    """Each read would wait for it two or four seconds, for as long as it hangs."""
    servers, clock = Servers(), SimpleNamespace(now=0.0)
    reader = HomeReader(servers, servers, servers, lambda: clock.now)  # type: ignore[arg-type] # as far as it asks

    def asked() -> list[str]:
        servers.asked.clear()
        assert asyncio.run(reader.before("u_1", NEWEST, 1)) == [(2, "po_2")]
        return servers.asked

    whole = ["read", "begin", "finish"]
    assert asked() == whole
    servers.is_away = True
    assert asked() == ["read"], "and no building is begun there"
    assert asked() == []
    clock.now += limits.BREAKER_OPEN_S
    assert asked() == ["read"], "one tries"
    assert asked() == []
    servers.is_away = False
    clock.now += limits.BREAKER_OPEN_S
    assert asked() == whole
    assert asked() == whole
