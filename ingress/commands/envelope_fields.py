"""Fields of an envelope that header fields may also give; if both do, they must agree."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from ingress import limits
from schemas import errors

if TYPE_CHECKING:
    from starlette.datastructures import Headers

_ETAG: Final = re.compile(r'(?P<quote>"?)(?P<version>[0-9]{1,15})(?P=quote)\Z')


class Fields(Struct):
    """The values of the header fields; None for a missing one."""

    idempotency_key: str | None = None
    request_id: str | None = None
    expected_version: int | None = None


def header_fields(headers: Headers) -> Fields:
    """Idempotency-Key, X-Request-Id and If-Match. Raises MalformedRequest when one is given twice or unreadable."""
    key = _single(headers, "idempotency-key")
    match = _single(headers, "if-match")
    version = None
    if match is not None and match != "*":
        found = _ETAG.match(match)
        if found is None:
            raise errors.MalformedRequest('If-Match must be one version in quotes, such as "3".')
        version = int(found.group("version"))
    return Fields(idempotency_key=key, request_id=_single(headers, "x-request-id"), expected_version=version)


def agreed(name: str, body: dict[str, Any], header: object) -> object:
    """The one value that body and header give. Raises MalformedRequest if they differ."""
    said = body.get(name)
    if said is None:
        return header
    if header is not None and said != header:
        raise errors.MalformedRequest(f"The header and the field {name} contradict each other.")
    return said


def text_in(value: object, name: str) -> str | None:
    """The text of a field. Raises MalformedRequest if it is none."""
    if value is None or isinstance(value, str):
        return value
    raise errors.MalformedRequest(f"The field {name} must be a string.")


def version_in(value: object) -> int | None:
    """The version in a field. Raises MalformedRequest if it is no integer, InvalidCommand if it is no version."""
    if value is None:
        return None
    if type(value) is not int:  # a bool is an int in Python, and not a version
        raise errors.MalformedRequest("The field expected_version must be an integer.")
    if not 0 <= value <= limits.EXPECTED_VERSION_MAX:
        reason = f"must be from 0 to {limits.EXPECTED_VERSION_MAX}"
        raise errors.InvalidCommand([{"field": "expected_version", "reason": reason}])
    return value


def _single(headers: Headers, name: str) -> str | None:
    values = headers.getlist(name)
    if len(values) > 1:
        raise errors.MalformedRequest(f"The header field {name} is given more than once.")
    return values[0] if values else None
