"""The blocking client of CHECK frames: what other processes of a host ask a gateway with.

Every entry travels under an identity: the caller's, or one that is made here. So an answer that was lost is asked for
again on a new connection, under the same identities, and consumes once. After the last attempt the caller gets
GatewayUnavailable: what was consumed is not known, and the caller may repeat it under the identities that it chose.
"""

from __future__ import annotations

import socket
import time
from typing import TYPE_CHECKING

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
from limiter.frames.frames import Answer
from schemas.limiter import limits

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType
    from typing import Self

_READ_BYTES = 262_144


class FrameClient:
    """Blocking; of one thread. One frame is under way at a time."""

    def __init__(self, address: Address, *, timeout_s: float = limits.LIMIT_FRAME_TIMEOUT_S) -> None:
        self._address = address
        self._timeout_s = timeout_s
        self._socket: socket.socket | None = None
        self._names = Names()
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
        return [answer for part in parts(checks) for answer in self._checked(part)]

    def refund(self, tenant: str, user: str, route: str, identity: bytes, network: str | None = None) -> int:
        """As ``Limiter.refund``, of what frames consumed. Raises GatewayUnavailable, InvalidCommand, FrameError."""
        return given_back(self._checked([Check(tenant, user, route, 0, identity, network)], frames.REFUND))

    def release(
        self, tenant: str, user: str, route: str, identity: bytes, permits: int = 1, network: str | None = None
    ) -> int:
        """As ``Limiter.release``, of what frames hold. Raises GatewayUnavailable, InvalidCommand, FrameError."""
        return given_back(self._checked([Check(tenant, user, route, permits, identity, network)], frames.RELEASE))

    def close(self) -> None:
        """The next question opens another connection."""
        if self._socket is not None:
            self._socket.close()
        self._socket, self._names = None, Names()
        self._received.clear()

    def _checked(self, checks: Sequence[Check], kind: int = frames.CHECK) -> list[Answer]:
        made = identities(checks)
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
        except ConnectionFull:
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
                if is_answer(frame) and frame.frame_id == frame_id:
                    return packing.answers(Answer, frame.body)

    def _connect(self) -> socket.socket:
        if isinstance(self._address, str):
            self._socket = socket.socket(socket.AF_UNIX)
            self._socket.settimeout(self._timeout_s)
            self._socket.connect(self._address)
        else:
            self._socket = socket.create_connection(self._address, self._timeout_s)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self._socket
