"""Waits for quota until a deadline, for a worker that would rather be late than refused."""

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
    """Asks until it is allowed. Returns the refusal at once, uncharged, if it cannot be allowed before the deadline.

    Waits as long as a refusal says, within bounds and with jitter, so that waiting callers do not come back together.
    Raises InvalidCommand and KeyReused as ``check`` does.
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
