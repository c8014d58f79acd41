"""Waits for answers and for what must become so, while everything that could answer is killed now and then."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, TypeVar

import httpx

from compose.proof import limits

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

Found = TypeVar("Found")


class Unexpected(Exception):
    """Something is not as it must be; the text says what and how."""


async def answered(call: Callable[[], Awaitable[httpx.Response]]) -> httpx.Response:
    """An answer that is no passing failure. Raises Unexpected past the bound.

    Only for calls that may be sent again: reads, and writes with an identity.
    """
    ends_at = time.monotonic() + limits.SOAK_PERSISTENCE_S
    while True:
        try:
            answer = await call()
            if answer.status_code < httpx.codes.INTERNAL_SERVER_ERROR:
                return answer
            why = f"{answer.request.url.path} answered {answer.status_code}"
        except httpx.TransportError as error:
            why = f"{error.request.url.path}: {type(error).__name__}"
        if time.monotonic() > ends_at:
            raise Unexpected(f"{why} for {limits.SOAK_PERSISTENCE_S} s")
        await asyncio.sleep(limits.SOAK_POLL_MS / 1_000)


async def until(look: Callable[[], Awaitable[Found | None]], otherwise: str) -> Found:
    """What the look finds as soon as it finds something. Raises Unexpected past the bound."""
    ends_at = time.monotonic() + limits.SOAK_FINAL_WAIT_S
    while (found := await look()) is None:
        if time.monotonic() > ends_at:
            raise Unexpected(f"{otherwise} after {limits.SOAK_FINAL_WAIT_S} s")
        await asyncio.sleep(limits.SOAK_POLL_MS / 1_000)
    return found
