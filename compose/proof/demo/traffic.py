"""All stories at a steady rate, over clients that lose answers, while something may happen half-way."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import httpx

from compose.proof import limits
from compose.proof.demo.story_runner import StoryRunner
from compose.proof.kit.command_senders import BulkSender, SingleSender
from compose.proof.kit.journal import LossyTransport
from ingress.client import AsyncMillraceClient
from ingress.client.wire import POOL

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from compose.proof.demo.stories import Story
    from compose.proof.demo.tally import Tally
    from compose.proof.kit.acknowledged import Acknowledgements


async def tell_all(
    stories: Sequence[Story],
    *,
    base_url: str,
    token_of: Callable[[str], str],
    rate: float,
    tally: Tally,
    acknowledged: Acknowledgements,
    half_way: Callable[[], Awaitable[None]],
    progress: Callable[[int], None],
) -> None:
    """Every story has ended afterwards. ``half_way`` runs beside them once half of them began."""
    async with AsyncExitStack() as stack:
        runners = {
            merchant: await _runner(stack, base_url, token_of(merchant), tally, acknowledged)
            for merchant in sorted({story.merchant for story in stories})
        }
        room = asyncio.Semaphore(limits.DEMO_PAYMENTS_OPEN_MAX)
        ended = 0

        async def run(story: Story) -> None:
            nonlocal ended
            try:
                await runners[story.merchant].run(story)
            finally:
                room.release()
                ended += 1
                progress(ended)

        began = time.monotonic()
        async with asyncio.TaskGroup() as tasks:
            for number, story in enumerate(stories):
                await room.acquire()
                if (pause := began + number / rate - time.monotonic()) > 0:
                    await asyncio.sleep(pause)
                tasks.create_task(run(story))
                if number == len(stories) // 2:
                    tasks.create_task(_run(half_way))


async def _run(act: Callable[[], Awaitable[None]]) -> None:
    await act()


async def _runner(
    stack: AsyncExitStack, base_url: str, token: str, tally: Tally, acknowledged: Acknowledgements
) -> StoryRunner:
    async def client(**options: Any) -> AsyncMillraceClient:
        transport = LossyTransport(httpx.AsyncHTTPTransport(limits=POOL))
        return await stack.enter_async_context(AsyncMillraceClient(base_url, token, transport=transport, **options))

    patient = await client()
    return StoryRunner(
        patient,
        single=SingleSender(patient),
        bulk=BulkSender(await client()),
        hurried=SingleSender(await client(wait_s=0)),
        tally=tally,
        acknowledged=acknowledged,
    )
