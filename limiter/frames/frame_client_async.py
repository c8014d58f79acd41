"""The client of CHECK frames for asyncio: as the blocking one, with frames of many callers under way at once."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

from limiter.frames import frames, packing
from limiter.frames.frame_requests import (
    Address,
    Check,
    ConnectionFull,
    GatewayUnavailable,
    Names,
    given_back,
    identities,
    is_answer,
    parts,
)
from limiter.frames.frames import Answer, FrameError
from schemas.limiter import limits

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType
    from typing import Self


class AsyncFrameClient:
    """For one event loop. Frames of many callers are under way at once on one connection."""

    def __init__(self, address: Address, *, timeout_s: float = limits.LIMIT_FRAME_TIMEOUT_S) -> None:
        self._address = address
        self._timeout_s = timeout_s
        self._line: _Line | None = None
        self._connecting = asyncio.Lock()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self.close()

    async def check(
        self,
        tenant: str,
        user: str,
        route: str,
        cost: int = 1,
        identity: bytes | None = None,
        network: str | None = None,
    ) -> Answer:
        """One decision. Raises GatewayUnavailable, FrameError."""
        return (await self.check_many([Check(tenant, user, route, cost, identity, network)]))[0]

    async def check_many(self, checks: Sequence[Check]) -> list[Answer]:
        """Decisions in the same order. Raises GatewayUnavailable, FrameError for what the gateway refuses to read."""
        found = await asyncio.gather(*(self._checked(part) for part in parts(checks)))
        return [answer for part in found for answer in part]

    async def refund(self, tenant: str, user: str, route: str, identity: bytes, network: str | None = None) -> int:
        """As ``Limiter.refund``, of what frames consumed. Raises GatewayUnavailable, InvalidCommand, FrameError."""
        return given_back(await self._checked([Check(tenant, user, route, 0, identity, network)], frames.REFUND))

    async def release(
        self, tenant: str, user: str, route: str, identity: bytes, permits: int = 1, network: str | None = None
    ) -> int:
        """As ``Limiter.release``, of what frames hold. Raises GatewayUnavailable, InvalidCommand, FrameError."""
        asked = [Check(tenant, user, route, permits, identity, network)]
        return given_back(await self._checked(asked, frames.RELEASE))

    def close(self) -> None:
        """The next question opens another connection."""
        if self._line is not None:
            self._line.end(ConnectionAbortedError())
        self._line = None

    async def _checked(self, checks: Sequence[Check], kind: int = frames.CHECK) -> list[Answer]:
        made = identities(checks)
        cause = ""
        for _ in range(limits.LIMIT_FRAME_ATTEMPTS):
            line = None
            try:
                async with asyncio.timeout(self._timeout_s):
                    line = await self._connected()
                    return await line.asked(kind, checks, made)
            except (OSError, TimeoutError, ConnectionFull) as error:
                cause = type(error).__name__
                if line is not None and line is self._line:
                    self.close()
        raise GatewayUnavailable(cause=cause)

    async def _connected(self) -> _Line:
        async with self._connecting:
            if self._line is None or self._line.ended is not None:
                loop = asyncio.get_running_loop()
                if isinstance(self._address, str):
                    _, self._line = await loop.create_unix_connection(_Line, self._address)
                else:
                    _, self._line = await loop.create_connection(_Line, *self._address)
            return self._line


class _Line(asyncio.Protocol):
    """One connection of an AsyncFrameClient."""

    def __init__(self) -> None:
        self._names = Names()
        self._received = bytearray()
        self._waiting: dict[int, asyncio.Future[list[Answer]]] = {}
        self._transport: asyncio.Transport | None = None
        self._last_id = 0
        self.ended: Exception | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self.end(exc if isinstance(exc, OSError) else ConnectionResetError())

    def data_received(self, data: bytes) -> None:
        self._received += data
        try:
            for frame in frames.frames(self._received):
                waiting = self._waiting.pop(frame.frame_id, None) if is_answer(frame) else None
                if waiting is not None and not waiting.done():
                    waiting.set_result(packing.answers(Answer, frame.body))
        except FrameError as error:
            self.end(error)

    async def asked(self, kind: int, checks: Sequence[Check], made: bytes) -> list[Answer]:
        """Raises OSError, FrameError, ConnectionFull."""
        if self.ended is not None or self._transport is None:
            raise ConnectionResetError
        self._last_id = frame_id = (self._last_id + 1) & frames.FRAME_ID_MAX
        try:
            asked = self._names.asked(frame_id, kind, checks, made)
        except FrameError:
            self.end(ConnectionAbortedError())  # numbers may have been given to keys that were not sent
            raise
        answered: asyncio.Future[list[Answer]] = asyncio.get_running_loop().create_future()
        self._waiting[frame_id] = answered
        self._transport.write(asked)
        try:
            return await answered
        finally:
            self._waiting.pop(frame_id, None)

    def end(self, error: Exception) -> None:
        """Everybody who waits gets the error."""
        self.ended = self.ended or error
        waiting, self._waiting = self._waiting, {}
        for answered in waiting.values():
            if not answered.done():
                answered.set_exception(error)
        if self._transport is not None:
            self._transport.abort()
