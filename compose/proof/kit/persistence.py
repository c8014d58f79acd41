"""What a caller does after "no decision": it asks again with the same identity, which finds out however often."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeVar

from ingress.client import ServiceUnavailable, Undecided

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

Answer = TypeVar("Answer")


async def persistently(call: Callable[[], Awaitable[Answer]], within_s: float) -> Answer:
    """The answer, asked for again when the client gave up; past the bound what it raised."""
    ends_at = time.monotonic() + within_s
    while True:
        try:
            return await call()
        except (Undecided, ServiceUnavailable):
            if time.monotonic() > ends_at:
                raise
