"""A background task ends when its process does, also one that did not hear of it the first time."""

from __future__ import annotations

import asyncio

import pytest

from sinks import cancelled


async def _waits_again(came: asyncio.Event) -> None:
    """As who waits for a connection: what comes in the turn of a cancellation is returned in its place."""
    while True:
        await asyncio.wait_for(came.wait(), 60)
        came.clear()


@pytest.mark.parametrize("lost", [0, 1, 2])
def test_it_is_told_until_it_is_over(monkeypatch: pytest.MonkeyPatch, lost: int) -> None:
    monkeypatch.setattr("sinks.limits.CANCELLED_AGAIN_S", 0.001)
    heard = 0

    async def deaf() -> None:
        nonlocal heard
        while heard <= lost:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                heard += 1
        raise asyncio.CancelledError

    async def ends() -> None:
        task = asyncio.create_task(deaf())
        await asyncio.sleep(0)
        await cancelled.over(task)
        assert task.cancelled()

    asyncio.run(ends())
    assert heard == lost + 1


def test_what_comes_in_the_same_turn_keeps_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pool that is closed tells who waits for its connections; in that turn they are cancelled, too."""
    monkeypatch.setattr("sinks.limits.CANCELLED_AGAIN_S", 0.001)

    async def ends() -> None:
        came = asyncio.Event()
        task = asyncio.create_task(_waits_again(came))
        for _ in range(3):
            await asyncio.sleep(0)
        came.set()
        await asyncio.sleep(0)
        await asyncio.wait_for(cancelled.over(task), 30)

    asyncio.run(ends())


def test_who_failed_is_over() -> None:
    async def fails() -> None:
        raise ValueError

    async def ends() -> None:
        task = asyncio.create_task(fails())
        await asyncio.wait((task,))
        await cancelled.over(task)
        await cancelled.over()
        assert isinstance(task.exception(), ValueError)

    asyncio.run(ends())
