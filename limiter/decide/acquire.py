"""Waits for a quota until a deadline: what a worker does that would rather be late than refused."""

from __future__ import annotations

import asyncio
import random
import time
from typing import TYPE_CHECKING

from schemas.limiter import limits

if TYPE_CHECKING:
    from limiter.decide.limiter import Limiter
    from limiter.spending.decision import Decision


async def acquire(
    limiter: Limiter,
    tenant: str,
    user: str,
    route: str,
    cost: int = 1,
    *,
    within_s: float,
    request_id: str | None = None,
) -> Decision:
    """Asks until it is allowed, or would not be before the deadline: then the refusal at once, and nothing is charged.

    A refusal's wait is what it says, within bounds and with jitter: several who wait do not come back together. Raises
    InvalidCommand and KeyReused as ``check`` does.
    """
    ends_at = time.monotonic() + within_s
    while True:
        decided = await limiter.check(tenant, user, route, cost, request_id)
        left_s = ends_at - time.monotonic()
        if decided.allowed or decided.retry_after_ms < 0 or decided.retry_after_ms / 1_000 > left_s:
            return decided
        wait_s = max(decided.retry_after_ms / 1_000, limits.LIMIT_ACQUIRE_POLL_MIN_S)
        wait_s *= random.uniform(1.0, 1.1)
        await asyncio.sleep(min(wait_s, max(left_s, 0.0), limits.LIMIT_ACQUIRE_POLL_MAX_S))
