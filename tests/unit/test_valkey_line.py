"""A connection to Valkey: answers in order, in any pieces, late or never."""

from __future__ import annotations

import asyncio

import pytest

from sinks.redis.line import AnswerLate, Line, LineLost, Reply
from tests.each import each

BRIEF_S = 0.02


def waiting_for_ever() -> Line:
    """One whose answers are late soon, and that is given up late."""
    line = Line(60)
    line.timeout_s = BRIEF_S
    return line


@each("cut", range(1, 60, 7))
def test_integers_that_a_server_writes_as_texts_are_read_in_any_pieces(cut: int) -> None:
    async def test() -> list[Reply]:
        line = Line(60)
        asked = [line.send(b""), line.send(b""), line.send(b"")]
        written = b"*2\r\n$10\r\n1800000000\r\n$3\r\n250\r\n" + b"*2\r\n:1\r\n:7\r\n" + b":5\r\n"
        line.data_received(written[:cut])
        line.data_received(written[cut:])
        found = await asyncio.wait_for(asyncio.gather(*asked), 10)
        line.lose("the test is over")
        return found

    assert asyncio.run(test()) == [[1_800_000_000, 250], [1, 7], 5]


def test_a_text_that_is_not_there_is_empty_and_takes_no_other_answer() -> None:
    async def test() -> list[Reply]:
        line = Line(60)
        asked = [line.send(b""), line.send(b""), line.send(b"")]
        line.data_received(b"$-1\r\n:7\r\n$4\r\n0 po\r\n")
        found = await asyncio.wait_for(asyncio.gather(*asked), 10)
        line.lose("the test is over")
        return found

    assert asyncio.run(test()) == ["", 7, "0 po"]


def test_a_late_answer_fails_its_own_call_and_no_other() -> None:
    """Its place is kept: what comes in the end is told to who listens, and the next answer is the next call's."""

    async def test() -> None:
        line = waiting_for_ever()
        with pytest.raises(AnswerLate) as late:
            await line.send(b"")
        with pytest.raises(AnswerLate) as never:
            await line.send(b"")
        line.timeout_s = 60
        patient = line.send(b"")
        assert not line.lost
        next_one = line.send(b"")
        line.data_received(b":1\r\n")
        assert late.value.answer is not None
        assert await late.value.answer == 1
        assert not patient.done()
        line.data_received(b":2\r\n:3\r\n")
        assert never.value.answer is not None
        assert (await never.value.answer, await patient) == (2, 3)
        line.lose("the test is over")
        with pytest.raises(LineLost):
            await next_one

    asyncio.run(test())


def test_of_an_answer_that_never_comes_nobody_hears() -> None:
    async def test() -> None:
        line = waiting_for_ever()
        with pytest.raises(AnswerLate) as late:
            await line.send(b"")
        line.lose("the test is over")
        assert late.value.answer is not None
        assert late.value.answer.cancelled()

    asyncio.run(test())


def test_a_store_that_says_nothing_at_all_loses_everybody() -> None:
    async def test() -> None:
        line = Line(BRIEF_S)
        asked = [line.send(b"") for _ in range(3)]
        found = await asyncio.gather(*asked, return_exceptions=True)
        assert [type(error) for error in found] == [LineLost] * 3
        assert line.lost

    asyncio.run(test())
