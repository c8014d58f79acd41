"""JSON as a payment system must read it: UTF-8, bounded depth, no key twice, nothing lossy.

A key given twice means different things to different readers (RFC 8259 section 4), so it is refused. The
common case costs one C parse: a document without a colon inside a string has exactly as many colons as keys.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

import msgspec

from ingress import limits
from schemas import errors

_decode: Final = msgspec.json.Decoder().decode
_STRING: Final = re.compile(rb'"(?:[^"\\]|\\.)*"?', re.DOTALL)
_BRACKET: Final = re.compile(rb"[\[\]{}]")


def parse(raw: bytes) -> Any:
    """The value of one JSON document. Raises MalformedRequest, nothing else, on any bytes."""
    if raw.count(b"{") + raw.count(b"[") > limits.JSON_DEPTH_MAX and _too_deep(raw):
        raise errors.MalformedRequest(f"The JSON is nested deeper than {limits.JSON_DEPTH_MAX} levels.")
    try:
        value = _decode(raw)
    except ValueError as error:  # msgspec's errors and UnicodeDecodeError
        raise errors.MalformedRequest("The body is not valid JSON in UTF-8.", cause=str(error)) from error
    if raw.count(b":") != _keys(value):
        _refuse_repeated_keys(raw)
    return value


def _too_deep(raw: bytes) -> bool:
    """Counts brackets outside strings, and stops at the bound: no parser of ours sees what is deeper."""
    depth = 0
    for match in _BRACKET.finditer(_STRING.sub(b"", raw)):
        depth += 1 if match.group() in b"[{" else -1
        if depth > limits.JSON_DEPTH_MAX:
            return True
    return False


def _keys(value: object) -> int:
    """How many keys the parsed value holds; its depth is bounded already."""
    if isinstance(value, dict):
        return len(value) + sum(_keys(v) for v in value.values() if isinstance(v, (dict, list)))
    if isinstance(value, list):
        return sum(_keys(v) for v in value if isinstance(v, (dict, list)))
    return 0


def _refuse_repeated_keys(raw: bytes) -> None:
    json.loads(raw, object_pairs_hook=_once)


def _once(pairs: list[tuple[str, Any]]) -> None:
    seen: set[str] = set()
    for name, _ in pairs:
        if name in seen:
            raise errors.MalformedRequest(f"The key {name[:40]!r} is given twice.")
        seen.add(name)
