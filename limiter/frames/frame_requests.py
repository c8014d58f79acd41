"""What both clients of CHECK frames share: the decision to ask for, and how a connection's frames ask for it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from limiter.frames import frames, packing
from limiter.frames.frames import IDENTITY_BYTES, FrameError, Named
from schemas.errors import InvalidCommand, Unavailable
from schemas.limiter import limits

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from limiter.frames.frames import Answer, Frame

Address = str | tuple[str, int]  # path of a Unix socket, or host and port


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


class Names:
    """The keys that one connection has named."""

    def __init__(self) -> None:
        self._numbers: dict[Named, int] = {}
        self._bytes = 0

    def asked(self, frame_id: int, kind: int, checks: Sequence[Check], made: bytes) -> bytes:
        """The frames that ask: new names first. ``made``: identities of those without one.

        Raises FrameError, ConnectionFull.
        """
        new: list[Named] = []
        try:
            entries = packing.entries(self._numbers, checks, made, new)
        except (TypeError, ValueError) as error:
            raise FrameError("An entry has a cost or an identity that no frame can carry.") from error
        asked = frames.asking_frame(frame_id, entries, kind)
        return self._named(new) + asked if new else asked

    def _named(self, new: list[Named]) -> bytes:
        first = len(self._numbers) - len(new)
        found = b"".join(frames.keys_frame(first + at, [place]) for at, place in enumerate(new))
        self._bytes += len(found)
        if len(self._numbers) > limits.LIMIT_FRAME_KEYS_MAX or self._bytes > limits.LIMIT_FRAME_KEY_BYTES_MAX:
            raise ConnectionFull
        return found


class ConnectionFull(Exception):
    """The connection can name no more keys: a new one begins anew."""


def parts(checks: Sequence[Check]) -> Iterator[Sequence[Check]]:
    """As many at a time as a frame carries."""
    if len(checks) <= limits.LIMIT_FRAME_ENTRIES_MAX:
        yield checks
        return
    for at in range(0, len(checks), limits.LIMIT_FRAME_ENTRIES_MAX):
        yield checks[at : at + limits.LIMIT_FRAME_ENTRIES_MAX]


def identities(checks: Sequence[Check]) -> bytes:
    """An identity for each that has none: the same in every attempt."""
    return os.urandom(IDENTITY_BYTES * len(checks))


def given_back(answers: Sequence[Answer]) -> int:
    """Of one refund its cost, of one release its permits. Raises GatewayUnavailable, InvalidCommand."""
    if answers[0].flags & frames.DEGRADED:
        raise GatewayUnavailable(cause="the store or owner of the quota did not answer in time")
    if answers[0].flags & frames.INVALID:
        raise InvalidCommand([{"field": "identity", "reason": "must be one that a counted key was asked for with"}])
    return answers[0].remaining


def is_answer(frame: Frame) -> bool:
    """Raises FrameError for the gateway's refusal."""
    if frame.kind == frames.FAILED:
        raise FrameError(frame.body.decode(errors="replace"))
    return frame.kind == frames.ANSWER
