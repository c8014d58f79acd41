"""Reads what HTTP brings, within bounds: bodies, media types, query values, the trace."""

from __future__ import annotations

import re
import secrets
from typing import TYPE_CHECKING, Final

from schemas import errors, limits

if TYPE_CHECKING:
    from starlette.requests import Request

JSON: Final = ("application/json",)
NDJSON: Final = ("application/x-ndjson", "application/ndjson", "application/jsonl")
_TRACEPARENT: Final = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}")
_NO_TRACE: Final = "0" * 32
_TRACE_BYTES: Final = 16


async def body(request: Request, media_types: tuple[str, ...], bytes_max: int) -> bytes:
    """The whole body. Raises UnsupportedMediaType, or TooLarge after the rest was read and dropped (to a bound)."""
    kept = bytearray()
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        if size <= bytes_max:
            kept += chunk
        elif size > bytes_max + limits.BODY_DRAIN_BYTES_MAX:
            break
    if size > bytes_max:
        raise errors.TooLarge(f"The body is larger than {bytes_max} bytes.")
    if kept or "content-type" in request.headers:
        _require_media_type(request.headers.get("content-type", ""), media_types)
    return bytes(kept)


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
    reason = f"must be a number from 1 to {largest}"
    raise errors.InvalidCommand([{"field": "limit", "reason": reason}], f"The limit {reason}.")


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
