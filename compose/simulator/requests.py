"""Reading requests: a bounded JSON body, strict, and nothing changed when it is none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from compose.simulator import errors, limits

if TYPE_CHECKING:
    from starlette.requests import Request

T = TypeVar("T")
JSON: Final = "application/json"


async def content_of(request: Request, bytes_max: int = limits.SIMULATOR_BODY_BYTES_MAX) -> bytes:
    """The bytes of a JSON body. Raises UnsupportedMediaType, TooLarge."""
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != JSON:
        raise errors.UnsupportedMediaType
    content = bytearray()
    async for chunk in request.stream():
        content += chunk
        if len(content) > bytes_max:
            raise errors.TooLarge
    return bytes(content)


def read(content: bytes, decoder: msgspec.json.Decoder[T]) -> T:
    """The body as its decoder knows it. Raises InvalidOperation with the first wrong field, MalformedRequest."""
    try:
        return decoder.decode(content)
    except msgspec.ValidationError as error:
        raise errors.InvalidOperation(errors=[_field_error(str(error))]) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise errors.MalformedRequest from error


def _field_error(message: str) -> dict[str, str]:
    # The decoder's message names the place and the rule, and holds no value of the caller's: no card number either.
    reason, _, path = message.partition(" - at `$")
    return {"field": path.strip(".`") or "body", "reason": reason}
