"""A stream whose first part cannot be made has not begun: its failure can still be answered."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from ingress.http.streams import begun
from schemas import errors

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


async def parts(*made: bytes | Exception) -> AsyncIterator[bytes]:
    for one in made:
        if isinstance(one, Exception):
            raise one
        yield one


async def told(stream: AsyncIterator[bytes], into: list[bytes]) -> None:
    async for part in stream:
        into.append(part)  # noqa: PERF401 - what came before a failure counts


def test_what_fails_before_the_first_part_is_raised_before_anything_is_sent() -> None:
    with pytest.raises(errors.Unavailable):
        asyncio.run(begun(parts(errors.Unavailable(), b"1")))  # type: ignore[arg-type]


@pytest.mark.parametrize("made", [(), (b"1",), (b"1", b"2", b"3")])
def test_all_parts_come_once_in_their_order(made: tuple[bytes, ...]) -> None:
    sent: list[bytes] = []

    async def send() -> None:
        await told(await begun(parts(*made)), sent)

    asyncio.run(send())
    assert b"".join(sent) == b"".join(made)


def test_what_fails_later_breaks_the_stream_off() -> None:
    sent: list[bytes] = []

    async def send() -> None:
        await told(await begun(parts(b"1", errors.Unavailable(), b"2")), sent)

    with pytest.raises(errors.Unavailable):
        asyncio.run(send())
    assert sent == [b"1"]
