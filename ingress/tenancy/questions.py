"""Questions that cost as much as a tenant has used: few are under way at once, of one tenant fewer.

So whoever has metered millions of events, and asks for their sums again and again, leaves connections to Postgres for
everybody else: to those who ask about their own usage, and to all who ask for something else.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from ingress import limits as ingress_limits
from schemas import errors
from schemas.tenancy import limits

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class Questions:
    """Those of one process. One that finds no place for as long as it would wait for a connection is told so."""

    def __init__(self) -> None:
        self._all = asyncio.Semaphore(limits.USAGE_QUESTIONS_MAX)
        self._of_tenants: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()  # while any asks

    @asynccontextmanager
    async def turn(self, tenant_id: str) -> AsyncIterator[None]:
        """While one is asked. Raises Overloaded."""
        own = self._of_tenants.setdefault(tenant_id, asyncio.Semaphore(limits.USAGE_QUESTIONS_OF_TENANT_MAX))
        async with AsyncExitStack() as held:
            try:
                async with asyncio.timeout(ingress_limits.STORE_POOL_WAIT_S):
                    for bound in (own, self._all):
                        await held.enter_async_context(bound)
            except TimeoutError as error:
                raise errors.Overloaded("Other questions about usage are under way; ask again later.") from error
            yield
