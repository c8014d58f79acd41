"""Bodies of the ClickHouse front: framing and content codings, in bounded memory and with a bound on what comes out."""

from __future__ import annotations

import gzip
import zlib
from typing import TYPE_CHECKING, Final, Protocol

import lz4.frame  # type: ignore[import-untyped]
import zstandard

from compose import limits
from compose.stack.clickhouse.errors import (
    BAD_ARGUMENTS,
    CANNOT_DECOMPRESS,
    NOT_IMPLEMENTED,
    TOO_LARGE_BODY,
    QueryError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from email.message import Message
    from io import BufferedIOBase

_LINE_BYTES_MAX: Final = 1024
_GZIP_WINDOW: Final = 16 + zlib.MAX_WBITS
_COMPRESSION_LEVEL: Final = 1  # loopback: the coding is for compatibility, not for bandwidth


class FrameDecoder(Protocol):
    """An incremental decompressor of one frame; the decoders of gzip, zstd and lz4 have this shape."""

    @property
    def eof(self) -> bool:
        """Whether the frame is complete."""
        ...

    @property
    def unused_data(self) -> bytes | None:
        """What came after the end of the frame."""
        ...

    def decompress(self, data: bytes, /) -> bytes:
        """What these bytes decompress to."""
        ...


class Decoder:
    """Decompresses a body of any number of frames: clickhouse-connect makes one of every block."""

    def __init__(self, new_frame: Callable[[], FrameDecoder]) -> None:
        self._new_frame = new_frame
        self._frame: FrameDecoder | None = None

    def decompress(self, data: bytes) -> Iterator[bytes]:
        """The plain bytes; raises ``QueryError`` when the data are not what their coding says."""
        left = data
        while left:
            frame = self._frame = self._frame or self._new_frame()
            try:
                yield frame.decompress(left)
            except (zlib.error, zstandard.ZstdError, RuntimeError, EOFError) as error:
                reason = f"Cannot decompress the body: {error}"
                raise QueryError.named(CANNOT_DECOMPRESS, "CANNOT_DECOMPRESS", reason) from error
            left = frame.unused_data or b"" if frame.eof else b""
            if frame.eof:
                self._frame = None

    def finish(self) -> None:
        """Raises ``QueryError`` when a frame is not complete."""
        if self._frame is not None:
            raise QueryError.named(CANNOT_DECOMPRESS, "CANNOT_DECOMPRESS", "The compressed body ends too early")


def body_chunks(stream: BufferedIOBase, headers: Message) -> Iterator[bytes]:
    """The request's body as it was before its Content-Encoding; raises ``QueryError`` past the size bound."""
    decoder = _decoder(headers.get("Content-Encoding", "").strip().lower())
    framed = _chunked if "chunked" in headers.get("Transfer-Encoding", "").lower() else _counted
    total = 0
    for chunk in framed(stream, headers):
        for plain in decoder.decompress(chunk) if decoder else (chunk,):
            total += len(plain)
            if total > limits.CLICKHOUSE_BODY_BYTES_MAX:
                reason = f"The body is larger than {limits.CLICKHOUSE_BODY_BYTES_MAX} bytes"
                raise QueryError.named(TOO_LARGE_BODY, "TOO_MANY_BYTES", reason)
            yield plain
    if decoder:
        decoder.finish()


def _decoder(coding: str) -> Decoder | None:
    match coding:
        case "" | "identity":
            return None
        case "gzip":
            return Decoder(lambda: zlib.decompressobj(_GZIP_WINDOW))
        case "deflate":
            return Decoder(zlib.decompressobj)
        case "zstd":
            return Decoder(lambda: zstandard.ZstdDecompressor().decompressobj())
        case "lz4":
            return Decoder(lz4.frame.LZ4FrameDecompressor)
    raise QueryError.named(NOT_IMPLEMENTED, "NOT_IMPLEMENTED", f"Unknown content encoding {coding!r}")


def _counted(stream: BufferedIOBase, headers: Message) -> Iterator[bytes]:
    try:
        left = int(headers.get("Content-Length") or 0)
    except ValueError:
        raise QueryError.named(BAD_ARGUMENTS, "BAD_ARGUMENTS", "Content-Length is not a number") from None
    while left > 0:
        chunk = stream.read(min(left, limits.CLICKHOUSE_CHUNK_BYTES))
        if not chunk:
            raise ConnectionResetError("the client left in the middle of its body")
        left -= len(chunk)
        yield chunk


def _chunked(stream: BufferedIOBase, _headers: Message) -> Iterator[bytes]:
    while True:
        line = stream.readline(_LINE_BYTES_MAX)
        try:
            left = int(line.split(b";", 1)[0].strip(), 16)
        except ValueError:
            raise ConnectionResetError("the client broke its chunked body") from None
        if left == 0:
            while stream.readline(_LINE_BYTES_MAX).strip():
                pass  # trailers
            return
        while left:
            chunk = stream.read(min(left, limits.CLICKHOUSE_CHUNK_BYTES))
            if not chunk:
                raise ConnectionResetError("the client left in the middle of its body")
            left -= len(chunk)
            yield chunk
        stream.readline(_LINE_BYTES_MAX)


def accepted_coding(headers: Message) -> str | None:
    """The coding that the answer gets: the first of ours that the client accepts."""
    offered = {part.split(";", 1)[0].strip().lower() for part in headers.get("Accept-Encoding", "").split(",")}
    return next((coding for coding in ("zstd", "lz4", "gzip") if coding in offered), None)


def compress(coding: str, body: bytes) -> bytes:
    """The whole body in one of the codings of ``accepted_coding``."""
    match coding:
        case "zstd":
            return zstandard.compress(body, _COMPRESSION_LEVEL)
        case "lz4":
            packed: bytes = lz4.frame.compress(body)
            return packed
        case _:
            return gzip.compress(body, _COMPRESSION_LEVEL)
