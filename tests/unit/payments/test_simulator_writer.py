"""Group commit: bounded, in order, and nobody is left waiting."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

import pytest

from compose.simulator import errors, limits
from compose.simulator.book.book import Book, Query, Result
from compose.simulator.book.writer import BookWriter
from compose.simulator.operations.nouns import operation_read

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from compose.simulator.book.book import Work, WorkResult
    from compose.simulator.operations.nouns import Operation


def purchase(key: str) -> Operation:
    body = b'{"kind":"purchase","reference":"pi_1","amount":1,"currency":"USD","token":"tok_sim_approve"}'
    return operation_read(key, body)


class GatedBook(Book):
    """A real book whose commits wait until the gate is open, as on a slow disk."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.gate = threading.Event()
        self.entered = threading.Event()
        self.is_broken = False

    def commit(self, batch: Sequence[Work]) -> list[WorkResult]:
        self.entered.set()
        self.gate.wait()
        if self.is_broken:
            raise RuntimeError("a bug in the book")
        return super().commit(batch)


def test_past_the_bound_a_send_is_refused_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was taken is committed, what was refused is not, and the writer goes on."""
    monkeypatch.setattr(limits, "SIMULATOR_QUEUE_MAX", 2)

    async def scenario() -> None:
        book = GatedBook(tmp_path)
        writer = BookWriter(book, lambda _: None)
        taken = [asyncio.create_task(writer.submit(purchase("op_1")))]
        await asyncio.sleep(0)
        await asyncio.to_thread(book.entered.wait)
        taken += [asyncio.create_task(writer.submit(purchase(f"op_{number}"))) for number in (2, 3)]
        await asyncio.sleep(0)
        with pytest.raises(errors.Overloaded):
            await writer.submit(purchase("op_late"))
        book.gate.set()
        assert all(isinstance(result, Result) for result in await asyncio.gather(*taken))
        with pytest.raises(errors.NotFound):
            await writer.submit(Query("op_late"))
        await writer.close()

    asyncio.run(scenario())


def test_what_waits_shares_one_commit_and_a_lost_caller_changes_nothing(tmp_path: Path) -> None:
    """A caller that goes away loses its answer, never its effect."""
    batch_sizes: list[int] = []

    async def scenario() -> None:
        book = GatedBook(tmp_path)
        writer = BookWriter(book, batch_sizes.append)
        first = asyncio.create_task(writer.submit(purchase("op_first")))
        await asyncio.sleep(0)
        await asyncio.to_thread(book.entered.wait)
        others = [asyncio.create_task(writer.submit(purchase(f"op_{number}"))) for number in range(20)]
        await asyncio.sleep(0)
        others[7].cancel()
        book.gate.set()
        await asyncio.gather(first, *others, return_exceptions=True)
        found = await writer.submit(Query("op_7"))
        assert found.outcome is not None
        await writer.close()

    asyncio.run(scenario())
    assert batch_sizes == [1, 20, 1]


def test_a_bug_in_a_batch_answers_its_callers_and_the_writer_lives(tmp_path: Path) -> None:
    async def scenario() -> None:
        book = GatedBook(tmp_path)
        book.gate.set()
        writer = BookWriter(book, lambda _: None)
        book.is_broken = True
        with pytest.raises(errors.BookUnavailable):
            await writer.submit(purchase("op_1"))
        book.is_broken = False
        assert (await writer.submit(purchase("op_1"))).outcome is not None
        await writer.close()

    asyncio.run(scenario())


def test_closing_commits_what_is_queued(tmp_path: Path) -> None:
    async def scenario() -> None:
        book = GatedBook(tmp_path)
        writer = BookWriter(book, lambda _: None)
        sends = [asyncio.create_task(writer.submit(purchase(f"op_{number}"))) for number in range(50)]
        await asyncio.sleep(0)
        book.gate.set()
        await writer.close()
        await asyncio.gather(*sends)
        with pytest.raises(errors.BookUnavailable, match="stopped"):
            await writer.submit(purchase("op_late"))

    asyncio.run(scenario())
