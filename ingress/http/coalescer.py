"""Many small reads as few queries: what is asked while a query runs goes into the next one.

It is the group commit of reads: no timer and no delay when idle, and the database sees batches under load.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

Question = TypeVar("Question")
Answer = TypeVar("Answer")


class Coalescer(Generic[Question, Answer]):
    """``ask`` answers with one element of ``read(questions)``, which must return one answer per question, in order."""

    def __init__(
        self,
        read: Callable[[Sequence[Question]], Awaitable[Sequence[Answer]]],
        *,
        batch_max: int,
        running_max: int,
    ) -> None:
        self._read = read
        self._batch_max = batch_max
        self._running_max = running_max
        self._waiting: list[tuple[Question, asyncio.Future[Answer]]] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def ask(self, question: Question) -> Answer:
        """The answer; raises what the query raised."""
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting.append((question, future))
        self._start()
        return await future

    def _start(self) -> None:
        while self._waiting and len(self._tasks) < self._running_max:
            batch, self._waiting = self._waiting[: self._batch_max], self._waiting[self._batch_max :]
            task = asyncio.get_running_loop().create_task(self._run(batch))
            self._tasks.add(task)
            task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._start()

    async def _run(self, batch: list[tuple[Question, asyncio.Future[Answer]]]) -> None:
        try:
            answers = await self._read([question for question, _ in batch])
        except Exception as error:  # noqa: BLE001 - handed to every caller that waits
            for _, future in batch:
                if not future.done():
                    future.set_exception(error)
            return
        for (_, future), answer in zip(batch, answers, strict=True):
            if not future.done():
                future.set_result(answer)
