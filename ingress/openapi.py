"""The OpenAPI document, built from the tables and bounds that the code obeys; a test compares the routes.

Bodies are read raw (for speed and for exact bytes), so FastAPI cannot derive their schemas;
``openapi_schemas.py`` states them.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from ingress import openapi_schemas, problems
from schemas import limits
from schemas.operations import OPERATIONS, Operation

TITLE: Final = "Millrace payments"
Json = dict[str, Any]

_JSON: Final = "application/json"
_NDJSON: Final = "application/x-ndjson"
_REGISTRY: Final = "application/vnd.schemaregistry.v1+json"
_COMMON: Final = ("unauthenticated", "forbidden", "headers_too_large", "internal_error", "unavailable")
_OF_A_COMMAND: Final = (
    *_COMMON,
    "malformed_request",
    "not_found",
    "version_conflict",
    "too_large",
    "unsupported_media_type",
    "invalid_command",
    "quota_exceeded",
    "deadline_exceeded",
)
_SUMMARIES: Final = {
    "create_payment_intent": "Create a payment intent",
    "confirm_payment_intent": "Confirm: authorize or capture",
    "capture_payment_intent": "Capture what was authorized",
    "cancel_payment_intent": "Cancel and release",
}


@cache
def document() -> Json:
    """The whole document."""
    paths: Json = {}
    for operation in OPERATIONS.values():
        if operation.scope:
            path = operation.path.replace("{id}", "{intent_id}")
            paths.setdefault(path, {})["post"] = _command(operation)
    paths["/v1/payment_intents"]["get"] = _list()
    paths["/v1/payment_intents/{intent_id}"] = {"get": _get_intent()}
    paths["/v1/commands"] = {"post": _commands()}
    paths["/v1/operations/{request_id}"] = {"get": _operation()}
    paths["/v1/recovery_checkpoints"] = {"get": _checkpoints()}
    paths["/v1/events"] = {"get": _events()}
    paths["/v1/events/stream"] = {"get": _stream()}
    paths |= _public()
    return {
        "openapi": "3.1.0",
        "info": {"title": TITLE, "version": "1", "description": openapi_schemas.OVERVIEW},
        "paths": paths,
        "components": {
            "schemas": openapi_schemas.components(),
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"}},
        },
    }


def _command(operation: Operation) -> Json:
    forms = [openapi_schemas.ref(f"{operation.record}{form}") for form in ("Command", "Payload")]
    request = {"description": "The envelope; or, with Idempotency-Key, the bare payload", "anyOf": forms}
    status = "201" if operation.creates else "200"
    result = _answer("Committed: the stored result and its event", _JSON, "Committed", _COMMITTED_HEADERS)
    return {
        "operationId": operation.name,
        "summary": _SUMMARIES[operation.name],
        "tags": ["payments"],
        "security": [{"bearer": [operation.scope]}],
        "parameters": [*([] if operation.creates else [_INTENT_ID]), *_COMMAND_HEADERS],
        "requestBody": {"required": True, "content": {_JSON: {"schema": request}}},
        "responses": {
            status: result,
            "202": _answer("Accepted, not decided yet", _JSON, "Accepted", _ACCEPTED_HEADERS),
            **_problems(_OF_A_COMMAND),
        },
    }


def _list() -> Json:
    return _read(
        "list_payment_intents",
        "The caller's payment intents, newest first",
        [_limit(limits.PAGE_LIMIT_DEFAULT, limits.PAGE_LIMIT_MAX), _CURSOR],
        {"200": _answer("One page", _JSON, "PaymentIntentPage")},
        ("malformed_request", "invalid_command"),
    )


def _get_intent() -> Json:
    headers = {"ETag": _header("The version, in quotes")}
    return _read(
        "get_payment_intent",
        "One payment intent",
        [_INTENT_ID, _PREFER, _NONE_MATCH],
        {
            "200": _answer("The intent", _JSON, "PaymentIntent", headers),
            "304": {"description": "If-None-Match names the current version"},
        },
        ("not_found",),
    )


def _commands() -> Json:
    responses = {
        "200": {
            "description": "One line per command, in order",
            "content": {_NDJSON: {"schema": {"type": "string"}}},
        }
    }
    codes = (*_COMMON, "malformed_request", "too_large", "unsupported_media_type", "quota_exceeded")
    return {
        "operationId": "carry_out_commands",
        "summary": "Many commands in one request",
        "description": openapi_schemas.COMMANDS_DOC,
        "tags": ["payments"],
        "security": [{"bearer": ["payments:write"]}],
        "parameters": [_PREFER],
        "requestBody": {"required": True, "content": {_NDJSON: {"schema": {}}}},
        "responses": responses | _problems(codes),
    }


def _operation() -> Json:
    parameter = {
        "name": "request_id",
        "in": "path",
        "required": True,
        "schema": openapi_schemas.REQUEST_ID,
    }
    return _read(
        "get_operation",
        "What became of a command",
        [parameter],
        {"200": _answer("The operation", _JSON, "OperationStatus")},
        ("not_found",),
    )


def _checkpoints() -> Json:
    found = _read(
        "list_recovery_checkpoints",
        "Named positions to recover from, newest first",
        [_limit(limits.PAGE_LIMIT_DEFAULT, limits.PAGE_LIMIT_MAX), _CURSOR],
        {"200": _answer("One page", _JSON, "CheckpointPage")},
        ("malformed_request", "invalid_command"),
    )
    return found | {"tags": ["operators"], "security": [{"bearer": ["operator"]}]}


def _events() -> Json:
    return _read(
        "list_events",
        "The caller's events after a place, oldest first",
        [_limit(limits.EVENTS_PAGE_LIMIT_DEFAULT, limits.EVENTS_PAGE_LIMIT_MAX), _CURSOR],
        {"200": _answer("One page", _JSON, "EventPage")},
        ("malformed_request", "invalid_command"),
    )


def _stream() -> Json:
    last = {"name": "Last-Event-ID", "in": "header", "required": False, "schema": openapi_schemas.CURSOR}
    content = {"text/event-stream": {"schema": {"type": "string"}}}
    return _read(
        "stream_events",
        "The caller's events as they commit (server-sent events)",
        [_CURSOR, last],
        {"200": {"description": "A stream; id is a cursor, data is one event", "content": content}},
        ("malformed_request",),
    )


def _public() -> Json:
    def get(operation_id: str, summary: str, media: str, names: tuple[str, ...] = (), *, lost: bool = False) -> Json:
        parameters = [{"name": n, "in": "path", "required": True, "schema": {"type": "string"}} for n in names]
        responses = {"200": {"description": "Found", "content": {media: {"schema": {}}}}}
        if lost:
            error = {media: {"schema": openapi_schemas.ref("RegistryError")}}
            responses |= {s: {"description": "Not found", "content": error} for s in ("404", "422")}
        return {
            "get": {
                "operationId": operation_id,
                "summary": summary,
                "tags": ["public"],
                "security": [],
                "parameters": parameters,
                "responses": responses | _problems(("headers_too_large", "internal_error")),
            }
        }

    ready = get("readyz", "May serve", _JSON)
    ready["get"]["responses"] |= _problems(("unavailable",))
    keys = get("jwks", "Keys of the development issuer", _JSON)
    keys["get"]["responses"] |= _problems(("not_found",))
    versions = "/subjects/{subject}/versions"
    one = ("subject", "version")
    return {
        "/healthz": get("healthz", "Alive", _JSON),
        "/readyz": ready,
        "/.well-known/jwks.json": keys,
        "/schemas/ids/{schema_id}": get("schema_by_id", "A schema", _REGISTRY, ("schema_id",), lost=True),
        "/subjects": get("subjects", "All subjects", _REGISTRY),
        versions: get("versions", "The versions of a subject", _REGISTRY, ("subject",), lost=True),
        f"{versions}/{{version}}": get("version_of", "One version", _REGISTRY, one, lost=True),
    }


def _read(operation_id: str, summary: str, parameters: list[Json], responses: Json, codes: tuple[str, ...]) -> Json:
    return {
        "operationId": operation_id,
        "summary": summary,
        "tags": ["payments"],
        "security": [{"bearer": ["payments:read"]}],
        "parameters": parameters,
        "responses": responses | _problems((*_COMMON, *codes)),
    }


def _answer(description: str, media: str, schema: str, headers: Json | None = None) -> Json:
    content = {media: {"schema": openapi_schemas.ref(schema)}}
    return {"description": description, "content": content, "headers": headers or {}}


def _problems(codes: tuple[str, ...]) -> Json:
    """One response per status; its description lists the codes that may come with it."""
    by_status: dict[int, list[str]] = {}
    for code, row in problems.TABLE.items():
        if row.status in {problems.row(c).status for c in codes}:
            by_status.setdefault(row.status, []).append(code)
    content = {problems.MEDIA_TYPE: {"schema": openapi_schemas.ref("Problem")}}
    return {
        str(status): {"description": " or ".join(found), "content": content}
        for status, found in sorted(by_status.items())
    }


def _header(description: str) -> Json:
    return {"description": description, "schema": {"type": "string"}}


def _parameter(name: str, schema: Json, description: str) -> Json:
    return {"name": name, "in": "header", "required": False, "schema": schema, "description": description}


def _limit(default: int, largest: int) -> Json:
    schema = {"type": "integer", "minimum": 1, "maximum": largest, "default": default}
    return {"name": "limit", "in": "query", "required": False, "schema": schema}


_CURSOR: Final = {"name": "cursor", "in": "query", "required": False, "schema": openapi_schemas.CURSOR}
_INTENT_ID: Final = {"name": "intent_id", "in": "path", "required": True, "schema": openapi_schemas.INTENT_ID}
_PREFER: Final = _parameter("Prefer", {"type": "string"}, "wait=N (seconds) and, for commands, respond-async")
_NONE_MATCH: Final = _parameter("If-None-Match", {"type": "string"}, "The version that the caller has, in quotes")
_COMMAND_HEADERS: Final = (
    _parameter("Idempotency-Key", openapi_schemas.IDEMPOTENCY_KEY, "With it the body may be the bare payload"),
    _parameter("If-Match", {"type": "string", "pattern": r'^("[0-9]{1,15}"|[0-9]{1,15}|\*)$'}, "The expected version"),
    _parameter("X-Request-Id", openapi_schemas.REQUEST_ID, "Identity of this request"),
    _parameter("traceparent", {"type": "string"}, "W3C trace context"),
    _PREFER,
)
_COMMITTED_HEADERS: Final = {
    "ETag": _header("The version, in quotes"),
    "Location": _header("Of what was created"),
    "Idempotency-Replayed": _header("true when this is the stored answer to an earlier try"),
}
_ACCEPTED_HEADERS: Final = {"Location": _header("/v1/operations/{request_id}")}
