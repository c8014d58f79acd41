"""The client for asyncio: the same calls as ``MillraceClient``, awaited. Use it on one event loop."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Any, Self, TypeVar

import httpx

from ingress.client import protocols, sse, wire
from ingress.client.errors import ServiceUnavailable
from ingress.client.messages import CommandLine, Committed, Heard, LineAnswer, Pause, StreamedEvent
from ingress.client.protocols import INTENTS
from schemas import limits

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable
    from types import TracebackType

    from ingress.client.protocols import Protocol

T = TypeVar("T")


class AsyncMillraceClient:
    """Calls Millrace for one merchant. ``token`` is a bearer token, or a function that gives a fresh one each time."""

    def __init__(
        self,
        base_url: str,
        token: wire.Token,
        *,
        wait_s: float = limits.RESULT_WAIT_DEFAULT_S,
        transport: httpx.AsyncBaseTransport | None = None,
        jitter: random.Random | None = None,
    ) -> None:
        self._token = token
        self._wait_s = wait_s
        self._jitter = jitter or random.Random()
        self._http = httpx.AsyncClient(base_url=base_url, transport=transport, limits=wire.POOL, trust_env=False)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes every connection."""
        await self._http.aclose()

    async def create(
        self,
        *,
        amount: int,
        currency: str,
        payment_method: str | None = None,
        capture_method: str = "automatic",
        metadata: dict[str, str] | None = None,
        idempotency_key: str | None = None,
        deadline_ms: int | None = None,
    ) -> Committed:
        """Creates a payment intent once."""
        payload: dict[str, Any] = {"amount": amount, "currency": currency, "capture_method": capture_method}
        payload |= {"payment_method": payment_method, "metadata": metadata or {}}
        return await self._command(INTENTS, payload, idempotency_key, None, deadline_ms)

    async def confirm(
        self,
        intent_id: str,
        *,
        payment_method: str | None = None,
        expected_version: int | None = None,
        idempotency_key: str | None = None,
        deadline_ms: int | None = None,
    ) -> Committed:
        """Confirms an intent once; it is processing afterwards."""
        payload = {"payment_method": payment_method} if payment_method else {}
        path = f"{INTENTS}/{intent_id}/confirm"
        return await self._command(path, payload, idempotency_key, expected_version, deadline_ms)

    async def capture(
        self,
        intent_id: str,
        *,
        amount: int | None = None,
        final: bool = True,
        expected_version: int | None = None,
        idempotency_key: str | None = None,
        deadline_ms: int | None = None,
    ) -> Committed:
        """Captures all that is capturable, or an amount of it, once."""
        payload = {"amount": amount, "final": final}
        path = f"{INTENTS}/{intent_id}/capture"
        return await self._command(path, payload, idempotency_key, expected_version, deadline_ms)

    async def cancel(
        self,
        intent_id: str,
        *,
        reason: str | None = None,
        expected_version: int | None = None,
        idempotency_key: str | None = None,
        deadline_ms: int | None = None,
    ) -> Committed:
        """Cancels an intent once."""
        payload = {"cancellation_reason": reason} if reason else {}
        path = f"{INTENTS}/{intent_id}/cancel"
        return await self._command(path, payload, idempotency_key, expected_version, deadline_ms)

    async def get(self, intent_id: str, *, wait_s: float = 0) -> dict[str, Any]:
        """The intent; with a wait, as soon as it is not processing any more or the wait is over."""
        return await self._run(protocols.get(intent_id, wait_s, self._jitter))

    async def wait(self, intent_id: str, *states: str, within_s: float = 60) -> dict[str, Any]:
        """The intent once it is in one of the states (none given: not processing). Raises StillProcessing."""
        return await self._run(protocols.wait(intent_id, states, wire.polls(within_s), self._jitter))

    async def list(self, *, page_limit: int = limits.PAGE_LIMIT_MAX) -> AsyncIterator[dict[str, Any]]:
        """Every intent of the merchant, newest first, page by page as it is iterated."""
        cursor: str | None = None
        while True:
            page = await self._run(protocols.page(INTENTS, page_limit, cursor, self._jitter))
            for intent in page["data"]:
                yield intent
            if not page["has_more"]:
                return
            cursor = page["next_cursor"]

    async def operation(self, request_id: str) -> dict[str, Any]:
        """What became of a command, by its request id."""
        return await self._run(protocols.read(wire.operation(request_id), self._jitter))

    async def commands(
        self, lines: Iterable[CommandLine], *, batch_lines: int = wire.BATCH_LINES_DEFAULT
    ) -> AsyncIterator[LineAnswer]:
        """Carries out many commands and yields one answer each, in order; a batch is one request."""
        for batch in wire.batches(lines, batch_lines):
            for answer in await self._run(protocols.lines(batch, wait_s=self._wait_s, jitter=self._jitter)):
                yield answer

    async def events(self, cursor: str | None = "0") -> AsyncIterator[StreamedEvent]:
        """Events from a cursor on ("0" = all, None = new ones only), each once, for as long as it is iterated.

        Connects again from the last event when the stream ends. Raises ServiceUnavailable when that keeps failing.
        """
        reader, failures = sse.EventReader(cursor), 0
        while failures < limits.CLIENT_TRIES_MAX:
            try:
                async with self._http.stream("GET", wire.STREAM, **wire.stream(self._token, reader.cursor)) as stream:
                    if stream.status_code >= wire.ERRORS_FROM:
                        wire.raise_unless_retried(stream.status_code, await stream.aread())
                    else:
                        reader.connected()
                        async for line in stream.aiter_lines():
                            event = reader.feed(line)
                            if event is not None:
                                failures = 0
                                yield event
            except httpx.TransportError:
                pass  # the place is known: go on from there
            failures += 1
            await asyncio.sleep(protocols.backoff(failures, None, self._jitter).seconds)
        raise ServiceUnavailable("the event stream keeps ending")

    async def _command(
        self,
        path: str,
        payload: dict[str, Any],
        key: str | None,
        expected_version: int | None,
        deadline_ms: int | None,
    ) -> Committed:
        return await self._run(
            protocols.command(
                path,
                payload,
                idempotency_key=key,
                expected_version=expected_version,
                wait_s=self._wait_s,
                deadline_ms=deadline_ms,
                jitter=self._jitter,
            )
        )

    async def _run(self, protocol: Protocol[T]) -> T:
        heard: Heard = None
        while True:
            try:
                step = protocol.send(heard)
            except StopIteration as stop:
                return stop.value  # type: ignore[no-any-return] # the protocol's own type
            if isinstance(step, Pause):
                await asyncio.sleep(step.seconds)
                heard = None
            else:
                try:
                    heard = wire.reply(await self._http.request(**wire.request(self._token, step)))
                except httpx.TransportError as error:
                    heard = wire.lost(error)
