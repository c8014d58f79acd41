"""Sessions that a burst needed rest behind it, and do not take turns."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from sinks.postgres.warm_pool import WarmPool

if TYPE_CHECKING:
    from tests.servers import World

pytestmark = pytest.mark.servers
_BURST = 4


def test_behind_a_burst_one_session_does_what_one_can_do(stack: World) -> None:
    async def ask() -> list[int]:
        pool: WarmPool[psycopg.AsyncConnection[Any]] = WarmPool(
            stack.addresses.postgres_superuser_dsn, min_size=1, max_size=_BURST, open=False
        )
        async with pool, AsyncExitStack() as burst:
            taken = [await burst.enter_async_context(pool.connection()) for _ in range(_BURST)]
            assert len({one.info.backend_pid for one in taken}) == _BURST
            await burst.aclose()
            asked = []
            for _ in range(3 * _BURST):
                async with pool.connection() as connection:
                    asked.append(connection.info.backend_pid)
        return asked

    assert len(set(asyncio.run(ask()))) == 1
