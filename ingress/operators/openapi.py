"""What operators decide and look into, in the OpenAPI document: denied access here, cases beside it."""

from __future__ import annotations

from typing import Any, Final

from ingress.http.openapi import elements, shared
from ingress.http.openapi.shared import STRING, TIME, TIME_OR_NULL
from ingress.identity.roles import by_operators
from ingress.operators import access_routes, openapi_cases
from schemas import limits
from schemas.fields.legible_text import LEGIBLE, SAYS_SOMETHING
from schemas.operators import access_denial

Json = dict[str, Any]

_TEXT: Final[Json] = {"type": "string", "minLength": 1, "maxLength": limits.TEXT_LENGTH_MAX}
_DENY: Final = (
    "In force at every door within 5 s: a suspension (merchant, tenant, user, subject) refuses with 403 suspended, a"
    " revoked token with 401; streams, long polls and downloads end. With tokens_so_far only tokens that were issued"
    " until now are refused. Risk decides of merchants, tenants and users, the platform of subjects and tokens (jti)."
)
_REFUSED: Final = (
    *elements.COMMON,
    "not_found",
    "state_conflict",
    "too_large",
    "unsupported_media_type",
    "invalid_command",
)


def paths() -> Json:
    """Every route of ``access_routes``, one path for each kind: each has its role; and those of cases."""
    kind = elements.query("kind", {"enum": list(access_denial.KINDS)}, "Only those of this kind")
    found: Json = {
        access_routes.PATH: {
            "get": {
                "operationId": "list_access_denials",
                "summary": "Who is denied access, newest first",
                **by_operators("access.list"),
                "parameters": [kind],
                "responses": {
                    "200": elements.answer("At most so many are shown", elements.JSON, "AccessDenials"),
                    **elements.refusals((*elements.COMMON, "invalid_command")),
                },
            }
        },
        f"{access_routes.PATH}/{{kind}}": {"post": _decide("deny_access", "Deny access", "deny", "DenyAccess", _DENY)},
        f"{access_routes.PATH}/{{kind}}/lift": {
            "post": _decide("lift_access_denial", "Let in again", "lift", "LiftAccessDenial", "In force within 5 s.")
        },
    }
    return found | openapi_cases.paths()


def _decide(operation_id: str, summary: str, verb: str, body: str, description: str) -> Json:
    kind = {"name": "kind", "in": "path", "required": True, "schema": {"enum": list(access_denial.KINDS)}}
    scopes = {
        scope
        for one in access_denial.KINDS
        for security in by_operators(f"access.{verb}_{one}")["security"]
        for scope in security["bearer"]
    }
    return {
        "operationId": operation_id,
        "summary": summary,
        "description": description,
        "tags": ["operators"],
        "security": [{"bearer": [scope]} for scope in sorted(scopes)],
        "parameters": [kind],
        "requestBody": {"required": True, "content": {elements.JSON: {"schema": shared.ref(body)}}},
        "responses": {
            "200": elements.answer(summary, elements.JSON, "AccessDecided", elements.REPLAYED_HEADERS),
            **elements.refusals(_REFUSED),
        },
    }


def components() -> dict[str, Json]:
    """The named schemas of these."""
    kinds = {"enum": list(access_denial.KINDS)}
    said: Json = {"name": _TEXT | {"pattern": LEGIBLE}, "reason": _TEXT | {"pattern": SAYS_SOMETHING}}
    row = {
        "object": {"const": "access_denial"},
        "kind": kinds,
        **dict.fromkeys(("name", "reason", "denied_by"), STRING),
        **dict.fromkeys(("issued_before", "ends_at"), TIME_OR_NULL),
        "denied_at": TIME,
    }
    decided = {"kind": kinds, "name": STRING, "state": {"enum": ["denied", "lifted"]}}
    return {
        "AccessDenial": shared.a_schema(row),
        "AccessDenials": shared.list_of(shared.ref("AccessDenial")),
        "AccessDecided": shared.a_schema({"result": shared.a_schema(decided)}),
        "DenyAccess": shared.a_schema(
            {**said, "tokens_so_far": {"type": "boolean", "default": False}}, ["name", "reason"], closed=True
        ),
        "LiftAccessDenial": shared.a_schema(said, closed=True),
        **openapi_cases.components(),
    }
