"""The one form of what names the same thing: percent-encoding, Unicode, dots and slashes do not tell apart.

Keys that are asked for and scopes of policies have the same form, or a policy would govern nothing. A text in this form
is its own form. ValueError says why a text has none. Source: spec 3 component 06, RFC 3986 6.
"""

from __future__ import annotations

import posixpath
import unicodedata
from typing import Final
from urllib.parse import unquote

from schemas.limiter import limits

_DECODINGS_MAX: Final = 4  # %2525...: a name that is still encoded after as many is refused


def normal_name(text: str) -> str:
    """A tenant or user in normal form. Raises ValueError."""
    return _checked(_decoded(text))


def normal_route(route: str) -> str:
    """A route in normal form: decoded, NFC, without dot segments, doubled or closing slashes; the query is no part.

    A question mark or hash that was encoded is one of the path, and stays encoded. Raises ValueError.
    """
    path = _decoded(route.partition("?")[0].partition("#")[0])
    if path.startswith("/"):
        path = posixpath.normpath("/" + path.lstrip("/"))
    return _checked(path.replace("?", "%3F").replace("#", "%23"))


def _decoded(text: str) -> str:
    for _ in range(_DECODINGS_MAX):
        try:
            decoded = unquote(text, errors="strict") if "%" in text else text
        except UnicodeDecodeError:
            raise ValueError("is not UTF-8 when decoded") from None
        if decoded == text:
            return unicodedata.normalize("NFC", text)
        text = decoded
    raise ValueError("is percent-encoded too often")


def _checked(text: str) -> str:
    if not 1 <= len(text) <= limits.LIMIT_KEY_PART_LENGTH_MAX:
        raise ValueError(f"must have 1 to {limits.LIMIT_KEY_PART_LENGTH_MAX} characters")
    if any(c < " " or c == "\x7f" or "\ud800" <= c <= "\udfff" for c in text):
        raise ValueError("must not contain control characters")
    return text
