"""Batched binary CHECK frames: what travels between a gateway and other processes of its host. Pure: no sockets here.

A frame is a header and its body, all little-endian. ``KEYS`` names keys once: the n-th key of a connection has the
number n; ``CLIENT_KEYS`` names keys with the client's address. ``CHECK`` asks for decisions on numbered keys, each
under a request identity of 16 bytes (zeros: none). ``REFUND`` gives back what entries consumed of durable quotas: a row
is ALLOWED where there was something, with its cost as ``remaining``, DEGRADED where nobody knows yet. ``RELEASE`` frees
the permits that entries hold, as many as their cost, and is answered alike. ``ANSWER`` has
one row for each entry, in the same order, under the same frame id; ``FAILED`` says why the connection ends. A frame is
checked whole before anything of it is consumed.
Source: reference limiter 3 rule 9.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from schemas.errors import PlatformError
from schemas.limiter import limits

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Place = tuple[str, str, str]  # tenant, user, route
Named = tuple[str, ...]  # a place; in ``CLIENT_KEYS`` with the client's address

HEADER: Final = struct.Struct("<2sBBIII")  # magic, version, kind, entries, bytes of the body, frame id
ENTRY: Final = struct.Struct("<II16s")  # number of the key, cost, request identity
ROW: Final = struct.Struct("<IIqqq")  # flags, policy version, remaining, reset_ms, retry_after_ms
#: bytes of tenant, user, route; of the client's address too
_LENGTHS: Final = {3: struct.Struct("<HHH"), 4: struct.Struct("<HHHH")}
_MAGIC: Final = b"rf"
VERSION: Final = 1
KEYS, CHECK, ANSWER, FAILED, CLIENT_KEYS, REFUND, RELEASE = 1, 2, 3, 4, 5, 6, 7
_PARTS: Final = {KEYS: 3, CLIENT_KEYS: 4}
_KINDS: Final = {parts: kind for kind, parts in _PARTS.items()}
_SIZES: Final = {CHECK: ENTRY.size, REFUND: ENTRY.size, RELEASE: ENTRY.size, ANSWER: ROW.size}
ALLOWED, DEGRADED, DUPLICATE, APPROXIMATE = 1, 2, 4, 8
#: nothing was decided: what can be no key or cost; an identity that had another cost
INVALID, REUSED = 16, 32
IDENTITY_BYTES: Final = 16
NO_IDENTITY: Final = bytes(IDENTITY_BYTES)
FRAME_ID_MAX: Final = 2**32 - 1
COST_MAX: Final = 2**32 - 1
VERSION_MAX: Final = 2**32 - 1  # of a policy, as a row tells it
_PART_BYTES_MAX: Final = 2**16 - 1  # of a key; percent-encoded, it may be longer than its normal form
_REASON_BYTES_MAX: Final = 256


class FrameError(PlatformError):
    """The bytes are no frame of this protocol; the message says why."""

    code = "frame_wrong"


class Frame(NamedTuple):
    """One frame as it was received."""

    kind: int
    entries: int
    frame_id: int
    body: bytes


class Answer(NamedTuple):
    """One decision as a client sees it: the fields of ``Decision``, and what was refused without deciding."""

    allowed: bool
    remaining: int
    reset_ms: int
    retry_after_ms: int
    policy_version: int
    flags: int


def keys_frame(first: int, places: Sequence[Named]) -> bytes:
    """Names the keys ``first``, ``first + 1``..., all of one kind. Raises FrameError for what a frame cannot carry."""
    count = len(places[0]) if places else _PARTS[KEYS]
    lengths = _LENGTHS[count]
    parts = []
    for place in places:
        texts = [_utf8(text) for text in place]
        parts += [lengths.pack(*map(len, texts)), *texts]
    return _framed(_KINDS[count], len(places), first, b"".join(parts))


def check_frame(frame_id: int, entries: Sequence[tuple[int, int, bytes]], kind: int = CHECK) -> bytes:
    """Asks for decisions, refunds or releases: (number of the key, cost, identity).

    Raises FrameError for what a frame cannot carry.
    """
    flat: list[int | bytes] = []
    for entry in entries:
        flat += entry
    try:
        body = _entries_of(len(entries)).pack(*flat)
    except struct.error as error:
        raise FrameError("An entry has a number, a cost or an identity out of range.") from error
    return asking_frame(frame_id, body, kind)


def asking_frame(frame_id: int, body: bytes, kind: int = CHECK) -> bytes:
    """The frame of packed entries. Raises FrameError for too many."""
    return _framed(kind, len(body) // ENTRY.size, frame_id, body)


def answer_frame(frame_id: int, rows: bytes | bytearray) -> bytes:
    """Answers a frame: one ``ROW`` for each entry."""
    return HEADER.pack(_MAGIC, VERSION, ANSWER, len(rows) // ROW.size, len(rows), frame_id) + rows


def failed_frame(frame_id: int, reason: str) -> bytes:
    """Says why the connection ends."""
    return _framed(FAILED, 0, frame_id, reason.encode(errors="replace")[:_REASON_BYTES_MAX])


def frames(received: bytearray) -> Iterator[Frame]:
    """Takes whole frames off the front of what was received. Raises FrameError for a header that can begin none."""
    while len(received) >= HEADER.size:
        magic, version, kind, count, size, frame_id = HEADER.unpack_from(received)
        if magic != _MAGIC or version != VERSION:
            raise FrameError("This is no frame of version 1.")
        if not KEYS <= kind <= RELEASE:
            raise FrameError("The kind of the frame is not known.")
        if count > limits.LIMIT_FRAME_ENTRIES_MAX or size > limits.LIMIT_FRAME_BYTES_MAX:
            raise FrameError("The frame is too large.")
        if kind in _SIZES and size != count * _SIZES[kind]:
            raise FrameError("The frame's count and its bytes do not agree.")
        end = HEADER.size + size
        if len(received) < end:
            return
        body = bytes(memoryview(received)[HEADER.size : end])
        del received[:end]
        yield Frame(kind, count, frame_id, body)


def places_of(frame: Frame) -> list[Named]:
    """The keys that a frame names. Raises FrameError when count, lengths and bytes do not agree, or it is no UTF-8."""
    found: list[Named] = []
    at, body, head = 0, frame.body, _LENGTHS[_PARTS[frame.kind]]
    try:
        for _ in range(frame.entries):
            lengths = head.unpack_from(body, at)
            at += head.size
            texts = []
            for length in lengths:
                texts.append(body[at : at + length].decode())
                at += length
            found.append(tuple(texts))
    except (struct.error, UnicodeDecodeError) as error:
        raise FrameError("The names of the keys cannot be read.") from error
    if at != len(body):
        raise FrameError("The frame's count and its bytes do not agree.")
    return found


def greatest_number(frame: Frame) -> int:
    """The greatest number of a key that a frame's entries name; there is at least one."""
    return int(max(_numbers_of(frame.entries).unpack(frame.body)))


def _framed(kind: int, count: int, frame_id: int, body: bytes) -> bytes:
    if count > limits.LIMIT_FRAME_ENTRIES_MAX or len(body) > limits.LIMIT_FRAME_BYTES_MAX:
        raise FrameError("The frame is too large.")
    return HEADER.pack(_MAGIC, VERSION, kind, count, len(body), frame_id) + body


def _utf8(text: str) -> bytes:
    """Raises FrameError for a text that is too long for any key, or that is no Unicode."""
    try:
        found = text.encode()
    except UnicodeEncodeError as error:
        raise FrameError("A part of a key is no Unicode.") from error
    if len(found) > _PART_BYTES_MAX:
        raise FrameError("A part of a key is too long.")
    return found


@lru_cache(limits.LIMIT_FRAME_ENTRIES_MAX + 1)
def _entries_of(count: int) -> struct.Struct:
    return struct.Struct("<" + "II16s" * count)


@lru_cache(limits.LIMIT_FRAME_ENTRIES_MAX + 1)
def _numbers_of(count: int) -> struct.Struct:
    return struct.Struct("<" + "I20x" * count)
