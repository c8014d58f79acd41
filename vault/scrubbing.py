"""Takes a card number out of what a processor answers, in whatever writing; what cannot be cleaned is withheld.

If this missed a writing, a processor that echoes requests would put card numbers into our tables and logs.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from typing import Any, Final

import msgspec

from ingress import limits
from schemas import errors

_SHOWN: Final = 4
_ALIGNMENTS: Final = 3  # of a text inside a base64 text
_GAP: Final = rb"(?:%20|[^0-9A-Za-z]{0,3})"  # blanks, dashes, the zero bytes of UTF-16
_decode: Final = msgspec.json.Decoder().decode
_encode: Final = msgspec.json.Encoder().encode


class Withheld(errors.PlatformError):
    """An answer holds a card number in a form that cannot be cleaned."""


def scrubbed(body: bytes, number: str) -> tuple[bytes, bool]:
    """The body without the number, and whether it held it. JSON stays JSON. Raises Withheld."""
    patterns = _patterns(number)
    try:
        value = _decode(body)
    except (ValueError, RecursionError):  # not JSON: msgspec's errors and UnicodeDecodeError are ValueErrors
        return _clean_bytes(body, number, patterns)
    cleaned = _clean(value, lambda text: _clean_text(text, number, patterns), limits.JSON_DEPTH_MAX)
    if cleaned == value and not _holds(body, patterns):
        return body, False
    rendered = _encode(cleaned)
    if _holds(rendered, patterns):
        raise Withheld
    return rendered, True


def holds_number(text: str, number: str) -> bool:
    """Whether a text holds the number in any writing that is known here."""
    return _holds(text.encode(errors="replace"), _patterns(number))


def _patterns(number: str) -> list[re.Pattern[bytes]]:
    digits = number.encode()
    apart = _GAP.join(re.escape(digits[n : n + 1]) for n in range(len(digits)))
    encoded = [re.escape(core) for core in _base64_cores(digits)]
    hexadecimal = b"".join(b"3" + digits[n : n + 1] for n in range(len(digits)))
    return [re.compile(pattern) for pattern in (apart, *encoded, hexadecimal)]


def _base64_cores(digits: bytes) -> list[bytes]:
    """The part of its base64 that the number has wherever it stands in an encoded text."""
    cores = []
    for before in range(_ALIGNMENTS):
        encoded = base64.b64encode(b"\0" * before + digits)
        first = (before * 8 + 5) // 6  # characters that also hold bits of what is before
        last = (before + len(digits)) * 8 // 6  # and those that hold bits of what comes after
        cores.append(encoded[first:last])
    return cores


def _holds(body: bytes, patterns: list[re.Pattern[bytes]]) -> bool:
    return any(pattern.search(body) for pattern in patterns)


def _clean(value: Any, clean_text: Callable[[str], str], depth_left: int) -> Any:
    """The value with every text and number in it cleaned, keys too."""
    if depth_left == 0:
        raise Withheld
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, dict):
        return {clean_text(k): _clean(v, clean_text, depth_left - 1) for k, v in value.items()}
    if isinstance(value, list):
        return [_clean(v, clean_text, depth_left - 1) for v in value]
    if isinstance(value, int | float) and not isinstance(value, bool):
        shown = str(value)
        cleaned = clean_text(shown)
        return value if cleaned == shown else cleaned
    return value


def _clean_text(text: str, number: str, patterns: list[re.Pattern[bytes]]) -> str:
    raw = text.encode(errors="surrogatepass")
    cleaned, was_held = _clean_bytes(raw, number, patterns)
    return cleaned.decode(errors="replace") if was_held else text


def _clean_bytes(body: bytes, number: str, patterns: list[re.Pattern[bytes]]) -> tuple[bytes, bool]:
    if not _holds(body, patterns):
        return body, False
    mask = b"*" * (len(number) - _SHOWN) + number[-_SHOWN:].encode()
    for pattern in patterns:
        body = pattern.sub(mask, body)
    if _holds(body, patterns):
        raise Withheld
    return body, True
