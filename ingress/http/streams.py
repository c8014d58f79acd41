"""Answers that are made while they are sent: what fails before their first part is an answer of its own.

What fails later cuts the line, so that a part of one never looks like all of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


async def begun(parts: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The same parts, the first of them made before this returns. Raises what making it raises."""
    first = await anext(parts, b"")
    return _all_of(first, parts)


async def _all_of(first: bytes, others: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    if first:
        yield first
    async for part in others:
        yield part
