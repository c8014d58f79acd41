"""A caller who can wait for so long only is answered then, by the failure mode; and what may be charged is not forgotten."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from limiter.edge.rls import _patience_s
from tests.worlds.limiter.counter_server import limiter, policy

if TYPE_CHECKING:
    from pathlib import Path

HOUR_S = 3_600.0


async def says_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Until the other side hangs up."""
    await reader.read(-1)
    writer.close()


class Context:
    """Of a call, what it says of its deadline."""

    def __init__(self, left_s: float | None) -> None:
        self._left_s = left_s

    def time_remaining(self) -> float | None:
        return self._left_s


@pytest.mark.parametrize("mode", ["open", "closed"])
def test_a_store_that_never_answers_is_waited_for_as_long_as_the_caller_can(tmp_path: Path, mode: str) -> None:
    """The bound of a call is an hour here: without the caller's it would be waited for."""

    async def test() -> None:
        silent = await asyncio.start_server(says_nothing, "127.0.0.1", 0)
        port = silent.sockets[0].getsockname()[1]
        exact = policy(consistency="exact", failure_mode=mode)
        url = f"redis://127.0.0.1:{port}"
        async with limiter(url, tmp_path, exact, timeout_s=HOUR_S, loaded=False) as gateway, asyncio.timeout(60):
            decided = await gateway.check("t", "u", "/r", 1, "i", within_s=0.01)
            assert (decided.degraded, decided.allowed) == (True, mode == "open")
            doubtful: Any = gateway._identities.doubtful
            assert ("t:u:/r", "i") in doubtful  # the store may have charged it
            assert gateway.store_waits.cumulative()[-1] == ("+Inf", 1)
            assert (gateway._calls._under_way, len(gateway._calls._left_alone)) == (0, 1)
            store: Any = gateway._store
            of_shard = next(iter(store.stores.values()))
            while of_shard._line is None:  # noqa: ASYNC110 - on a busy machine the caller left before it was there
                await asyncio.sleep(0)
            line = of_shard._line
            assert not line.lost  # others may be well
            line.lose("the test ends")
            await asyncio.wait(gateway._calls._left_alone)
            await asyncio.sleep(0)
            assert not gateway._calls._left_alone
        silent.close()
        await silent.wait_closed()

    asyncio.run(test())


def test_of_what_envoy_waits_a_part_is_left_for_the_answer() -> None:
    assert _patience_s(Context(None)) is None
    assert _patience_s(Context(0.02)) == pytest.approx(0.016)
    assert _patience_s(Context(-1.0)) == 0
