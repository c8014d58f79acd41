"""What tenants cost the database, measured where their statements run: who had most of a window stands with the noisy.

In the next window the statements of its own calls come one after the other, and leave the connections to all others.
What was measured is also kept, some at a time, for analytics. A database that is away loses that: nobody waits for it.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Final

import structlog

from dataflows.tenancy.domain import database_noise
from ingress.http.turns import Turns
from ingress.identity.asking import ASKING
from schemas import errors
from schemas.tenancy import limits
from schemas.tenancy.operations import scope_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import AbstractAsyncContextManager

    from ingress.http.store import Store

_SECOND_US: Final = 1_000_000
_TENANT: Final = "tn_"
_log: Final = structlog.get_logger(__name__)


class DatabaseCosts:
    """Of one ingress process."""

    def __init__(self, store: Store, instance: int) -> None:
        self._store = store
        self._instance = instance
        self._window: dict[str, float] = defaultdict(float)
        self._kept: dict[str, float] = defaultdict(float)
        self._calls: Counter[str] = Counter()
        self._noisy: frozenset[str] = frozenset()  # of the last window
        self._turns = Turns(
            "Your calls took most of the database's time: for ten seconds their questions come one after the other.",
            of_each=limits.NOISY_STATEMENTS_MAX,
        )
        self._windows = 0
        self._began_s = time.monotonic()
        self._keeper: asyncio.Task[None] | None = None

    def heard(self, parameters: Mapping[str, Any], took_s: float) -> None:
        """One statement, if it named a tenant."""
        if tenant_id := _tenant_of(parameters):
            self._window[tenant_id] += took_s
            self._kept[tenant_id] += took_s
            self._calls[tenant_id] += 1

    def turn(self, parameters: Mapping[str, Any]) -> AbstractAsyncContextManager[None]:
        """What a statement of a tenant's own call waits for, if that was noisy in the last window: others of its.

        Staff that looks at such a tenant waits for nobody. Raises Overloaded.
        """
        tenant_id = _tenant_of(parameters)
        is_its_own = tenant_id in self._noisy and ASKING.get() == scope_of(tenant_id)
        return self._turns.turn(tenant_id) if is_its_own else nullcontext()

    def start(self) -> None:
        """Judges at the end of every window, until ``close``."""
        self._keeper = asyncio.get_running_loop().create_task(self._keep())

    async def close(self) -> None:
        """Keeps what was measured last."""
        if self._keeper is not None:
            self._keeper.cancel()
        await self.keep()

    async def judge(self, window_s: float) -> None:
        """The end of a window of so many seconds: who had most of it is written down, and takes turns."""
        spent, self._window = self._window, defaultdict(float)
        found = database_noise.noisy_in(spent, window_s)
        self._noisy = frozenset(one.tenant_id for one in found)
        if found:
            await self._told(
                "tenant_noise_heard",
                {
                    "process": self._instance,
                    "callers": [scope_of(one.tenant_id) for one in found],
                    "shares": [round(100 * one.share) for one in found],
                    "ms": [one.database_ms for one in found],
                    "again_s": database_noise.AGAIN_S,
                    "move_windows": database_noise.MOVE_WINDOWS,
                },
            )

    async def keep(self) -> None:
        """What was measured since the last time, for analytics."""
        kept, calls = self._kept, self._calls
        self._kept, self._calls = defaultdict(float), Counter()
        if kept:
            tenants = sorted(kept)
            given = {"source": f"ingress-{self._instance}", "tenants": tenants, "calls": [calls[t] for t in tenants]}
            spent = {"us": [round(kept[t] * _SECOND_US) for t in tenants], "at_most": limits.COST_REMOVED_AT_ONCE}
            await self._told("tenant_cost_add", given | spent)

    async def _keep(self) -> None:
        while True:
            await asyncio.sleep(database_noise.WINDOW_S)
            now_s = time.monotonic()
            window_s, self._began_s = now_s - self._began_s, now_s
            await self.judge(window_s)
            self._windows += 1
            if self._windows % limits.COST_WINDOWS == 0:
                await self.keep()

    async def _told(self, query: str, given: dict[str, Any]) -> None:
        try:
            await self._store.rows(query, given)
        except errors.PlatformError as error:
            _log.warning("tenant_costs_not_kept", query=query, cause=error.public)


def _tenant_of(parameters: Mapping[str, Any]) -> str:
    """The tenant that a statement names, or nothing."""
    tenant_id = parameters.get("tenant_id") or parameters.get("tenant")
    return tenant_id if isinstance(tenant_id, str) and tenant_id.startswith(_TENANT) else ""
