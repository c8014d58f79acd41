"""Signing keys, requirements and the header fields of signed requests in the OpenAPI document."""

from __future__ import annotations

from typing import Any, Final

from ingress import limits as ingress_limits
from ingress.http.openapi import elements, shared
from ingress.http.openapi.shared import STRING, TEXT_OR_NULL, TIME, TIME_OR_NULL
from ingress.identity import signing_keys
from ingress.identity.roles import scopes_for
from ingress.payments.merchants import signing_key_routes
from ingress.payments.openapi import accounts as openapi_accounts
from schemas import limits
from schemas.fields.legible_text import SAYS_SOMETHING

Json = dict[str, Any]

_REQUIREMENT: Final[Json] = {"enum": list(signing_keys.REQUIREMENTS)}
_REASON: Final[Json] = {
    "type": "string",
    "minLength": 1,
    "maxLength": limits.TEXT_LENGTH_MAX,
    "pattern": SAYS_SOMETHING,
}
_SIGNED: Final = ("signature_required", "signature_invalid", "signature_expired")
_WRITE_CODES: Final = ("malformed_request", "too_large", "unsupported_media_type", "invalid_command", *_SIGNED)
_DOC: Final = (
    "Registers an Ed25519 public key in PEM. The key is the identity: posted again, it is the same key"
    " (Idempotency-Replayed). While there is an active key, this call and every other change of keys or requirement has"
    " to be signed with one, so a token alone brings no key in. Several keys are active at once, for rotation."
)
_REQUIREMENT_DOC: Final = (
    "off: signatures are not looked at; optional (where nothing is set): a signature that is sent has to hold;"
    " required: calls that change something are refused without one. In force everywhere within"
    f" {ingress_limits.SIGNING_KEYS_CACHED_S} s."
)


def paths() -> Json:
    """Every operation of signing keys."""
    key = elements.object_id("key_id")
    page = [elements.limit(), elements.CURSOR]
    listed = ("malformed_request", "invalid_command")
    conflict = ("not_found", "state_conflict")
    read, manage = ("payments:read",), (signing_key_routes.MANAGE,)
    root, required = "/v1/signing_keys", "/v1/signature_requirement"
    return {
        root: {
            "get": _operation("list_signing_keys", "The caller's keys", read, page, listed, "SigningKeyPage"),
            "post": _operation(
                "register_signing_key",
                "Register a public key",
                manage,
                [],
                ("state_conflict", *_WRITE_CODES),
                "MadeSigningKey",
                body="RegisterSigningKey",
                status="201",
                headers=elements.MADE_HEADERS,
                description=_DOC,
            ),
        },
        f"{root}/{{key_id}}": {
            "get": _operation("get_signing_key", "One key", read, [key], ("not_found",), "SigningKey")
        },
        f"{root}/{{key_id}}/revoke": {
            "post": _operation(
                "revoke_signing_key",
                "Revoke a key, for good",
                manage,
                [key],
                (*conflict, *_WRITE_CODES),
                "MadeSigningKey",
                headers=elements.REPLAYED_HEADERS,
            )
        },
        required: {
            "get": _operation(
                "get_signature_requirement", "Whether calls have to be signed", read, [], (), "SignatureRequirement"
            ),
            "post": _operation(
                "set_signature_requirement",
                "Set whether calls have to be signed",
                manage,
                [],
                ("state_conflict", *_WRITE_CODES),
                "MadeSignatureRequirement",
                body="SetSignatureRequirement",
                headers=elements.REPLAYED_HEADERS,
                description=_REQUIREMENT_DOC,
            ),
        },
        **_of_operators(),
    }


def _of_operators() -> Json:
    merchant, account = openapi_accounts.MERCHANT_PARAMETER, "/v1/accounts/{merchant}"
    codes = (
        "not_found",
        "state_conflict",
        "malformed_request",
        "too_large",
        "unsupported_media_type",
        "invalid_command",
    )
    listed = [merchant, elements.limit(), elements.CURSOR]
    return {
        f"{account}/signing_keys": {
            "get": _operation(
                "list_signing_keys_of",
                "A merchant's keys",
                scopes_for("signing_key.list"),
                listed,
                ("not_found", "malformed_request", "invalid_command"),
                "SigningKeyPage",
            )
        },
        f"{account}/signing_keys/{{key_id}}/revoke": {
            "post": _operation(
                "revoke_signing_key_of",
                "Revoke a merchant's key",
                scopes_for("signing_key.revoke"),
                [merchant, elements.object_id("key_id")],
                codes,
                "MadeSigningKey",
                body="RevokeSigningKeyOf",
                headers=elements.REPLAYED_HEADERS,
            )
        },
        f"{account}/signature_requirement": {
            "post": _operation(
                "set_signature_requirement_of",
                "Set what a merchant requires",
                scopes_for("signature_requirement.set"),
                [merchant],
                codes,
                "MadeSignatureRequirement",
                body="SetSignatureRequirementOf",
                headers=elements.REPLAYED_HEADERS,
            )
        },
    }


def components() -> dict[str, Json]:
    """The named schemas of these operations."""
    key = {
        **dict.fromkeys(("id", "merchant_id", "public_key", "created_by"), STRING),
        "object": {"const": "signing_key"},
        "description": TEXT_OR_NULL,
        "algorithm": {"const": "ed25519"},
        "state": {"enum": ["active", "revoked"]},
        "created_at": TIME,
        "revoked_by": TEXT_OR_NULL,
        "revoked_at": TIME_OR_NULL,
    }
    requirement = {
        "object": {"const": "signature_requirement"},
        "merchant_id": STRING,
        "requirement": _REQUIREMENT,
        "changed_by": TEXT_OR_NULL,
        "changed_at": TIME_OR_NULL,
    }
    pem = {"type": "string", "maxLength": ingress_limits.SIGNING_KEY_PEM_LENGTH_MAX, "pattern": "BEGIN PUBLIC KEY"}
    description = {**_REASON, "type": ["string", "null"]}
    a_schema = shared.a_schema
    return {
        "SigningKey": a_schema(key),
        "MadeSigningKey": a_schema({"result": shared.ref("SigningKey")}),
        "SigningKeyPage": shared.page_of(shared.ref("SigningKey")),
        "RegisterSigningKey": a_schema({"public_key": pem, "description": description}, ["public_key"], closed=True),
        "RevokeSigningKeyOf": a_schema({"reason": _REASON}, closed=True),
        "SignatureRequirement": a_schema(requirement),
        "MadeSignatureRequirement": a_schema({"result": shared.ref("SignatureRequirement")}),
        "SetSignatureRequirement": a_schema({"requirement": _REQUIREMENT}, closed=True),
        "SetSignatureRequirementOf": a_schema({"requirement": _REQUIREMENT, "reason": _REASON}, closed=True),
    }


def _operation(
    name: str,
    summary: str,
    scopes: tuple[str, ...],
    parameters: list[Json],
    codes: tuple[str, ...],
    answer: str,
    *,
    body: str | None = None,
    status: str = "200",
    headers: Json | None = None,
    description: str | None = None,
) -> Json:
    signs = list(elements.SIGNATURE_HEADERS) if signing_key_routes.MANAGE in scopes else []
    request = {"required": True, "content": {elements.JSON: {"schema": shared.ref(body)}}} if body else None
    return {
        "operationId": name,
        "summary": summary,
        **({"description": description} if description else {}),
        "tags": ["signing keys"],
        "security": [{"bearer": [scope]} for scope in scopes],
        "parameters": [*parameters, *signs],
        **({"requestBody": request} if request else {}),
        "responses": {
            status: elements.answer(summary, elements.JSON, answer, headers),
            **elements.refusals((*elements.COMMON, *codes)),
        },
    }
