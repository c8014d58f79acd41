"""One connection to Valkey for all tasks of a loop: commands of one turn leave in one write, answers come in order.

A command is sent once. When its answer is late whoever waits is told, and nobody else: whether the store charged is not
known then. When nothing at all came for longer, or the connection ends, everybody is told. Only the answers that we
ask for are understood: integers, rows of them, texts; a text that is not there is an empty one.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any, Final, cast

from redis.asyncio.connection import parse_url

if TYPE_CHECKING:
    from collections.abc import Sequence

_END: Final = b"\r\n"
_PORT: Final = 6379


class LineLost(Exception):
    """The answer was late or never came."""


class AnswerLate(LineLost):
    """The answer was late; the store answers others. ``answer``: what it says in the end, cancelled when nothing."""

    def __init__(self, why: str, answer: asyncio.Future[Reply] | None = None) -> None:
        super().__init__(why)
        self.answer = answer


class Refusal(str):
    """What the server answers instead of a result."""

    __slots__ = ()


Reply = int | list[int] | str | Refusal


class Line(asyncio.Protocol):
    """A connection; ``send`` gives the future of the answer, which ends within ``timeout_s`` of the sending.

    ``timeout_s`` may be changed: what is sent from then on has so long. A server that owes an answer and says nothing
    for the one that the connection began with has lost it.
    """

    def __init__(self, timeout_s: float) -> None:
        self.timeout_s = timeout_s
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._leaving: list[bytes] = []
        self._silence_s = timeout_s
        self._heard = self._loop.time()
        self._waiting: deque[tuple[asyncio.Future[Reply], float]] = deque()
        self._told_late = 0  # of those who wait, the first so many were told
        self._rest = b""
        self._watch: asyncio.TimerHandle | None = None
        self.lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:  # noqa: D102 - of asyncio.Protocol
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: D102 - of asyncio.Protocol
        self.lose(type(exc).__name__ if exc else "connection closed")

    def send(self, command: bytes) -> asyncio.Future[Reply]:
        """Raises LineLost, and so does the future."""
        if self.lost:
            raise LineLost("connection closed")
        if not self._leaving:
            self._loop.call_soon(self._flush)
        self._leaving.append(command)
        answered: asyncio.Future[Reply] = self._loop.create_future()
        now = self._loop.time()
        self._waiting.append((answered, now))
        if self._watch is None or self._watch.when() > now + self.timeout_s:  # it may wait for silence only
            self._watch_until(now + self.timeout_s)
        return answered

    def _watch_until(self, when: float) -> None:
        if self._watch is not None:
            self._watch.cancel()
        self._watch = self._loop.call_at(when, self._look)

    def _flush(self) -> None:
        leaving, self._leaving = self._leaving, []
        if self._transport is not None and not self.lost:
            self._transport.write(b"".join(leaving))

    def _look(self) -> None:
        """Who waits for too long is told; the oldest question tells whether the store answers at all."""
        self._watch = None
        if not self._waiting:
            return
        now = self._loop.time()
        silent_until = max(self._heard, self._waiting[0][1]) + self._silence_s
        if now >= silent_until:
            self.lose("no answer in time")
            return
        while self._told_late < len(self._waiting):
            answered, sent = self._waiting[self._told_late]
            if now < sent + self.timeout_s:
                silent_until = min(silent_until, sent + self.timeout_s)
                break
            if not answered.done():
                late: asyncio.Future[Reply] = self._loop.create_future()
                self._waiting[self._told_late] = (late, sent)
                answered.set_exception(AnswerLate("no answer in time", late))
            self._told_late += 1
        self._watch_until(silent_until)

    def lose(self, why: str) -> None:
        """Ends the connection; everybody who waits is told why."""
        self.lost = True
        waiting, self._waiting = self._waiting, deque()
        for place, (answered, _) in enumerate(waiting):
            if place < self._told_late:
                answered.cancel()
            elif not answered.done():
                answered.set_exception(LineLost(why))
        if self._watch is not None:
            self._watch.cancel()
        if self._transport is not None:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:  # noqa: D102 - of asyncio.Protocol
        self._heard = self._loop.time()
        lines = (self._rest + data).split(_END)
        self._rest = lines.pop()
        at, end = 0, len(lines)
        try:
            while at < end:
                reply, after = _reply(lines, at)
                if after > end:  # the rest of it is to come
                    self._rest = _END.join([*lines[at:], self._rest])
                    return
                at = after
                answered, _ = self._waiting.popleft()
                self._told_late = max(0, self._told_late - 1)
                if not answered.done():
                    answered.set_result(reply)
        except (ValueError, IndexError):
            self.lose("an answer that cannot be read")


def _reply(lines: list[bytes], at: int) -> tuple[Reply, int]:
    """The answer that begins at a line, and the line after it. Raises ValueError."""
    line = lines[at]
    kind = line[:1]
    if kind == b"*":
        count = int(line[1:])
        if lines[at + 1 : at + 2] and lines[at + 1][:1] == b"$":  # TIME says its integers as texts
            after = at + 1 + 2 * count
            return ([int(row) for row in lines[at + 2 : after : 2]] if after <= len(lines) else 0), after
        after = at + 1 + count
        return ([int(row[1:]) for row in lines[at + 1 : after]] if after <= len(lines) else 0), after
    if kind == b":":
        return int(line[1:]), at + 1
    if kind == b"+":
        return line[1:].decode(), at + 1
    if kind == b"-":
        return Refusal(line[1:].decode(errors="replace")), at + 1
    if kind == b"$":
        return _text(lines, at + 1, int(line[1:]))
    raise ValueError


def _text(lines: list[bytes], at: int, length: int) -> tuple[Reply, int]:
    """A text of so many bytes, which may have several lines (INFO); -1 where there is none."""
    if length < 0:
        return "", at
    for after in range(at + 1, len(lines) + 1):
        text = _END.join(lines[at:after])
        if len(text) >= length:
            return text.decode(), after
    return 0, len(lines) + 1


def command(*words: bytes) -> bytes:
    """A command as it travels."""
    return b"*%d\r\n" % len(words) + b"".join([b"$%d\r\n%b\r\n" % (len(word), word) for word in words])


def function_call(name: bytes, keys: Sequence[bytes], arguments: Sequence[bytes]) -> bytes:
    """A call of a function of the store."""
    return command(b"FCALL", name, b"%d" % len(keys), *keys, *arguments)


def script_call(sha: bytes, keys: Sequence[bytes], arguments: Sequence[bytes]) -> bytes:
    """A call of a script that is loaded."""
    return command(b"EVALSHA", sha, b"%d" % len(keys), *keys, *arguments)


async def opened(url: str, timeout_s: float) -> Line:
    """A connection that may be used. Raises OSError, LineLost, TimeoutError."""
    place: dict[str, Any] = dict(parse_url(url))
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(timeout_s):
        if "path" in place:
            _, line = await loop.create_unix_connection(lambda: Line(timeout_s), place["path"])
        else:
            secure = True if url.startswith("rediss:") else None
            host, port = place.get("host", "localhost"), place.get("port", _PORT)
            _, line = await loop.create_connection(lambda: Line(timeout_s), host, port, ssl=secure)
    greeting = []
    if place.get("password"):
        words = [place[name].encode() for name in ("username", "password") if place.get(name)]
        greeting.append(command(b"AUTH", *words))
    if place.get("db"):
        greeting.append(command(b"SELECT", b"%d" % place["db"]))
    for answer in await asyncio.gather(*(line.send(words) for words in greeting)):
        if isinstance(answer, Refusal):
            line.lose(answer)
            raise LineLost(answer.partition(" ")[0])
    return line


class KeptLine:
    """A connection that is made when somebody asks, and again when it ended."""

    def __init__(self, url: str, timeout_s: float) -> None:
        """``url`` holds the password: never log it."""
        self._url = url
        self._timeout_s = timeout_s
        self._line: Line | None = None
        self._connecting = asyncio.Lock()

    async def asked(self, words: bytes) -> Reply:
        """The answer to what may be asked twice: again, once, when the connection ends. Raises LineLost, OSError."""
        try:
            return await (await self._connected()).send(words)
        except AnswerLate:
            raise
        except LineLost:
            return await (await self._connected()).send(words)

    async def _connected(self) -> Line:
        if self._line is not None and not self._line.lost:
            return self._line
        async with self._connecting:
            if self._line is None or self._line.lost:
                self._line = await opened(self._url, self._timeout_s)
            return self._line

    def close(self) -> None:
        """Disconnects."""
        if self._line is not None:
            self._line.lose("closed")
