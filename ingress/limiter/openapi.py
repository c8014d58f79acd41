"""The rate limiter in the OpenAPI document: what is published, what a policy looks like, what a key has used."""

from __future__ import annotations

from typing import Any, Final

from ingress.http.openapi import elements
from ingress.http.openapi.commands import field_schema
from ingress.http.openapi.shared import TIME_OR_NULL, a_schema, page_of, ref
from schemas.limiter.limit_policy_fields import PUBLISH_POLICY

Json = dict[str, Any]

_COUNT: Final[Json] = {"type": "integer", "minimum": 0}
_OF_A_LIST: Final = ("malformed_request", "invalid_command")
_TERMS: Final[Json] = {name: field_schema(field) for name, field in PUBLISH_POLICY.items() if name != "policy_id"}


def components() -> dict[str, Json]:
    """The shapes that answers have."""
    policy = {
        "id": {"type": "string"},
        "policy_id": {"type": "string"},
        "object": {"const": "policy"},
        "version": {"type": "integer", "minimum": 1},
        "active_version": {"type": "integer", "minimum": 1},
        "withdrawn": {"type": "boolean"},
        **_TERMS,
    }
    times = {name: {"type": "string", "format": "date-time"} for name in ("created_at", "updated_at")}
    live = a_schema(dict.fromkeys(("used", "reserved", "remaining", "reset_ms"), _COUNT) | {"as_of": TIME_OR_NULL})
    of_limit = a_schema(
        {
            "policy_id": {"type": "string"},
            "policy_version": {"type": "integer"},
            "algorithm": _TERMS["algorithm"],
            "per": _TERMS["per"],
            "live": {"anyOf": [live, {"type": "null"}]},
        }
    )
    of_network: Json = {
        "policy_id": {"type": "string"},
        "policy_version": {"type": "integer"},
        "algorithm": _TERMS["algorithm"],
        "network": {"type": ["string", "null"]},
        "live": {"anyOf": [live, {"type": "null"}]},
    }
    in_shadow = a_schema({**of_network, "per": _TERMS["per"], "refused": _COUNT, "as_of": TIME_OR_NULL})
    counts = ("allowed", "denied", "allowed_cost", "refunded", "refunded_cost")
    stream = a_schema(dict.fromkeys(counts, _COUNT) | {"as_of": TIME_OR_NULL})
    return {
        "QuotaPolicy": a_schema(policy),
        "CommittedQuotaPolicy": a_schema({"result": ref("QuotaPolicy"), "event": ref("Event")}),
        "QuotaPolicyWithVersions": a_schema(
            {**policy, **times, "versions": {"type": "array", "items": {"type": "object"}}}
        ),
        "QuotaPolicyPage": page_of(a_schema({**policy, **times})),
        "QuotaSnapshot": a_schema({name: {"type": "string"} for name in ("snapshot", "key_id", "signature")}),
        "Usage": a_schema(
            {
                "object": {"const": "usage"},
                "limit_key": {"type": "string"},
                "policy_id": {"type": ["string", "null"]},
                "policy_version": {"type": ["integer", "null"]},
                "live": {"anyOf": [live, {"type": "null"}]},
                "stream": stream,
                "limits": {"type": "array", "items": of_limit},
                "by_network": {"type": "array", "items": a_schema(of_network)},
                "in_shadow": {"type": "array", "items": in_shadow},
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
            "get_policy_snapshot", "What gateways decide by, signed", [elements.PREFER, elements.NONE_MATCH],
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
