"""What a tenant may, by feature: yes or no, a value, or so much of what is metered in a month of its calendar. Pure.

A caller gives objects; they travel as texts, ``bool:true``, ``static:gold``, ``metered:tokens:1000``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from schemas import limits
from schemas.fields import validation
from schemas.fields.validation import ValueType
from schemas.tenancy import limits as tenancy_limits
from schemas.tenancy.dimension import PATTERN, is_dimension

KINDS: Final = ("bool", "static", "metered")
_FEATURE: Final = re.compile(r"[a-z0-9_]{1,64}")
_TEXT: Final = re.compile(
    rf"bool:(?:true|false)|static:[^\x00-\x1f\x7f]{{1,{tenancy_limits.ENTITLEMENT_LENGTH_MAX}}}"
    rf"|metered:{PATTERN}:[0-9]{{0,16}}"
)


def entitlements(value: object) -> str | None:
    """Why a document of entitlements is refused, or None."""
    if not isinstance(value, dict) or len(value) > tenancy_limits.DIMENSIONS_MAX:
        return f"must be an object of at most {tenancy_limits.DIMENSIONS_MAX} features"
    for feature, said in value.items():
        if not isinstance(feature, str) or not _FEATURE.fullmatch(feature):
            return "a feature must be 1 to 64 of a-z 0-9 _"
        if reason := _wrong(said):
            return f"{feature} {reason}"
    return None


def _wrong(said: object) -> str | None:
    if isinstance(said, str):
        return _wrong(_shown(said)) if _TEXT.fullmatch(said) else "must be an object with its kind"
    if not isinstance(said, dict):
        return "must be an object with its kind"
    match said:
        case {"kind": "bool", "value": bool(), **rest} if not rest:
            return None
        case {"kind": "static", "value": value, **rest} if not rest:
            return validation.free_text(value, tenancy_limits.ENTITLEMENT_LENGTH_MAX)
        case {"kind": "metered", "dimension": dimension, "limit": limit, **rest} if not rest:
            is_named = is_dimension(dimension)
            is_count = type(limit) is int and 0 <= limit <= limits.AMOUNT_MINOR_MAX
            return None if is_named and (limit is None or is_count) else "must have a dimension, and a limit or null"
    return f"must be an object with its kind, one of {', '.join(KINDS)}, and what belongs to it"


def texts_of(value: Mapping[str, Any]) -> dict[str, str]:
    """The one form in which they travel."""
    return {feature: said if isinstance(said, str) else _text_of(said) for feature, said in sorted(value.items())}


def _text_of(said: Mapping[str, Any]) -> str:
    if said["kind"] == "metered":
        return f"metered:{said['dimension']}:{'' if said['limit'] is None else said['limit']}"
    value = said["value"]
    return f"{said['kind']}:{str(value).lower() if isinstance(value, bool) else value}"


def shown(texts: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """As callers give them."""
    return {feature: _shown(text) for feature, text in sorted(texts.items())}


def _shown(text: str) -> dict[str, Any]:
    kind, _, value = text.partition(":")
    if kind == "metered":
        dimension, _, limit = value.rpartition(":")  # a dimension may have colons, a limit has none
        return {"kind": kind, "dimension": dimension, "limit": int(limit) if limit else None}
    return {"kind": kind, "value": value == "true" if kind == "bool" else value}


_KIND: Final = {kind: {"const": kind} for kind in KINDS}
_TEXTS: Final = r"^(bool:(true|false)|static:[a-zA-Z _.-]{1,100}|metered:" + PATTERN + r":[0-9]{0,15})$"
_LIMIT: Final = {"type": ["integer", "null"], "minimum": 0, "maximum": limits.AMOUNT_MINOR_MAX}
_FORMS: Final = (
    {"kind": _KIND["bool"], "value": {"type": "boolean"}},
    {"kind": _KIND["static"], "value": {"type": "string", "pattern": r"^[a-zA-Z _.-]{1,100}$"}},
    {"kind": _KIND["metered"], "dimension": {"type": "string", "pattern": f"^{PATTERN}$"}, "limit": _LIMIT},
)
ENTITLEMENTS: Final = ValueType(
    entitlements,
    {"type": "map", "values": "string"},
    {
        "type": "object",
        "propertyNames": {"pattern": r"^[a-z0-9_]{1,64}$"},
        "maxProperties": tenancy_limits.DIMENSIONS_MAX,
        "additionalProperties": {
            "anyOf": [
                {"type": "string", "pattern": _TEXTS},
                *(
                    {"type": "object", "properties": form, "required": list(form), "additionalProperties": False}
                    for form in _FORMS
                ),
            ]
        },
    },
)
