"""One client of CHECK frames: most entries are decided on the spot, the others awaited together.

A frame that is wrong consumes nothing: it is answered with the reason, and the connection ends. What one connection
may hold is bounded: its keys, the bytes of a frame, and the frames under way; past that nothing more is read from it,
and nothing from anybody while too many entries of all of them wait for the store.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

from limiter.frames import frames
from limiter.frames.frames import (
    APPROXIMATE,
    DEGRADED,
    DUPLICATE,
    ENTRY,
    INVALID,
    NO_IDENTITY,
    REUSED,
    ROW,
    VERSION_MAX,
    FrameError,
    Named,
)
from schemas import errors
from schemas.limiter import limits

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from limiter.decide.limiter import Limiter
    from limiter.edge.frame_room import FrameRoom
    from limiter.spending.decision import Decision
    from limiter.spending.key_state import KeyState

    _Awaited = Callable[[int, int, bytes], Awaitable[tuple[int, ...]]]


class FrameConnection(asyncio.Protocol):
    """One client. Answers leave in the order in which they are known, each under its frame id."""

    def __init__(self, limiter: Limiter, connections: set[FrameConnection], room: FrameRoom) -> None:
        self._limiter = limiter
        self._connections = connections
        self._room = room
        self._places: list[Named] = []
        self._keys: list[KeyState | None] = []  # of the places: those that were found under the policies in use
        self._named_bytes = 0
        self._received = bytearray()
        self._transport: asyncio.Transport | None = None
        self._writable = True
        self._draining = False
        self.under_way: set[asyncio.Task[None]] = set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:  # noqa: D102 - of the protocol
        self._transport = cast("asyncio.Transport", transport)
        if len(self._connections) >= limits.LIMIT_FRAME_CONNECTIONS_MAX:
            self._fail(0, "There are too many connections.")
            return
        self._connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002, D102 - of the protocol
        self._transport = None
        self._connections.discard(self)
        self._room.forget(self._go_on)

    def pause_writing(self) -> None:  # noqa: D102 - of the protocol
        self._writable = False
        self._read_or_not()

    def resume_writing(self) -> None:  # noqa: D102 - of the protocol
        self._writable = True
        self._go_on()

    def data_received(self, data: bytes) -> None:  # noqa: D102 - of the protocol
        self._received += data
        self._go_on()

    def void_keys(self) -> None:
        """All are looked up again."""
        self._keys = [None] * len(self._places)

    def drain(self) -> None:
        """Reads no more."""
        self._draining = True
        self._read_or_not()

    def end(self) -> None:
        """Closes, once what was written has left."""
        if self._transport is not None:
            self._transport.close()

    def _busy(self) -> bool:
        full = len(self.under_way) >= limits.LIMIT_FRAMES_UNDER_WAY_MAX or self._room.is_full
        return full or not self._writable or self._draining or self._transport is None

    def _read_or_not(self) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        if self._busy():
            self._transport.pause_reading()
            if self._room.is_full:
                self._room.call_when_there_is_some(self._go_on)
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
        if frame.kind in (frames.CHECK, frames.REFUND, frames.RELEASE):
            if frame.entries and frames.greatest_number(frame) >= len(self._places):
                raise FrameError("An entry's key was not named.")
            if frame.kind == frames.CHECK:
                self._decide(frame)
            else:
                given_back = self._refunded if frame.kind == frames.REFUND else self._released
                self._later(frame, bytearray(frame.entries * ROW.size), list(range(frame.entries)), given_back)
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
        self._keys += [None] * len(places)
        self._named_bytes = named_bytes

    def _decide(self, frame: frames.Frame) -> None:
        """Entry by entry, in their order."""
        named, known, body, count = self._places, self._keys, frame.body, frame.entries
        spend_entries, check_named = self._limiter.spend_entries, self._limiter.check_named
        rows = bytearray(count * ROW.size)
        waiting: list[int] = []
        at = 0
        while (at := spend_entries(body, at, named, known, rows)) < count:
            number, cost, identity = ENTRY.unpack_from(body, at * ENTRY.size)
            try:
                decided = check_named(named[number], cost, _request_id(identity))
            except errors.KeyReused:
                ROW.pack_into(rows, at * ROW.size, REUSED, 0, 0, 0, 0)
            except errors.InvalidCommand:
                ROW.pack_into(rows, at * ROW.size, INVALID, 0, 0, 0, 0)
            else:
                if decided is None:
                    waiting.append(at)
                else:
                    ROW.pack_into(rows, at * ROW.size, *_row_of(decided))
            at += 1
        if not waiting:
            self._write(frames.answer_frame(frame.frame_id, rows))
            return
        self._later(frame, rows, waiting, self._row)

    def _later(self, frame: frames.Frame, rows: bytearray, waiting: list[int], row: _Awaited) -> None:
        task = asyncio.get_running_loop().create_task(self._await(frame, rows, waiting, row))
        self.under_way.add(task)
        self._room.take(len(waiting))
        task.add_done_callback(lambda ended: self._answered(ended, len(waiting)))

    async def _await(self, frame: frames.Frame, rows: bytearray, waiting: list[int], row: _Awaited) -> None:
        found = await asyncio.gather(*(row(*ENTRY.unpack_from(frame.body, at * ENTRY.size)) for at in waiting))
        for at, numbers in zip(waiting, found, strict=True):
            ROW.pack_into(rows, at * ROW.size, *numbers)
        self._write(frames.answer_frame(frame.frame_id, rows))

    async def _row(self, number: int, cost: int, identity: bytes) -> tuple[int, ...]:
        try:
            tenant, user, route, *network = self._places[number]
            return _row_of(await self._limiter.check(tenant, user, route, cost, _request_id(identity), *network))
        except errors.KeyReused:
            return (REUSED, 0, 0, 0, 0)
        except errors.Rejected:
            return (INVALID, 0, 0, 0, 0)

    async def _refunded(self, number: int, _cost: int, identity: bytes) -> tuple[int, ...]:
        tenant, user, route, *network = self._places[number]
        return await _given_back(self._limiter.refund(tenant, user, route, _request_id(identity) or "", *network))

    async def _released(self, number: int, permits: int, identity: bytes) -> tuple[int, ...]:
        tenant, user, route, *network = self._places[number]
        request_id = _request_id(identity)
        if request_id is None or permits > limits.LIMIT_COST_MAX:  # what was allowed without an identity ends by itself
            return (INVALID, 0, 0, 0, 0)
        return await _given_back(self._limiter.release(tenant, user, route, request_id, permits, *network))

    def _answered(self, task: asyncio.Task[None], entries: int) -> None:
        self.under_way.discard(task)
        self._room.give_back(entries)
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


def _request_id(identity: bytes) -> str | None:
    return None if identity == NO_IDENTITY else identity.hex()


async def _given_back(amount: Awaitable[int]) -> tuple[int, ...]:
    try:
        given = await amount
    except errors.Unavailable:
        return (DEGRADED, 0, 0, 0, 0)
    except errors.Rejected:
        return (INVALID, 0, 0, 0, 0)
    return (int(given > 0), 0, given, 0, 0)


def _row_of(decided: Decision) -> tuple[int, ...]:
    flags = decided.allowed + DEGRADED * decided.degraded + DUPLICATE * decided.duplicate
    return (
        flags + APPROXIMATE * decided.approximate,
        min(decided.policy_version, VERSION_MAX),
        decided.remaining,
        decided.reset_ms,
        decided.retry_after_ms,
    )
