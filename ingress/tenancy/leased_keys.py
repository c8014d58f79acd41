"""The lease on keys of tenants of one ingress process: kept in the background, taken anew by whoever meets none."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

import psycopg
import structlog

from schemas import errors
from schemas.tenancy import limits
from sinks.tenancy.key_lease import KeyLease

if TYPE_CHECKING:
    from collections.abc import Callable

    from ingress.http.store import Store
    from sinks.tenancy.key_lease import Asking


class LeasedKeys:
    """``start`` begins to keep the lease, ``close`` gives it back. Its store's commits wait for the disk."""

    def __init__(self, store: Store, instance: int, forget: Callable[[], None]) -> None:
        self._store = store
        self._lease = KeyLease(str(instance), forget)
        self._asking: asyncio.Task[None] | None = None
        self._keeper: asyncio.Task[None] | None = None
        self.require = self._lease.require

    def start(self) -> None:
        """Keeps the lease until ``close``."""
        self._keeper = asyncio.get_running_loop().create_task(self._keep())

    async def close(self) -> None:
        """Nothing is opened any more, and nobody waits for this process."""
        for task in (self._keeper, self._asking):
            if task is not None:
                task.cancel()
        with suppress(errors.Unavailable):  # then it ends by itself
            await self._ask(self._lease.leaving())

    async def term(self) -> int | None:
        """The lease that is held; another one is asked for where it has ended. None where there is none to have."""
        if self._lease.term is None:
            with suppress(errors.Unavailable):
                await self._renewed()
        return self._lease.term

    async def _keep(self) -> None:
        while True:
            try:
                await self._renewed()
            except errors.Unavailable as error:
                structlog.get_logger().warning("key_lease_not_kept", cause=error.public)
            await asyncio.sleep(limits.KEY_LEASE_RENEWED_S)

    async def _renewed(self) -> None:
        """One question for all who wait for its answer."""
        if self._asking is None or self._asking.done():
            self._asking = asyncio.get_running_loop().create_task(self._renew())
        await asyncio.shield(self._asking)

    async def _renew(self) -> None:
        while self._lease.answered(asking := self._lease.asking(), await self._ask(asking)):
            pass

    async def _ask(self, asking: Asking) -> list[tuple[object, ...]]:
        try:
            async with asyncio.timeout(limits.KEY_LEASE_ANSWER_S):
                return await self._store.rows(asking.statement, asking.given)
        except (TimeoutError, psycopg.Error) as error:  # the latter also of a database that takes no writes
            raise errors.Unavailable("The lease on keys of tenants cannot be kept; try again.") from error
