"""Clients of CHECK frames, blocking and for asyncio: what other processes of a host ask a gateway with.

Every entry travels under an identity: the caller's, or one that is made here. So an answer that was lost is asked for
again on a new connection, under the same identities, and consumes once. After the last attempt the caller gets
GatewayUnavailable: what was consumed is not known, and the caller may repeat it under the identities that it chose.
"""

from __future__ import annotations

import asyncio
import os
import socket
import time
from typing import TYPE_CHECKING, NamedTuple, cast

from limiter import columns, frames
from limiter.frames import IDENTITY_BYTES, Answer, Frame, FrameError, Named
from schemas import limits
from schemas.errors import InvalidCommand, Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import TracebackType
    from typing import Self

Address = str | tuple[str, int]  # path of a Unix socket, or host and port
_READ_BYTES = 262_144


class GatewayUnavailable(Unavailable):
    """The gateway did not answer in time: whether it charged is not known."""


class Check(NamedTuple):
    """One decision to ask for; without an identity it gets one."""

    tenant: str
    user: str
    route: str
    cost: int = 1
    identity: bytes | None = None  # 16 bytes
    network: str | None = None  # the address of whoever it is for


class _Names:
    """The keys that one connection has named."""

    def __init__(self) -> None:
        self._numbers: dict[Named, int] = {}
        self._bytes = 0

    def asked(self, frame_id: int, kind: int, checks: Sequence[Check], made: bytes) -> bytes:
        """The frames that ask: new names first. ``made``: identities of those without. Raises FrameError, _Full."""
        new: list[Named] = []
        try:
            entries = columns.entries(self._numbers, checks, made, new)
        except (TypeError, ValueError) as error:
            raise FrameError("An entry has a cost or an identity that no frame can carry.") from error
        asked = frames.asking_frame(frame_id, entries, kind)
        return self._named(new) + asked if new else asked

    def _named(self, new: list[Named]) -> bytes:
        first = len(self._numbers) - len(new)
        found = b"".join(frames.keys_frame(first + at, [place]) for at, place in enumerate(new))
        self._bytes += len(found)
        if len(self._numbers) > limits.LIMIT_FRAME_KEYS_MAX or self._bytes > limits.LIMIT_FRAME_KEY_BYTES_MAX:
            raise _Full
        return found


class _Full(Exception):
    """The connection can name no more keys: a new one begins anew."""


class FrameClient:
    """Blocking; of one thread. One frame is under way at a time."""

    def __init__(self, address: Address, *, timeout_s: float = limits.LIMIT_FRAME_TIMEOUT_S) -> None:
        self._address = address
        self._timeout_s = timeout_s
        self._socket: socket.socket | None = None
        self._names = _Names()
        self._received = bytearray()
        self._last_id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def check(
        self,
        tenant: str,
        user: str,
        route: str,
        cost: int = 1,
        identity: bytes | None = None,
        network: str | None = None,
    ) -> Answer:
        """One decision. Raises GatewayUnavailable, FrameError."""
        return self.check_many([Check(tenant, user, route, cost, identity, network)])[0]

    def check_many(self, checks: Sequence[Check]) -> list[Answer]:
        """Decisions in the same order. Raises GatewayUnavailable, FrameError for what the gateway refuses to read."""
        return [answer for part in _parts(checks) for answer in self._checked(part)]

    def refund(self, tenant: str, user: str, route: str, identity: bytes, network: str | None = None) -> int:
        """As ``Limiter.refund``, of what frames consumed. Raises GatewayUnavailable, InvalidCommand, FrameError."""
        return _given_back(self._checked([Check(tenant, user, route, 0, identity, network)], frames.REFUND))

    def release(
        self, tenant: str, user: str, route: str, identity: bytes, permits: int = 1, network: str | None = None
    ) -> int:
        """As ``Limiter.release``, of what frames hold. Raises GatewayUnavailable, InvalidCommand, FrameError."""
        return _given_back(self._checked([Check(tenant, user, route, permits, identity, network)], frames.RELEASE))

    def close(self) -> None:
        """The next question opens another connection."""
        if self._socket is not None:
            self._socket.close()
        self._socket, self._names = None, _Names()
        self._received.clear()

    def _checked(self, checks: Sequence[Check], kind: int = frames.CHECK) -> list[Answer]:
        made = _made(checks)
        cause = ""
        for _ in range(limits.LIMIT_FRAME_ATTEMPTS):
            try:
                return self._asked(kind, checks, made)
            except OSError as error:
                self.close()
                cause = type(error).__name__
            except BaseException:
                self.close()
                raise
        raise GatewayUnavailable(cause=cause)

    def _asked(self, kind: int, checks: Sequence[Check], made: bytes) -> list[Answer]:
        until = time.monotonic() + self._timeout_s
        self._last_id = frame_id = (self._last_id + 1) & frames.FRAME_ID_MAX
        connection = self._socket or self._connect()
        try:
            asked = self._names.asked(frame_id, kind, checks, made)
        except _Full:
            self.close()
            connection = self._connect()
            asked = self._names.asked(frame_id, kind, checks, made)
        connection.sendall(asked)
        while True:
            connection.settimeout(max(until - time.monotonic(), 0.001))
            data = connection.recv(_READ_BYTES)
            if not data:
                raise ConnectionResetError
            self._received += data
            for frame in frames.frames(self._received):
                if _is_answer(frame) and frame.frame_id == frame_id:
                    return columns.answers(Answer, frame.body)

    def _connect(self) -> socket.socket:
        if isinstance(self._address, str):
            self._socket = socket.socket(socket.AF_UNIX)
            self._socket.settimeout(self._timeout_s)
            self._socket.connect(self._address)
        else:
            self._socket = socket.create_connection(self._address, self._timeout_s)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self._socket


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
        found = await asyncio.gather(*(self._checked(part) for part in _parts(checks)))
        return [answer for part in found for answer in part]

    async def refund(self, tenant: str, user: str, route: str, identity: bytes, network: str | None = None) -> int:
        """As ``Limiter.refund``, of what frames consumed. Raises GatewayUnavailable, InvalidCommand, FrameError."""
        return _given_back(await self._checked([Check(tenant, user, route, 0, identity, network)], frames.REFUND))

    async def release(
        self, tenant: str, user: str, route: str, identity: bytes, permits: int = 1, network: str | None = None
    ) -> int:
        """As ``Limiter.release``, of what frames hold. Raises GatewayUnavailable, InvalidCommand, FrameError."""
        asked = [Check(tenant, user, route, permits, identity, network)]
        return _given_back(await self._checked(asked, frames.RELEASE))

    def close(self) -> None:
        """The next question opens another connection."""
        if self._line is not None:
            self._line.end(ConnectionAbortedError())
        self._line = None

    async def _checked(self, checks: Sequence[Check], kind: int = frames.CHECK) -> list[Answer]:
        made = _made(checks)
        cause = ""
        for _ in range(limits.LIMIT_FRAME_ATTEMPTS):
            line = None
            try:
                async with asyncio.timeout(self._timeout_s):
                    line = await self._connected()
                    return await line.asked(kind, checks, made)
            except (OSError, TimeoutError, _Full) as error:
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
        self._names = _Names()
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
                waiting = self._waiting.pop(frame.frame_id, None) if _is_answer(frame) else None
                if waiting is not None and not waiting.done():
                    waiting.set_result(columns.answers(Answer, frame.body))
        except FrameError as error:
            self.end(error)

    async def asked(self, kind: int, checks: Sequence[Check], made: bytes) -> list[Answer]:
        """Raises OSError, FrameError, _Full."""
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


def _parts(checks: Sequence[Check]) -> Iterator[Sequence[Check]]:
    if len(checks) <= limits.LIMIT_FRAME_ENTRIES_MAX:
        yield checks
        return
    for at in range(0, len(checks), limits.LIMIT_FRAME_ENTRIES_MAX):
        yield checks[at : at + limits.LIMIT_FRAME_ENTRIES_MAX]


def _made(checks: Sequence[Check]) -> bytes:
    """An identity for each that has none: the same in every attempt."""
    return os.urandom(IDENTITY_BYTES * len(checks))


def _given_back(answers: Sequence[Answer]) -> int:
    """Of one refund its cost, of one release its permits. Raises GatewayUnavailable, InvalidCommand."""
    if answers[0].flags & frames.DEGRADED:
        raise GatewayUnavailable(cause="the store or owner of the quota did not answer in time")
    if answers[0].flags & frames.INVALID:
        raise InvalidCommand([{"field": "identity", "reason": "must be one that a counted key was asked for with"}])
    return answers[0].remaining


def _is_answer(frame: Frame) -> bool:
    """Raises FrameError for the gateway's refusal."""
    if frame.kind == frames.FAILED:
        raise FrameError(frame.body.decode(errors="replace"))
    return frame.kind == frames.ANSWER
