"""Serves CHECK frames on sockets of this host: most entries are decided on the spot, the others awaited together.

A frame that is wrong consumes nothing: it is answered with the reason, and the connection ends. What one connection
may hold is bounded: its keys, the bytes of a frame, and the frames under way; past that nothing more is read from it.
Whoever may open the socket may spend any quota: a Unix socket is its owner's alone, TCP is for loopback.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Final, cast

from limiter import frames, keys
from limiter.frames import (
    ALLOWED,
    APPROXIMATE,
    DEGRADED,
    DUPLICATE,
    ENTRY,
    INVALID,
    NO_IDENTITY,
    REUSED,
    FrameError,
    Named,
)
from schemas import errors, limits

if TYPE_CHECKING:
    from pathlib import Path

    from limiter.buckets import KeyState
    from limiter.decision import Decision
    from limiter.limiter import Limiter

_PRIVATE: Final = 0o600
_LEASED: Final = ALLOWED | APPROXIMATE
_ROW_FIELDS: Final = 5
_VERSION_MAX: Final = 2**32 - 1


class FrameServer:
    """Every socket of one gateway."""

    def __init__(self, limiter: Limiter) -> None:
        self._limiter = limiter
        self._servers: list[asyncio.Server] = []
        self._sockets: list[Path] = []
        self.connections: set[_Connection] = set()

    async def serve_unix(self, path: Path) -> None:
        """Listens on a socket that only this user may open. Raises OSError; a path may be too long for a socket."""
        path.unlink(missing_ok=True)  # noqa: ASYNC240 - once, at the start
        server = await asyncio.get_running_loop().create_unix_server(self._connection, path, start_serving=False)
        path.chmod(_PRIVATE)  # noqa: ASYNC240
        await server.start_serving()
        self._servers.append(server)
        self._sockets.append(path)

    async def serve_tcp(self, host: str, port: int) -> int:
        """Listens on a port, and gives its number. Raises OSError."""
        server = await asyncio.get_running_loop().create_server(self._connection, host, port)
        self._servers.append(server)
        return int(server.sockets[0].getsockname()[1])

    def _connection(self) -> _Connection:
        return _Connection(self._limiter, self.connections)

    async def close(self) -> None:
        """Takes no more; what is under way is answered, within the bound of a decision."""
        for server in self._servers:
            server.close()
        for connection in self.connections:
            connection.drain()
        with suppress(TimeoutError):
            async with asyncio.timeout(2 * limits.LIMIT_STORE_TIMEOUT_S):
                await asyncio.gather(*(task for c in self.connections for task in c.under_way), return_exceptions=True)
        for connection in list(self.connections):
            connection.end()
        for path in self._sockets:
            path.unlink(missing_ok=True)


class _Connection(asyncio.Protocol):
    """One client. Answers leave in the order in which they are known, each under its frame id."""

    def __init__(self, limiter: Limiter, connections: set[_Connection]) -> None:
        self._limiter = limiter
        self._connections = connections
        self._places: list[Named] = []
        self._named_bytes = 0
        self._received = bytearray()
        self._transport: asyncio.Transport | None = None
        self._writable = True
        self._draining = False
        self.under_way: set[asyncio.Task[None]] = set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        if len(self._connections) >= limits.LIMIT_FRAME_CONNECTIONS_MAX:
            self._fail(0, "There are too many connections.")
            return
        self._connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - of the protocol
        self._transport = None
        self._connections.discard(self)

    def pause_writing(self) -> None:
        self._writable = False
        self._read_or_not()

    def resume_writing(self) -> None:
        self._writable = True
        self._go_on()

    def data_received(self, data: bytes) -> None:
        self._received += data
        self._go_on()

    def drain(self) -> None:
        """Reads no more."""
        self._draining = True
        self._read_or_not()

    def end(self) -> None:
        """Closes, once what was written has left."""
        if self._transport is not None:
            self._transport.close()

    def _busy(self) -> bool:
        full = len(self.under_way) >= limits.LIMIT_FRAMES_UNDER_WAY_MAX
        return full or not self._writable or self._draining or self._transport is None

    def _read_or_not(self) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        if self._busy():
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    def _go_on(self) -> None:
        """Decides on the whole frames that are there, while there is room for answers."""
        try:
            if not self._busy():
                for frame in frames.frames(self._received):
                    self._take(frame)
                    if self._busy():
                        break
        except FrameError as error:
            self._fail(0, error.public)
        self._read_or_not()

    def _take(self, frame: frames.Frame) -> None:
        """Raises FrameError, and then nothing of the frame is consumed."""
        if frame.kind == frames.CHECK:
            self._decide(frame)
            return
        if frame.kind not in (frames.KEYS, frames.CLIENT_KEYS):
            raise FrameError("A client names keys and asks for decisions, nothing else.")
        if frame.frame_id != len(self._places):
            raise FrameError("Keys are numbered one after another.")
        places = frames.places_of(frame)
        named_bytes = self._named_bytes + len(frame.body)
        if (
            len(self._places) + len(places) > limits.LIMIT_FRAME_KEYS_MAX
            or named_bytes > limits.LIMIT_FRAME_KEY_BYTES_MAX
        ):
            raise FrameError("The connection names too many keys.")
        self._places += places
        self._named_bytes = named_bytes

    def _decide(self, frame: frames.Frame) -> None:
        named = self._places
        entries = list(ENTRY.iter_unpack(frame.body))
        if entries and max(entries)[0] >= len(named):
            raise FrameError("An entry's key was not named.")
        known_key, spend, check_held = self._limiter.known_key, self._limiter.spend, self._limiter.check_held
        flat: list[int] = []
        waiting = []
        for at, (number, cost, identity) in enumerate(entries):
            place = named[number]
            request_id = None if identity == NO_IDENTITY else identity.hex()
            key = known_key(place)
            if key is None and len(place) > len(keys.PARTS):
                key = self._of_client(place)
            if key is not None and (left := spend(key, cost, request_id)) >= 0:  # most: no Decision is made for it
                bucket = key.buckets[0]
                flat += (_LEASED, bucket.version, bucket.remaining + left, bucket.reset_ms, 0)
                continue
            try:
                decided = None if key is None else check_held(key, cost, request_id)
            except errors.KeyReused:
                flat += (REUSED, 0, 0, 0, 0)
                continue
            if decided is None:
                waiting.append((at, number, cost, identity))
                flat += (0, 0, 0, 0, 0)
                continue
            allowed, remaining, reset_ms, retry_ms, _, version, approximate, degraded, duplicate = decided
            flags = allowed + DEGRADED * degraded + DUPLICATE * duplicate + APPROXIMATE * approximate
            flat += (flags, version, remaining, reset_ms, retry_ms)
        if not waiting:
            self._write(frames.answer_frame(frame.frame_id, frame.entries, flat))
            return
        task = asyncio.get_running_loop().create_task(self._await(frame, flat, waiting))
        self.under_way.add(task)
        task.add_done_callback(self._answered)

    def _of_client(self, place: Named) -> KeyState | None:
        try:
            return self._limiter.key_within(*place)
        except errors.InvalidCommand:
            return None  # the answer says so

    async def _await(self, frame: frames.Frame, flat: list[int], waiting: list[tuple[int, int, int, bytes]]) -> None:
        rows = await asyncio.gather(*(self._row(number, cost, identity) for _, number, cost, identity in waiting))
        for (at, *_), row in zip(waiting, rows, strict=True):
            flat[at * _ROW_FIELDS : (at + 1) * _ROW_FIELDS] = row
        self._write(frames.answer_frame(frame.frame_id, frame.entries, flat))

    async def _row(self, number: int, cost: int, identity: bytes) -> tuple[int, ...]:
        request_id = None if identity == NO_IDENTITY else identity.hex()
        try:
            tenant, user, route, *network = self._places[number]
            return _row_of(await self._limiter.check(tenant, user, route, cost, request_id, *network))
        except errors.KeyReused:
            return (REUSED, 0, 0, 0, 0)
        except errors.Rejected:
            return (INVALID, 0, 0, 0, 0)

    def _answered(self, task: asyncio.Task[None]) -> None:
        self.under_way.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self._fail(0, "The gateway failed.")
            task.result()  # the loop says where
        self._go_on()

    def _write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)

    def _fail(self, frame_id: int, reason: str) -> None:
        self._received.clear()
        self._draining = True
        self._write(frames.failed_frame(frame_id, reason))
        self.end()


def _row_of(decided: Decision) -> tuple[int, ...]:
    flags = decided.allowed + DEGRADED * decided.degraded + DUPLICATE * decided.duplicate
    return (
        flags + APPROXIMATE * decided.approximate,
        min(decided.policy_version, _VERSION_MAX),
        decided.remaining,
        decided.reset_ms,
        decided.retry_after_ms,
    )
