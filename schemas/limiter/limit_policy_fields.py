"""What values the payload of a quota policy may have. What they must fulfil together is in ``limit_policy_rules``."""

from __future__ import annotations

from typing import Any, Final, get_args

from schemas import calendar_windows
from schemas.client_network import V4_BITS, V6_BITS, client_network
from schemas.fields import value_types as types
from schemas.fields.validation import Field, Fields, ValueType, clean_text, normalize, whole
from schemas.limiter import limit_audit, limit_key, limit_policy, limit_terms, limits

_capacity_range: Final = whole(1, limit_terms.CAPACITY_MAX)


def _capacity(value: object) -> str | None:
    """Zero is a mistake more often than a wish: who wishes it says so."""
    reason = _capacity_range(value)
    return f"{reason}; algorithm deny refuses everything" if reason and value == 0 else reason


def _limit_scope(value: object) -> str | None:
    wanted = set(limit_policy.KEY_PARTS)
    if not isinstance(value, dict) or value.keys() - {limit_policy.NETWORK} != wanted:
        return "must have tenant, user and route, each a value or *, and may have a network"
    for name in limit_policy.KEY_PARTS:
        if reason := _named(name, value[name]):
            return f"{name} {reason}"
    network = _without_any_network(value).get(limit_policy.NETWORK, limit_policy.ANY)
    if reason := clean_text(network, limits.LIMIT_KEY_PART_LENGTH_MAX):
        return f"network {reason}"
    return _network(network)


def _named(name: str, value: object) -> str | None:
    """Why no key has such a part."""
    if reason := clean_text(value, limits.LIMIT_KEY_PART_LENGTH_MAX):
        return reason
    try:
        form = _form_of(name, str(value))
    except ValueError as error:
        return str(error)
    return "must not be * by another name" if form == limit_policy.ANY != value else None


def _form_of(name: str, text: str) -> str:
    return limit_key.normal_route(text) if name == "route" else limit_key.normal_name(text)


def _normal_scope(scope: dict[str, Any]) -> dict[str, Any]:
    """As keys are: a policy for an alias of a key is one for the key, and a retry by another alias hashes alike."""
    return {
        name: _form_of(name, text) if name in limit_policy.KEY_PARTS else text
        for name, text in _without_any_network(scope).items()
    }


def _without_any_network(scope: dict[str, Any]) -> dict[str, Any]:
    """As a scope was written before there were networks: a retry hashes alike."""
    any_network = scope.get(limit_policy.NETWORK) in (None, limit_policy.ANY)
    return {name: text for name, text in scope.items() if not (any_network and name == limit_policy.NETWORK)}


def _network(text: str) -> str | None:
    """One spelling for one network: two policies of the same scope are seen to be."""
    if text == limit_policy.ANY:
        return None
    try:
        found = str(client_network(text))
    except ValueError:
        return "network must be a network such as 192.0.2.0/24 or 2001:db8::/32, without host bits and zone, or *"
    return None if found == text else f"network must be written as {found}"


def _key_parts(value: object) -> str | None:
    allowed = limit_policy.COUNTED_BY
    if not isinstance(value, list) or not value or len(set(map(str, value))) < len(value):
        return "must be a list of different key parts"
    return None if all(part in allowed for part in value) else "must be of " + ", ".join(allowed)


def _calendar(value: object) -> str | None:
    """Whose windows, by which clocks."""
    units = get_args(calendar_windows.Unit)
    if not isinstance(value, dict) or value.keys() != {"unit", "time_zone"}:
        return "must have unit and time_zone"
    if not isinstance(value["unit"], str) or value["unit"] not in units:
        return "unit must be one of " + ", ".join(units)
    if not isinstance(value["time_zone"], str) or value["time_zone"] not in calendar_windows.time_zones():
        return "time_zone must be the IANA name of a time zone, such as Europe/Berlin or UTC"
    return None


def _further_limits(value: object) -> str | None:
    """Of each every field that it must have, and no other. Together they are judged in ``limit_policy_rules``."""
    if not isinstance(value, list) or not 1 <= len(value) <= limits.LIMIT_FURTHER_LIMITS_MAX:
        return f"must be a list of 1 to {limits.LIMIT_FURTHER_LIMITS_MAX} limits"
    for n, further in enumerate(value):
        if not isinstance(further, dict):
            return f"[{n}] must be an object"
        if wrong := normalize(_FURTHER, further)[1]:
            return f"[{n}]{wrong[0]['field'].removeprefix('payload')} {wrong[0]['reason']}"
    return None


def _normal_further(value: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """With every field, so that a retry that leaves a default out hashes alike."""
    return [normalize(_FURTHER, further)[0] for further in value]


def _in_avro(name: str, field: Field) -> object:
    kind = {**_CALENDAR_SCHEMA, "name": "PolicyLimitCalendar"} if name == "calendar" else field.type.avro
    return ["null", kind] if field.nullable else kind


def _in_json(field: Field) -> dict[str, Any]:
    either = {"anyOf": [field.type.json, {"type": "null"}]} if field.nullable else field.type.json
    return either if field.is_required else {**either, "default": field.default}


_PART: Final = types.text_schema(limits.LIMIT_KEY_PART_LENGTH_MAX)
_SCOPE_SCHEMA: Final = {
    "type": "record",
    "name": "PolicyScope",
    "fields": [
        {"name": "tenant", "type": "string", "doc": "a tenant, or * for all"},
        {"name": "user", "type": "string", "doc": "a user, or *"},
        {"name": "route", "type": "string", "doc": "a route, or *"},
        {"name": "network", "type": ["null", "string"], "default": None, "doc": "a network, or null for any"},
    ],
}
_CALENDAR_SCHEMA: Final = {
    "type": "record",
    "name": "PolicyCalendar",
    "fields": [
        {"name": "unit", "type": "string", "doc": "hour, day, week or month"},
        {"name": "time_zone", "type": "string", "doc": "IANA name of the zone whose clocks count"},
    ],
}
_SCOPE: Final = ValueType(
    _limit_scope,
    _SCOPE_SCHEMA,
    {
        "type": "object",
        "properties": {
            **dict.fromkeys(limit_policy.KEY_PARTS, _PART),
            limit_policy.NETWORK: {
                "type": "string",
                "minLength": 1,
                "maxLength": 43,
                "description": "* or a network such as 192.0.2.0/24",
            },
        },
        "required": list(limit_policy.KEY_PARTS),
        "additionalProperties": False,
    },
)
_PER: Final = ValueType(
    _key_parts,
    {"type": "array", "items": "string"},
    {"type": "array", "items": {"enum": list(limit_policy.COUNTED_BY)}, "minItems": 1, "uniqueItems": True},
)
_CALENDAR: Final = ValueType(
    _calendar,
    _CALENDAR_SCHEMA,
    {
        "type": "object",
        "properties": {
            "unit": {"enum": list(get_args(calendar_windows.Unit))},
            "time_zone": {"type": "string", "description": "IANA name, such as Europe/Berlin"},
        },
        "required": ["unit", "time_zone"],
        "additionalProperties": False,
    },
)
_AUDIT: Final = ValueType(limit_audit.wrong_audit, "string", {"type": "string", "pattern": limit_audit.PATTERN})
_CAPACITY: Final = types.whole(1, limit_terms.CAPACITY_MAX, _capacity)
_TOKENS: Final = types.whole(1, limit_terms.CAPACITY_MAX)
_PERIOD_MS: Final = types.whole(1, limits.LIMIT_WINDOW_MS_MAX)
_ALGORITHM: Final = Field(
    types.choice(*get_args(limit_policy.Algorithm)),
    "token_bucket, sliding_window, fixed_window, concurrency, unlimited or deny",
)
_TERMS: Final[Fields] = {
    "refill_rate": Field(_TOKENS, "tokens per refill_period_ms", None, nullable=True),
    "refill_period_ms": Field(_PERIOD_MS, "a second unless said otherwise", 1_000),
    "window_ms": Field(_PERIOD_MS, "length of a window", None, nullable=True),
    "slots": Field(types.whole(1, limits.LIMIT_SLOTS_MAX, avro="int"), "of a sliding window", 10),
    "strict": Field(types.BOOLEAN, "the fading slot counts whole", default=False),
}
_CALENDAR_FIELD: Final = Field(
    _CALENDAR, "windows of a calendar in place of window_ms; null = none", None, nullable=True, since=3
)
_FURTHER: Final[Fields] = {
    "algorithm": _ALGORITHM,
    "capacity": Field(_CAPACITY, "most tokens at once, or in a window"),
    **_TERMS,
    "calendar": _CALENDAR_FIELD,
}
_FURTHER_LIMITS: Final = ValueType(
    _further_limits,
    {
        "type": "array",
        "items": {
            "type": "record",
            "name": "PolicyLimit",
            "fields": [
                {"name": name, "type": _in_avro(name, field), "doc": field.doc} for name, field in _FURTHER.items()
            ],
        },
    },
    {
        "type": "array",
        "items": {
            "type": "object",
            "properties": {name: _in_json(field) for name, field in _FURTHER.items()},
            "required": [name for name, field in _FURTHER.items() if field.is_required],
            "additionalProperties": False,
        },
        "minItems": 1,
        "maxItems": limits.LIMIT_FURTHER_LIMITS_MAX,
    },
)


PUBLISH_POLICY: Final[Fields] = {
    "policy_id": Field(types.ID, "the policy that gets a new version; null = a new policy", None, nullable=True),
    "scope": Field(_SCOPE, "which keys the policy is for", normal=_normal_scope),
    "per": Field(_PER, "the parts that a counter is kept by", list(limit_policy.KEY_PARTS)),
    "algorithm": _ALGORITHM,
    "capacity": Field(_CAPACITY, "most tokens at once, or in a window; null = nothing is counted", None, nullable=True),
    **_TERMS,
    "consistency": Field(types.choice(*get_args(limit_policy.Consistency)), "exact, leased or durable", "leased"),
    "failure_mode": Field(
        types.choice(*get_args(limit_policy.FailureMode)),
        "open, closed or stale: what is answered without the store",
        "closed",
    ),
    "shadow": Field(types.BOOLEAN, "decides nothing, is recorded", default=False),
    "audit": Field(_AUDIT, "full, denied or aggregate", "full"),
    "calendar": _CALENDAR_FIELD,
    "further_limits": Field(
        _FURTHER_LIMITS,
        "limits beside the first one: all have to allow, and a request charges all; null = none",
        None,
        nullable=True,
        since=5,
        normal=_normal_further,
    ),
    "boundary_guard": Field(
        _TOKENS,
        "so much of a fixed window passes at once, the rest evenly; null = all of it",
        None,
        nullable=True,
        since=4,
    ),
    "network_prefix_v4": Field(
        types.whole(1, V4_BITS, avro="int"),
        "of the IPv4 networks that counters are kept by; null = 24",
        None,
        nullable=True,
        since=2,
    ),
    "network_prefix_v6": Field(
        types.whole(1, V6_BITS, avro="int"),
        "of the IPv6 networks that counters are kept by; null = 56",
        None,
        nullable=True,
        since=2,
    ),
}
