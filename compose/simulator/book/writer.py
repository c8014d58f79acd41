"""Group commit: one thread writes the book, many requests share one fsync.

Each batch is what queued up while the one before was written. A caller hears its result only after the commit
that holds it. If the thread ever answered earlier, the book would no longer be a witness.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from typing import TYPE_CHECKING, Any, TypeVar

import structlog

from compose.simulator import errors, limits

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from compose.simulator.book.book import Book, Deed, Work, WorkResult
    from compose.simulator.executor import Query, Result
    from compose.simulator.operations.nouns import Operation

T = TypeVar("T")
_Waiting = tuple["Work", "asyncio.Future[Any]"]


class BookWriter:
    """Owns the book's one writing thread; used from one event loop."""

    def __init__(self, book: Book, on_batch: Callable[[int], None]) -> None:
        self._book = book
        self._on_batch = on_batch
        self._queue: queue.SimpleQueue[_Waiting | None] = queue.SimpleQueue()
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, name="book-writer", daemon=True)
        self._thread.start()

    async def submit(self, work: Operation | Query) -> Result:
        """The result of ``work`` once it is durable. Raises errors.SimulatorError; Overloaded did nothing."""
        result: Result = await self._submitted(work)
        return result

    async def do(self, deed: Deed[T]) -> T:
        """What the deed gives once it is durable. Raises as ``submit`` does."""
        result: T = await self._submitted(deed)
        return result

    async def _submitted(self, work: Work) -> Any:
        if self._queue.qsize() >= limits.SIMULATOR_QUEUE_MAX:
            raise errors.Overloaded
        if not self._thread.is_alive():
            raise errors.BookUnavailable("the processor's writer has stopped; restart the simulator")
        future: asyncio.Future[Any] = self._loop.create_future()
        self._queue.put((work, future))
        return await future

    async def close(self) -> None:
        """Commits what is queued, then closes the book."""
        self._queue.put(None)
        await asyncio.to_thread(self._thread.join)
        self._book.close()

    def _run(self) -> None:
        is_open = True
        while is_open:
            batch, is_open = self._next_batch()
            if not batch:
                continue
            results = self._results([work for work, _ in batch])
            self._loop.call_soon_threadsafe(_resolve, batch, results)
            self._on_batch(len(batch))

    def _results(self, batch: list[Work]) -> Sequence[WorkResult]:
        try:
            return self._book.commit(batch)
        except Exception:  # noqa: BLE001 - the thread's edge: a dead writer would leave every caller waiting
            structlog.get_logger().exception("simulator_batch_failed", operations=len(batch))
            return [errors.BookUnavailable() for _ in batch]

    def _next_batch(self) -> tuple[list[_Waiting], bool]:
        batch: list[_Waiting] = []
        waiting = self._queue.get()
        while waiting is not None:
            batch.append(waiting)
            if len(batch) >= limits.SIMULATOR_BATCH_OPERATIONS_MAX:
                return batch, True
            try:
                waiting = self._queue.get_nowait()
            except queue.Empty:
                return batch, True
        return batch, False


def _resolve(batch: Sequence[_Waiting], results: Sequence[WorkResult]) -> None:
    for (_, future), result in zip(batch, results, strict=True):
        if future.done():  # the caller went away; the effect stands and is found by its identity
            continue
        if isinstance(result, errors.SimulatorError):
            future.set_exception(result)
        else:
            future.set_result(result)
