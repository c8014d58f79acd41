"""A caller who can wait for so long only is answered then, by the failure mode; and what may be charged is not forgotten."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from limiter.edge.rls import _patience_s
from schemas.limiter import limits
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
            line = next(iter(store.stores.values()))._line
            assert line is not None
            assert not line.lost  # others may be well
            line.lose("the test ends")
            await asyncio.wait(gateway._calls._left_alone)
            await asyncio.sleep(0)
            assert not gateway._calls._left_alone
        silent.close()
        await silent.wait_closed()

    asyncio.run(test())


def test_calls_that_nobody_waits_for_any_more_are_kept_and_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a caller that is gone, too: what the store still has to answer is bounded by the calls under way."""
    monkeypatch.setattr(limits, "LIMIT_STORE_CALLS_MAX", 2)

    async def test() -> None:
        silent = await asyncio.start_server(says_nothing, "127.0.0.1", 0)
        url = f"redis://127.0.0.1:{silent.sockets[0].getsockname()[1]}"
        exact = policy(consistency="exact", failure_mode="closed")
        async with limiter(url, tmp_path, exact, timeout_s=HOUR_S, loaded=False) as gateway, asyncio.timeout(60):
            calls, store = gateway._calls, gateway._store
            gone = asyncio.create_task(gateway.check("t", "u", "/r", 1, within_s=HOUR_S))
            await asyncio.sleep(0)
            gone.cancel()
            await asyncio.wait({gone})
            assert (gone.cancelled(), calls._under_way, len(calls._left_alone)) == (True, 0, 1)
            assert (await gateway.check("t", "u", "/r", 1, within_s=0.0)).degraded
            assert (calls.made, len(calls._left_alone)) == (2, 2)
            assert (await gateway.check("t", "u", "/r")).degraded  # without a call: an hour would be waited for
            assert calls.made == 2
            lines: Any = [made._line for made in store.stores.values()]  # type: ignore[attr-defined]
            for line in filter(None, lines):
                line.lose("the test ends")
            await asyncio.wait(calls._left_alone)
        silent.close()
        await silent.wait_closed()

    asyncio.run(test())


def test_of_what_envoy_waits_a_part_is_left_for_the_answer() -> None:
    assert _patience_s(Context(None)) is None
    assert _patience_s(Context(0.02)) == pytest.approx(0.016)
    assert _patience_s(Context(-1.0)) == 0
