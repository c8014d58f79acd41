"""The small pieces of the OpenAPI document: parameters, answers, and the problems that may come instead."""

from __future__ import annotations

from typing import Any, Final

from ingress import limits
from ingress.http import problems
from ingress.http.openapi import shared
from schemas.operation import Operation

Json = dict[str, Any]

JSON: Final = "application/json"
COMMON: Final = (
    "malformed_request",
    "unauthenticated",
    "forbidden",
    "suspended",
    "quota_exceeded",
    "headers_too_large",
    "internal_error",
    "unavailable",
)


#: what any command may be refused with; what its domain refuses is declared by the operation
_OF_A_COMMAND: Final = (
    *COMMON,
    "idempotency_key_required",
    "signature_required",
    "signature_invalid",
    "signature_expired",
    "version_conflict",
    "parked",
    "too_large",
    "request_timeout",
    "unsupported_media_type",
    "invalid_command",
    "key_reused",
    "overloaded",
    "deadline_exceeded",
)


def answer(description: str, media: str, schema: str, headers: Json | None = None) -> Json:
    """A success with a body of a named schema."""
    content = {media: {"schema": shared.ref(schema)}}
    return {"description": description, "content": content, "headers": headers or {}}


def refusals_of(operation: Operation) -> Json:
    """One response per status; its description lists exactly the codes that this operation may be refused with."""
    return _responses(codes_of(operation))


def codes_of(operation: Operation) -> list[str]:
    """Every code that an operation may be refused with."""
    own_id = () if operation.creates and "{id}" not in operation.path else ("not_found",)
    codes = {*_OF_A_COMMAND, *own_id, *operation.refusals}
    return [code for code in problems.TABLE if code in codes]


def refusals(codes: tuple[str, ...]) -> Json:
    """One response per status of these; its description lists the codes that may come with it."""
    if "too_large" in codes:  # whoever reads a body waits for it
        codes = (*codes, "request_timeout")
    statuses = {problems.row(code).status for code in codes}
    return _responses([code for code, row in problems.TABLE.items() if row.status in statuses])


def _responses(codes: list[str]) -> Json:
    by_status: dict[int, list[str]] = {}
    for code in codes:
        by_status.setdefault(problems.TABLE[code].status, []).append(code)
    content = {problems.MEDIA_TYPE: {"schema": shared.ref("Problem")}}
    named = {"X-Request-Id": header("What names this request to us; the caller's own, when it gave one")}
    return {
        str(status): {"description": " or ".join(found), "content": content, "headers": named}
        for status, found in sorted(by_status.items())
    }


def header(description: str) -> Json:
    """A header field of an answer."""
    return {"description": description, "schema": {"type": "string"}}


def parameter(name: str, schema: Json, description: str) -> Json:
    """A header field that a request may have."""
    return {"name": name, "in": "header", "required": False, "schema": schema, "description": description}


def query(name: str, schema: Json, description: str) -> Json:
    """A query value that a request may have."""
    return {"name": name, "in": "query", "required": False, "schema": schema, "description": description}


def object_id(name: str) -> Json:
    """An id in the path."""
    return {"name": name, "in": "path", "required": True, "schema": shared.OBJECT_ID}


def limit(default: int = limits.PAGE_LIMIT_DEFAULT, largest: int = limits.PAGE_LIMIT_MAX) -> Json:
    """How long a page may be."""
    schema = {"type": "integer", "minimum": 1, "maximum": largest, "default": default}
    return {"name": "limit", "in": "query", "required": False, "schema": schema}


CURSOR: Final = {"name": "cursor", "in": "query", "required": False, "schema": shared.CURSOR}
PREFER: Final = parameter("Prefer", {"type": "string"}, "wait=N (seconds) and, for commands, respond-async")
NONE_MATCH: Final = parameter("If-None-Match", {"type": "string"}, "The version that the caller has, in quotes")
COMMAND_HEADERS: Final = (
    parameter("Idempotency-Key", shared.IDEMPOTENCY_KEY, "With it the body may be the bare payload"),
    parameter("If-Match", {"type": "string", "pattern": r'^("[0-9]{1,15}"|[0-9]{1,15}|\*)$'}, "The expected version"),
    parameter("X-Request-Id", shared.REQUEST_ID, "Identity of this request"),
    parameter("traceparent", {"type": "string"}, "W3C trace context"),
    PREFER,
)


def command_headers(operation: Operation) -> list[Json]:
    """``COMMAND_HEADERS``: those of them that have to be sent where no body can say the same."""
    needed = {"Idempotency-Key", *(("If-Match",) if operation.needs_version else ())}
    return [one | {"required": operation.method == "DELETE" and one["name"] in needed} for one in COMMAND_HEADERS]


#: of every call that changes something for a merchant; which of them have to be signed, the merchant sets
SIGNATURE_HEADERS: Final = (
    parameter(
        "Content-Digest", {"type": "string"}, "RFC 9530: sha-256 or sha-512 of the body, covered by the signature"
    ),
    parameter(
        "Signature-Input",
        {"type": "string"},
        "RFC 9421, Ed25519: covers @method, @path, @query if there is one, content-digest if there is a body,"
        f" idempotency-key and if-match if they are sent; with keyid, and created at most"
        f" {limits.SIGNATURE_AGE_MAX_S} s ago",
    ),
    parameter("Signature", {"type": "string"}, "RFC 9421, under the label of Signature-Input"),
)
COMMITTED_HEADERS: Final = {
    "ETag": header("The version, in quotes"),
    "Location": header("Of what was created"),
    "Idempotency-Replayed": header("true when this is the stored answer to an earlier try"),
}
#: of what persons decide, and of what they make by it: it is no committed command, and says no version
REPLAYED_HEADERS: Final = {"Idempotency-Replayed": COMMITTED_HEADERS["Idempotency-Replayed"]}
MADE_HEADERS: Final = {"Location": COMMITTED_HEADERS["Location"], **REPLAYED_HEADERS}
ACCEPTED_HEADERS: Final = {"Location": header("/v1/operations/{request_id}")}
