"""What both clients do with their sockets: carry out the steps of a protocol, keep a stream open, end."""

from __future__ import annotations

import asyncio
import random
import time
from typing import TYPE_CHECKING, Any, Self, TypeVar

import httpx

from ingress import limits
from ingress.client import protocols, sse, wire
from ingress.client.errors import ServiceUnavailable
from ingress.client.messages import Committed, Heard, Pause, StreamedEvent

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from types import TracebackType

    from ingress.client.protocols import Protocol

T = TypeVar("T")


class Connection:
    """Blocking. ``token`` is a bearer token, or a function that gives a fresh one each time.

    ``signer``: a ``client.signing.RequestSigner``, to sign what changes something.
    """

    def __init__(
        self,
        base_url: str,
        token: wire.Token,
        *,
        wait_s: float = limits.RESULT_WAIT_DEFAULT_S,
        transport: httpx.BaseTransport | None = None,
        jitter: random.Random | None = None,
        signer: httpx.Auth | None = None,
    ) -> None:
        self._token = token
        self._wait_s = wait_s
        self._jitter = jitter or random.Random()
        self._http = httpx.Client(
            base_url=base_url, transport=transport, limits=wire.POOL, trust_env=False, auth=signer
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes every connection."""
        self._http.close()

    def events(self, cursor: str | None = "0") -> Iterator[StreamedEvent]:
        """Events from a cursor on ("0" = all, None = new ones only), each once, for as long as it is iterated.

        Connects again from the last event when the stream ends. Raises ServiceUnavailable when that keeps failing.
        """
        reader, failures = sse.EventReader(cursor), 0
        while failures < limits.CLIENT_TRIES_MAX:
            try:
                with self._http.stream("GET", wire.STREAM, **wire.stream(self._token, reader.cursor)) as stream:
                    if stream.status_code >= wire.ERRORS_FROM:
                        wire.raise_unless_retried(stream.status_code, stream.read())
                    else:
                        reader.connected()
                        for line in stream.iter_lines():
                            event = reader.feed(line)
                            if event is not None:
                                failures = 0
                                yield event
            except httpx.TransportError:
                pass  # the place is known: go on from there
            failures += 1
            time.sleep(protocols.backoff(failures, None, self._jitter).seconds)
        raise ServiceUnavailable("the event stream keeps ending")

    def _command(
        self,
        path: str,
        payload: dict[str, Any],
        key: str | None,
        expected_version: int | None,
        deadline_ms: int | None,
    ) -> Committed:
        return self._run(
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

    def _pages(self, path: str, page_limit: int, **filters: str | None) -> Iterator[dict[str, Any]]:
        cursor: str | None = None
        while True:
            page = self._run(protocols.page(path, page_limit, cursor, self._jitter, filters))
            yield from page["data"]
            if not page["has_more"]:
                return
            cursor = page["next_cursor"]

    def _run(self, protocol: Protocol[T]) -> T:
        heard: Heard = None
        while True:
            try:
                step = protocol.send(heard)
            except StopIteration as stop:
                return stop.value  # type: ignore[no-any-return] # the protocol's own type
            if isinstance(step, Pause):
                time.sleep(step.seconds)
                heard = None
            else:
                try:
                    heard = wire.reply(self._http.request(**wire.request(self._token, step)))
                except httpx.TransportError as error:
                    heard = wire.lost(error)


class AsyncConnection:
    """For asyncio: the same, awaited."""

    def __init__(
        self,
        base_url: str,
        token: wire.Token,
        *,
        wait_s: float = limits.RESULT_WAIT_DEFAULT_S,
        transport: httpx.AsyncBaseTransport | None = None,
        jitter: random.Random | None = None,
        signer: httpx.Auth | None = None,
    ) -> None:
        self._token = token
        self._wait_s = wait_s
        self._jitter = jitter or random.Random()
        self._http = httpx.AsyncClient(
            base_url=base_url, transport=transport, limits=wire.POOL, trust_env=False, auth=signer
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes every connection."""
        await self._http.aclose()

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

    async def _pages(self, path: str, page_limit: int, **filters: str | None) -> AsyncIterator[dict[str, Any]]:
        cursor: str | None = None
        while True:
            page = await self._run(protocols.page(path, page_limit, cursor, self._jitter, filters))
            for item in page["data"]:
                yield item
            if not page["has_more"]:
                return
            cursor = page["next_cursor"]

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
