"""Reads what HTTP brings, within bounds: bodies, media types, query values, the trace."""

from __future__ import annotations

import re
import secrets
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from schemas import errors, limits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.requests import Request

JSON: Final = ("application/json",)
NDJSON: Final = ("application/x-ndjson", "application/ndjson", "application/jsonl")
_IDENTITY_CODING: Final = "identity"  # of Content-Encoding: none
_TRACEPARENT: Final = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}")
_NO_TRACE: Final = "0" * 32
_TRACE_BYTES: Final = 16
_IDENTITY: Final = re.compile(rf"[A-Za-z0-9_]{{1,{limits.AGGREGATE_KEY_LENGTH_MAX}}}")
_WORD: Final = re.compile(rf"[a-z0-9_]{{1,{limits.AGGREGATE_KEY_LENGTH_MAX}}}")
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)", re.ASCII)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_SECOND_US: Final = 1_000_000


async def body(request: Request, media_types: tuple[str, ...], bytes_max: int) -> bytes:
    """The whole body. Raises UnsupportedMediaType and TooLarge; what it leaves unread, WholeRequests drops.

    One that is announced as too large is not asked for: who waits for a word (100 Continue) hears the refusal instead.
    """
    kept = bytearray()
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and int(announced) > bytes_max:
        raise _too_large(bytes_max)
    if request.headers.get("content-encoding", _IDENTITY_CODING).strip().lower() != _IDENTITY_CODING:
        raise errors.UnsupportedMediaType("Send the body as it is, without a content coding.")
    async for chunk in request.stream():
        kept += chunk
        if len(kept) > bytes_max:
            raise _too_large(bytes_max)
    if kept or "content-type" in request.headers:
        _require_media_type(request.headers.get("content-type", ""), media_types)
    return bytes(kept)


def _too_large(bytes_max: int) -> errors.TooLarge:
    return errors.TooLarge(f"The body is larger than {bytes_max} bytes.")


def _require_media_type(value: str, allowed: tuple[str, ...]) -> None:
    media_type, *parameters = (part.strip().lower() for part in value.split(";"))
    charsets = [p.partition("=")[2].strip('"') for p in parameters if p.startswith("charset=")]
    if media_type not in allowed or any(charset not in ("utf-8", "utf8") for charset in charsets):
        raise errors.UnsupportedMediaType(f"Send {allowed[0]} in UTF-8.")


def limit(request: Request, default: int, largest: int) -> int:
    """The query value ``limit``. Raises InvalidCommand when it is not a number from 1 to the largest page."""
    text = query(request, "limit")
    if text is None:
        return default
    if text.isascii() and text.isdigit() and len(text) <= len(str(largest)) and 1 <= int(text) <= largest:
        return int(text)
    raise _wrong("limit", f"must be a number from 1 to {largest}")


def identity(request: Request, name: str) -> str | None:
    """A query value that is an id, or None. Raises InvalidCommand for a text that can be nobody's id."""
    text = query(request, name)
    if text is not None and not _IDENTITY.fullmatch(text):
        raise _wrong(name, "must be an id as we gave it")
    return text


def word(request: Request, name: str) -> str | None:
    """A query value that is a name of ours, such as a kind, or None. Raises InvalidCommand."""
    text = query(request, name)
    if text is not None and not _WORD.fullmatch(text):
        raise _wrong(name, "must be a word of lower-case letters, digits and underscores")
    return text


def choice(request: Request, name: str, allowed: Sequence[str]) -> str | None:
    """A query value out of a few, or None. Raises InvalidCommand."""
    text = query(request, name)
    if text is not None and text not in allowed:
        raise _wrong(name, "must be one of " + ", ".join(allowed))
    return text


def past_time(request: Request, name: str) -> int | None:
    """A query value that is a past time (RFC 3339), in microseconds since the epoch, or None. Raises InvalidCommand."""
    time_us = moment(request, name)
    if time_us is not None and time_us > time.time_ns() // 1_000 + limits.CLOCK_SKEW_MAX_S * _SECOND_US:
        raise _wrong(name, "must not lie in the future")
    return time_us


def moment(request: Request, name: str) -> int | None:
    """A query value that is a time (RFC 3339), in microseconds since the epoch, or None. Raises InvalidCommand."""
    text = query(request, name)
    if text is None:
        return None
    try:
        found = datetime.fromisoformat(text.upper()) if _TIME.fullmatch(text) else None
    except ValueError:  # a 30th of February
        found = None
    if found is None:
        raise _wrong(name, "must be an RFC 3339 time such as 2026-01-02T03:04:05Z, with + written as %2B")
    return (found - _EPOCH) // _MICROSECOND


def _wrong(name: str, reason: str) -> errors.InvalidCommand:
    return errors.InvalidCommand([{"field": name, "reason": reason}], f"The query value {name} {reason}.")


def query(request: Request, name: str) -> str | None:
    """A query value. Raises MalformedRequest when it is given more than once."""
    values = request.query_params.getlist(name)
    if len(values) > 1:
        raise errors.MalformedRequest(f"The query value {name} is given more than once.")
    return values[0] if values else None


def trace_id(request: Request) -> str:
    """The caller's trace (W3C traceparent), or a new one."""
    found = _TRACEPARENT.fullmatch(request.headers.get("traceparent", ""))
    if found and found.group(1) != _NO_TRACE:
        return found.group(1)
    return secrets.token_hex(_TRACE_BYTES)
