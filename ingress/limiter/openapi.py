"""The rate limiter in the OpenAPI document: what is published, what a policy looks like, what a key has used."""

from __future__ import annotations

from typing import Any, Final, get_args

from ingress.http import openapi_elements as elements
from ingress.http.openapi_schemas import OBJECT_ID, TEXT, a_schema, ref
from schemas import limits
from schemas.client_network import V4_BITS, V6_BITS
from schemas.limiter import limit_audit, limit_policy
from schemas.limiter.calendar_windows import Unit

Json = dict[str, Any]

_PART: Final[Json] = {"type": "string", "minLength": 1, "maxLength": limits.LIMIT_KEY_PART_LENGTH_MAX, "pattern": TEXT}
_NETWORK: Final[Json] = {
    "type": "string",
    "minLength": 1,
    "maxLength": 43,
    "description": "* or a network such as 192.0.2.0/24",
}
_SCOPE: Final[Json] = a_schema(
    {**dict.fromkeys(limit_policy.KEY_PARTS, _PART), limit_policy.NETWORK: _NETWORK},
    list(limit_policy.KEY_PARTS),
    closed=True,
)
_COUNT: Final[Json] = {"type": "integer", "minimum": 0}
_TIME_OR_NULL: Final[Json] = {"type": ["string", "null"], "format": "date-time"}
_OF_A_LIST: Final = ("malformed_request", "invalid_command")
_PERIOD: Final[Json] = {"type": "integer", "minimum": 1, "maximum": limits.LIMIT_WINDOW_MS_MAX}
_CALENDAR: Final[Json] = a_schema(
    {
        "unit": {"enum": list(get_args(Unit))},
        "time_zone": {"type": "string", "description": "IANA name, such as Europe/Berlin"},
    },
    ["unit", "time_zone"],
    closed=True,
) | {"description": "Of a fixed_window, in place of window_ms: hours, days, weeks or months by the clocks of a zone"}
_TERMS: Final[Json] = {
    "scope": _SCOPE,
    "per": {"type": "array", "items": {"enum": list(limit_policy.COUNTED_BY)}, "minItems": 1, "uniqueItems": True},
    "algorithm": {"enum": list(get_args(limit_policy.Algorithm))},
    "capacity": {"type": ["integer", "null"], "minimum": 1, "maximum": limit_policy.CAPACITY_MAX},
    "refill_rate": {"type": ["integer", "null"], "minimum": 1, "maximum": limit_policy.CAPACITY_MAX},
    "refill_period_ms": _PERIOD,
    "window_ms": {**_PERIOD, "type": ["integer", "null"]},
    "slots": {"type": "integer", "minimum": 1, "maximum": limits.LIMIT_SLOTS_MAX},
    "strict": {"type": "boolean"},
    "consistency": {"enum": list(get_args(limit_policy.Consistency))},
    "failure_mode": {"enum": list(get_args(limit_policy.FailureMode))},
    "shadow": {"type": "boolean"},
    "audit": {"type": "string", "pattern": limit_audit.PATTERN},
    "calendar": {"anyOf": [_CALENDAR, {"type": "null"}]},
    "boundary_guard": {
        "type": ["integer", "null"],
        "minimum": 1,
        "maximum": limit_policy.CAPACITY_MAX,
        "description": "Of a fixed_window: so much passes at once, the rest evenly over the window. In any interval "
        "as long as a window at most capacity + boundary_guard is admitted, in place of twice the capacity",
    },
    "network_prefix_v4": {"type": ["integer", "null"], "minimum": 1, "maximum": V4_BITS},
    "network_prefix_v6": {"type": ["integer", "null"], "minimum": 1, "maximum": V6_BITS},
}
PAYLOAD: Final[Json] = a_schema(
    {"policy_id": {**OBJECT_ID, "type": ["string", "null"]}, **_TERMS}, ["scope", "algorithm"], closed=True
)


def components() -> dict[str, Json]:
    """The shapes that answers have."""
    policy = {
        "id": {"type": "string"},
        "policy_id": {"type": "string"},
        "object": {"const": "policy"},
        "version": {"type": "integer", "minimum": 1},
        "active_version": {"type": "integer", "minimum": 1},
        **_TERMS,
    }
    times = {name: {"type": "string", "format": "date-time"} for name in ("created_at", "updated_at")}
    live = a_schema(dict.fromkeys(("used", "reserved", "remaining", "reset_ms"), _COUNT) | {"as_of": _TIME_OR_NULL})
    by_network = a_schema(
        {
            "policy_id": {"type": "string"},
            "policy_version": {"type": "integer"},
            "algorithm": _TERMS["algorithm"],
            "network": {"type": ["string", "null"]},
            "live": {"anyOf": [live, {"type": "null"}]},
        }
    )
    counts = ("allowed", "denied", "allowed_cost", "refunded", "refunded_cost")
    stream = a_schema(dict.fromkeys(counts, _COUNT) | {"as_of": _TIME_OR_NULL})
    return {
        "QuotaPolicy": a_schema(policy),
        "CommittedQuotaPolicy": a_schema({"result": ref("QuotaPolicy"), "event": ref("Event")}),
        "QuotaPolicyWithVersions": a_schema(
            {**policy, **times, "versions": {"type": "array", "items": {"type": "object"}}}
        ),
        "QuotaPolicyPage": a_schema(
            {
                "data": {"type": "array", "items": a_schema({**policy, **times})},
                "has_more": {"type": "boolean"},
                "next_cursor": {"type": ["string", "null"]},
            }
        ),
        "QuotaSnapshot": a_schema({name: {"type": "string"} for name in ("snapshot", "key_id", "signature")}),
        "Usage": a_schema(
            {
                "object": {"const": "usage"},
                "limit_key": {"type": "string"},
                "policy_id": {"type": ["string", "null"]},
                "policy_version": {"type": ["integer", "null"]},
                "live": {"anyOf": [live, {"type": "null"}]},
                "stream": stream,
                "by_network": {"type": "array", "items": by_network},
            }
        ),
    }


def paths() -> Json:
    """The GETs of the limiter; the one POST is a command like any other."""
    key = {"name": "key", "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
    network = {
        "name": "network",
        "in": "query",
        "required": False,
        "schema": {"type": "string", "minLength": 1, "maxLength": 43},
        "description": "A client's address, for what policies by network have counted of it",
    }
    same = {"304": {"description": "If-None-Match names it"}}
    sha256 = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
    digest = {"name": "digest", "in": "path", "required": True, "schema": sha256}
    return {
        "/v1/policies": _read(
            "list_policies", "The caller's quota policies, newest first", [elements.limit(), elements.CURSOR],
            {"200": elements.answer("One page", elements.JSON, "QuotaPolicyPage")}, _OF_A_LIST,
        ),
        "/v1/policies/{policy_id}": _read(
            "get_policy", "The policy in force, with its versions", [elements.object_id("policy_id")],
            {"200": elements.answer("The policy", elements.JSON, "QuotaPolicyWithVersions")}, ("not_found",),
        ),
        "/v1/policy_snapshots/newest": _read(
            "get_policy_snapshot", "What gateways decide by, signed", [elements.NONE_MATCH],
            {"200": elements.answer("The snapshot", elements.JSON, "QuotaSnapshot"), **same}, ("not_found",),
        ),
        "/v1/policy_snapshots/{digest}": _read(
            "get_policy_snapshot_by_digest", "The signed snapshot of a digest; it never changes",
            [digest, elements.NONE_MATCH],
            {"200": elements.answer("The snapshot", elements.JSON, "QuotaSnapshot"), **same}, ("not_found",),
        ),
        "/v1/usage/{key}": _read(
            "get_usage", "What a key (tenant:user:route) has used, live and in the stream", [key, network],
            {"200": elements.answer("The usage", elements.JSON, "Usage")}, ("not_found", "invalid_command"),
        ),
    }  # fmt: skip


def _read(name: str, summary: str, parameters: list[Json], responses: Json, codes: tuple[str, ...]) -> Json:
    return {
        "get": {
            "operationId": name,
            "summary": summary,
            "tags": ["limits"],
            "security": [{"bearer": ["limits:read"]}],
            "parameters": parameters,
            "responses": responses | elements.refusals((*elements.COMMON, *codes)),
        }
    }
