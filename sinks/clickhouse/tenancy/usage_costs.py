"""What ClickHouse takes for usage of tenants: of the time of each insert as much as of its rows is theirs.

ClickHouse says itself how long an insert took. Kept a minute at a time; what a process that was killed or failed had
not kept is lost: nobody waits for it.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from schemas.tenancy import limits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


class UsageCosts:
    """Of one feed; one thread at a time may use it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._spent_us: dict[str, float] = defaultdict(float)
        self._kept_at_s = clock()

    def heard(self, tenants: Iterable[str], took_us: float) -> None:
        """One block is in: whose each of its rows is."""
        rows = Counter(tenants)
        each_us = took_us / max(rows.total(), 1)
        for tenant_id, many in rows.items():
            self._spent_us[tenant_id] += many * each_us

    def due(self) -> dict[str, int]:
        """Once a minute what is to be kept, in microseconds by tenant; it is told once."""
        if not self._spent_us or self._clock() - self._kept_at_s < limits.CLICKHOUSE_COSTS_KEPT_S:
            return {}
        spent, self._spent_us, self._kept_at_s = self._spent_us, defaultdict(float), self._clock()
        return {tenant_id: round(spent[tenant_id]) for tenant_id in sorted(spent) if round(spent[tenant_id])}
