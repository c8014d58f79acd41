"""Few at once: who asks for what is costly, or holds a connection, has some turns, and leaves room for others."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from ingress import limits
from schemas import errors

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class Turns:
    """Those of one process. One that finds no place for as long as it would wait for a connection is told so."""

    def __init__(self, refusal: str, *, of_each: int, of_all: int | None = None) -> None:
        self._refusal = refusal
        self._of_each = of_each
        self._own: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()  # by who asks, while it does
        self._all = () if of_all is None else (asyncio.Semaphore(of_all),)

    @asynccontextmanager
    async def turn(self, who: str) -> AsyncIterator[None]:
        """While one is under way. Raises Overloaded."""
        own = self._own.setdefault(who, asyncio.Semaphore(self._of_each))
        async with AsyncExitStack() as held:
            try:
                async with asyncio.timeout(limits.STORE_POOL_WAIT_S):
                    for bound in (own, *self._all):
                        await held.enter_async_context(bound)
            except TimeoutError as error:
                raise errors.Overloaded(self._refusal) from error
            yield
