"""Header fields that can mean two things are refused before anything reads them: which one counts, nobody has to guess.

A proxy that reads the first of two Authorization fields and a service that reads the last one do not speak of the same
caller (RFC 9110, 5.3; RFC 9112, 3.2). The server has refused contradicting lengths by then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ingress import limits
from ingress.http import problems
from schemas import errors

if TYPE_CHECKING:
    from collections.abc import Sequence

_SINGLE: Final = frozenset((b"authorization", b"host", b"content-length", b"content-type", b"x-deadline-ms"))
_HOST: Final = (b"host", b"")  # how the server hands on a request of HTTP/1 that names none


def why_refused(fields: Sequence[tuple[bytes, bytes]]) -> errors.Rejected | None:
    """Why a request with these fields is answered unread; None when it is not."""
    if len(fields) > limits.HEADERS_MAX:
        return problems.HeadersTooLarge()
    seen: set[bytes] = set()
    for name, _ in fields:
        if name in _SINGLE:
            if name in seen:
                return errors.MalformedRequest(f"The field {name.decode().title()} is given twice.")
            seen.add(name)
    return errors.MalformedRequest("The request names no Host.") if _HOST in fields else None
