"""Bodies of the ClickHouse front: framing and content codings, in bounded memory and with a bound on what comes out."""

from __future__ import annotations

import gzip
import zlib
from typing import TYPE_CHECKING, Final, Protocol

import lz4.frame
from backports import zstd

from compose.stack.clickhouse_errors import (
    BAD_ARGUMENTS,
    CANNOT_DECOMPRESS,
    NOT_IMPLEMENTED,
    TOO_LARGE_BODY,
    QueryError,
)
from schemas import limits

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import BinaryIO

_LINE_BYTES_MAX: Final = 1024
_GZIP_WINDOW: Final = 16 + zlib.MAX_WBITS
_COMPRESSION_LEVEL: Final = 1  # loopback: the coding is for compatibility, not for bandwidth


class Decoder(Protocol):
    """An incremental decompressor."""

    def decompress(self, data: bytes, /) -> bytes:
        """What these bytes decompress to."""
        ...


def body_chunks(stream: BinaryIO, headers: Mapping[str, str]) -> Iterator[bytes]:
    """The request's body as it was before its Content-Encoding; raises ``QueryError`` past the size bound."""
    decoder = _decoder(headers.get("Content-Encoding", "").strip().lower())
    framed = _chunked if "chunked" in headers.get("Transfer-Encoding", "").lower() else _counted
    total = 0
    for chunk in framed(stream, headers):
        plain = _decode(decoder, chunk)
        total += len(plain)
        if total > limits.CLICKHOUSE_BODY_BYTES_MAX:
            reason = f"The body is larger than {limits.CLICKHOUSE_BODY_BYTES_MAX} bytes"
            raise QueryError.named(TOO_LARGE_BODY, "TOO_MANY_BYTES", reason)
        yield plain
    if not getattr(decoder, "eof", True) and total:
        raise QueryError.named(CANNOT_DECOMPRESS, "CANNOT_DECOMPRESS", "The compressed body ends too early")


def _decode(decoder: Decoder | None, chunk: bytes) -> bytes:
    if decoder is None:
        return chunk
    try:
        return decoder.decompress(chunk)
    except (zlib.error, zstd.ZstdError, RuntimeError, EOFError) as error:
        raise QueryError.named(
            CANNOT_DECOMPRESS, "CANNOT_DECOMPRESS", f"Cannot decompress the body: {error}"
        ) from error


def _decoder(coding: str) -> Decoder | None:
    match coding:
        case "" | "identity":
            return None
        case "gzip":
            return zlib.decompressobj(_GZIP_WINDOW)
        case "deflate":
            return zlib.decompressobj()
        case "zstd":
            return zstd.ZstdDecompressor()
        case "lz4":
            decoder: Decoder = lz4.frame.LZ4FrameDecompressor()
            return decoder
    raise QueryError.named(NOT_IMPLEMENTED, "NOT_IMPLEMENTED", f"Unknown content encoding {coding!r}")


def _counted(stream: BinaryIO, headers: Mapping[str, str]) -> Iterator[bytes]:
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


def _chunked(stream: BinaryIO, _headers: Mapping[str, str]) -> Iterator[bytes]:
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


def accepted_coding(headers: Mapping[str, str]) -> str | None:
    """The coding that the answer gets: the first of ours that the client accepts."""
    offered = {
        part.split(";", 1)[0].strip().lower() for part in headers.get("Accept-Encoding", "").split(",")
    }
    return next((coding for coding in ("zstd", "lz4", "gzip") if coding in offered), None)


def compress(coding: str, body: bytes) -> bytes:
    """The whole body in one of the codings of ``accepted_coding``."""
    match coding:
        case "zstd":
            return zstd.compress(body, _COMPRESSION_LEVEL)
        case "lz4":
            packed: bytes = lz4.frame.compress(body)
            return packed
        case _:
            return gzip.compress(body, _COMPRESSION_LEVEL)
