"""The clock of a store against ours: what an answer proves, and how the answer is read."""

from __future__ import annotations

import asyncio

import pytest

from limiter.store.store_clock import surely_ahead_s
from limiter.store.store_line import AnswerLate, LineLost, Reply, StoreLine
from schemas.limiter import limits
from tests.each import each


@pytest.mark.parametrize(
    ("store_s", "ahead_s"),
    [(100.0, 0.0), (101.5, 0.0), (102.0, 0.0), (97.0, 3.0), (105.0, -3.0)],
    ids=["same at the question", "slow, and right", "same at the answer", "we are ahead", "we are behind"],
)
def test_only_what_a_slow_answer_cannot_explain_is_a_difference(store_s: float, ahead_s: float) -> None:
    assert surely_ahead_s(100.0, 102.0, store_s) == ahead_s


@each("cut", range(1, 60, 7))
def test_integers_that_a_server_writes_as_texts_are_read_in_any_pieces(cut: int) -> None:
    async def test() -> list[Reply]:
        line = StoreLine(60)
        asked = [line.send(b""), line.send(b""), line.send(b"")]
        written = b"*2\r\n$10\r\n1800000000\r\n$3\r\n250\r\n" + b"*2\r\n:1\r\n:7\r\n" + b":5\r\n"
        line.data_received(written[:cut])
        line.data_received(written[cut:])
        found = await asyncio.wait_for(asyncio.gather(*asked), 10)
        line.lose("the test is over")
        return found

    assert asyncio.run(test()) == [[1_800_000_000, 250], [1, 7], 5]


def test_a_late_answer_fails_its_own_call_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its place is kept: what comes in the end is told to who listens, and the next answer is the next call's."""
    monkeypatch.setattr(limits, "LIMIT_STORE_SILENCE_S", 60)

    async def test() -> None:
        line = StoreLine(0.02)
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


def test_of_an_answer_that_never_comes_nobody_hears(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LIMIT_STORE_SILENCE_S", 60)

    async def test() -> None:
        line = StoreLine(0.02)
        with pytest.raises(AnswerLate) as late:
            await line.send(b"")
        line.lose("the test is over")
        assert late.value.answer is not None
        assert late.value.answer.cancelled()

    asyncio.run(test())


def test_a_store_that_says_nothing_at_all_loses_everybody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LIMIT_STORE_SILENCE_S", 0.02)

    async def test() -> None:
        line = StoreLine(0.02)
        asked = [line.send(b"") for _ in range(3)]
        found = await asyncio.gather(*asked, return_exceptions=True)
        assert [type(error) for error in found] == [LineLost] * 3
        assert line.lost

    asyncio.run(test())
