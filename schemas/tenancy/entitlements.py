"""What a tenant may, by feature: yes or no, a value, so much of what is metered in a period, or so many at once. Pure.

A caller gives objects; they travel as texts: ``bool:true``, ``static:gold``, ``limit:resources:100:soft``,
``metered:tokens:1000`` (a hard one of a month, as ever) and ``metered:tokens:1000:soft:day``.
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

KINDS: Final = ("bool", "static", "metered", "limit")
#: of the tenant's calendar; another one is not counted by
PERIODS: Final = ("hour", "day", "month")
PERIOD_DEFAULT: Final = "month"
#: what a limit may be of: what is counted in the commit that changes it
COUNTED: Final = "resources"
_METERED: Final = {"soft", "period"}  # what may be left out, and of a limit the first alone
_FEATURE: Final = re.compile(r"[a-z0-9_]{1,64}")
_ENDS: Final = rf":(?:soft|hard):(?:{'|'.join(PERIODS)})"
_TEXT: Final = re.compile(
    rf"bool:(?:true|false)|static:[^\x00-\x1f\x7f]{{1,{tenancy_limits.ENTITLEMENT_LENGTH_MAX}}}"
    rf"|metered:{PATTERN}:[0-9]{{0,16}}(?:{_ENDS})?|limit:{COUNTED}:[0-9]{{0,16}}:(?:soft|hard)"
)
_METERED_SAID: Final = re.compile(rf"(.+):([0-9]*):(soft|hard):({'|'.join(PERIODS)})")


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


def is_feature(value: str) -> bool:
    """Whether a text may be the name of a feature."""
    return _FEATURE.fullmatch(value) is not None


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
        case {"kind": "metered" | "limit", "dimension": _, "limit": _}:
            return _wrongly_counted(said)
    return f"must be an object with its kind, one of {', '.join(KINDS)}, and what belongs to it"


def _wrongly_counted(said: Mapping[str, object]) -> str | None:
    is_metered = said["kind"] == "metered"
    reasons = (
        (
            said.keys() <= {"kind", "dimension", "limit", *(_METERED if is_metered else {"soft"})},
            "has more than it may",
        ),
        (is_metered or said["dimension"] == COUNTED, f"must be of {COUNTED}, which are counted in the commit"),
        (is_dimension(said["dimension"]) and _is_limit(said["limit"]), "must have a dimension, and a limit or null"),
        (isinstance(said.get("soft", False), bool), "must have true or false as soft"),
        (said.get("period", PERIOD_DEFAULT) in PERIODS, f"must have a period of {', '.join(PERIODS)}"),
    )
    return next((reason for is_right, reason in reasons if not is_right), None)


def _is_limit(limit: object) -> bool:
    return limit is None or (type(limit) is int and 0 <= limit <= limits.AMOUNT_MINOR_MAX)


def texts_of(value: Mapping[str, Any]) -> dict[str, str]:
    """The one form in which they travel."""
    return {feature: said if isinstance(said, str) else _text_of(said) for feature, said in sorted(value.items())}


def _text_of(said: Mapping[str, Any]) -> str:
    if said["kind"] in ("bool", "static"):
        value = said["value"]
        return f"{said['kind']}:{str(value).lower() if isinstance(value, bool) else value}"
    counted = f"{said['kind']}:{said['dimension']}:{'' if said['limit'] is None else said['limit']}"
    hardness, period = "soft" if said.get("soft", False) else "hard", said.get("period", PERIOD_DEFAULT)
    if said["kind"] == "limit":
        return f"{counted}:{hardness}"
    return counted if (hardness, period) == ("hard", PERIOD_DEFAULT) else f"{counted}:{hardness}:{period}"


def shown(texts: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """As callers give them, with all that belongs to each."""
    return {feature: _shown(text) for feature, text in sorted(texts.items())}


def _shown(text: str) -> dict[str, Any]:
    kind, _, value = text.partition(":")
    if kind == "metered":
        # a dimension may have colons; an older text ends with its limit, which is digits or nothing
        found = _METERED_SAID.fullmatch(value)
        dimension, limit, hardness, period = found.groups() if found else (*_parted(value), "hard", PERIOD_DEFAULT)
        return _counted(kind, dimension, limit, hardness) | {"period": period}
    if kind == "limit":
        rest, _, hardness = value.rpartition(":")
        return _counted(kind, *_parted(rest), hardness)
    return {"kind": kind, "value": value == "true" if kind == "bool" else value}


def _parted(value: str) -> tuple[str, str]:
    dimension, _, limit = value.rpartition(":")
    return dimension, limit


def _counted(kind: str, dimension: str, limit: str, hardness: str) -> dict[str, Any]:
    of = {"kind": kind, "dimension": dimension, "limit": int(limit) if limit else None}
    return of | {"soft": hardness == "soft"}


_KIND: Final = {kind: {"const": kind} for kind in KINDS}
_TEXTS: Final = (
    r"^(bool:(true|false)|static:[a-zA-Z _.-]{1,100}|metered:"
    + PATTERN
    + rf":[0-9]{{0,15}}({_ENDS})?|limit:{COUNTED}:[0-9]{{0,15}}:(soft|hard))$"
)
_LIMIT: Final = {"type": ["integer", "null"], "minimum": 0, "maximum": limits.AMOUNT_MINOR_MAX}
_SOFT: Final = {"type": "boolean", "default": False}
_FORMS: Final = (
    {"kind": _KIND["bool"], "value": {"type": "boolean"}},
    {"kind": _KIND["static"], "value": {"type": "string", "pattern": r"^[a-zA-Z _.-]{1,100}$"}},
    {
        "kind": _KIND["metered"],
        "dimension": {"type": "string", "pattern": f"^{PATTERN}$"},
        "limit": _LIMIT,
        "soft": _SOFT,
        "period": {"enum": list(PERIODS), "default": PERIOD_DEFAULT},
    },
    {"kind": _KIND["limit"], "dimension": {"const": COUNTED}, "limit": _LIMIT, "soft": _SOFT},
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
                    {
                        "type": "object",
                        "properties": form,
                        "required": [name for name in form if name not in _METERED],
                        "additionalProperties": False,
                    }
                    for form in _FORMS
                ),
            ]
        },
    },
)
