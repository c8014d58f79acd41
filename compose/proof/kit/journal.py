"""What the network does to the demo's requests: it counts them, and on demand it loses an answer that was given.

The transport sits below the client, so that what is lost is the client's to mend, as in the world outside.
"""

from __future__ import annotations

import time
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Final

import httpx

_US: Final = 1_000


@dataclass(frozen=True, slots=True)
class Exchange:
    """One HTTP request as the wire saw it; status 0 = no answer. Times in microseconds since the epoch."""

    method: str
    path: str
    status: int
    sent_at: int
    answered_at: int
    was_lost: bool


@dataclass(slots=True)
class Journal:
    """The requests of one payment, and how many of the next answers get lost."""

    exchanges: list[Exchange] = field(default_factory=list)
    answers_to_lose: int = 0


#: the payment that the running task is about
CURRENT: Final[ContextVar[Journal]] = ContextVar("demo_journal")


class LossyTransport(httpx.AsyncBaseTransport):
    """A transport that writes the journal and loses answers that it was asked to lose."""

    def __init__(self, inner: httpx.AsyncBaseTransport) -> None:
        self._inner = inner

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Answers as the inner transport, or raises ReadError after the service has answered."""
        journal = CURRENT.get(None)
        sent_at = time.time_ns() // _US
        try:
            response = await self._inner.handle_async_request(request)
        except httpx.TransportError:
            if journal is not None:
                journal.exchanges.append(_exchange(request, 0, sent_at, was_lost=False))
            raise
        lose = journal is not None and journal.answers_to_lose > 0 and request.method == "POST"
        if journal is not None:
            journal.exchanges.append(_exchange(request, response.status_code, sent_at, was_lost=lose))
            if lose:
                journal.answers_to_lose -= 1
                await response.aclose()
                raise httpx.ReadError("the demo hung up before the answer", request=request)
        return response

    async def aclose(self) -> None:
        """Closes the inner transport."""
        await self._inner.aclose()


def _exchange(request: httpx.Request, status: int, sent_at: int, *, was_lost: bool) -> Exchange:
    return Exchange(request.method, request.url.path, status, sent_at, time.time_ns() // _US, was_lost)
