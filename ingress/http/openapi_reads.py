"""What is read of every service, in the OpenAPI document: what became of commands, events, and what is open to all."""

from __future__ import annotations

from typing import Any, Final

from ingress import limits as ingress_limits
from ingress.http import openapi_elements as elements
from ingress.http import openapi_schemas
from schemas.services import SERVICES

Json = dict[str, Any]

OF_A_LIST: Final = ("malformed_request", "invalid_command")
OF_ONE: Final = ("not_found",)
_REGISTRY: Final = "application/vnd.schemaregistry.v1+json"
_TAG: Final = "payments"  # clients that were generated find these calls under it


def paths() -> Json:
    """The GET of each, and of the schema registry."""
    return {
        "/v1/operations/{request_id}": _operation(),
        "/v1/events": _events(),
        "/v1/events/stream": _stream(),
        **_public(),
    }


def read(operation_id: str, summary: str, parameters: list[Json], responses: Json, codes: tuple[str, ...]) -> Json:
    """One GET; ``codes``: what it refuses beside what every call may."""
    return {
        "get": {
            "operationId": operation_id,
            "summary": summary,
            "tags": [_TAG],
            "security": [{"bearer": ["payments:read"]}],
            "parameters": parameters,
            "responses": responses | elements.refusals((*elements.COMMON, *codes)),
        }
    }


def a_list(name: str, summary: str, page: str, *filters: Json) -> Json:
    """The GET of a list, in pages, newest first."""
    responses = {"200": elements.answer("One page", elements.JSON, page)}
    return read(f"list_{name}", summary, [*filters, elements.limit(), elements.CURSOR], responses, OF_A_LIST)


def _operation() -> Json:
    parameter = {"name": "request_id", "in": "path", "required": True, "schema": openapi_schemas.REQUEST_ID}
    responses = {"200": elements.answer("The operation", elements.JSON, "OperationStatus")}
    return read("get_operation", "What became of a command", [parameter], responses, OF_ONE)


def _events() -> Json:
    return read(
        "list_events",
        "The caller's events after a place, oldest first",
        [
            elements.limit(ingress_limits.EVENTS_PAGE_LIMIT_DEFAULT, ingress_limits.EVENTS_PAGE_LIMIT_MAX),
            elements.CURSOR,
            _service(),
        ],
        {"200": elements.answer("One page", elements.JSON, "EventPage")},
        OF_A_LIST,
    )


def _service() -> Json:
    named = {"enum": [service.name for service in SERVICES]}
    return {"name": "service", "in": "query", "description": "Of this service alone", "schema": named}


def _stream() -> Json:
    last = elements.parameter("Last-Event-ID", openapi_schemas.CURSOR, "Where to resume")
    content = {"text/event-stream": {"schema": {"type": "string"}}}
    return read(
        "stream_events",
        "The caller's events as they commit (server-sent events)",
        [elements.CURSOR, _service(), last],
        {"200": {"description": "A stream; id is a cursor, data is one event", "content": content}},
        ("malformed_request",),
    )


def _open(operation_id: str, summary: str, media: str, names: tuple[str, ...] = (), *, lost: bool = False) -> Json:
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
            "responses": responses | elements.refusals(("headers_too_large", "internal_error")),
        }
    }


def _asking(operation_id: str, summary: str) -> Json:
    asked = {"type": "object", "required": ["schema"], "properties": {"schema": {"type": "string"}}}
    found = _open(operation_id, summary, _REGISTRY, ("subject",), lost=True)["get"]
    codes = ("malformed_request", "too_large", "unsupported_media_type", "headers_too_large", "internal_error")
    body = {"required": True, "content": {_REGISTRY: {"schema": asked}}}
    return {"post": found | {"requestBody": body, "responses": elements.refusals(codes) | found["responses"]}}


def _public() -> Json:
    ready = _open("readyz", "May serve", elements.JSON)
    ready["get"]["responses"] |= elements.refusals(("unavailable",))
    keys = _open("jwks", "Keys of the development issuer", elements.JSON)
    keys["get"]["responses"] |= elements.refusals(("not_found",))
    versions = "/subjects/{subject}/versions"
    one = ("subject", "version")
    return {
        "/healthz": _open("healthz", "Alive", elements.JSON),
        "/readyz": ready,
        "/.well-known/jwks.json": keys,
        "/schemas/ids/{schema_id}": _open("schema_by_id", "A schema", _REGISTRY, ("schema_id",), lost=True),
        "/subjects": _open("subjects", "All subjects", _REGISTRY),
        "/subjects/{subject}": _asking("look_up_schema", "Which version a schema is"),
        versions: _open("versions", "The versions of a subject", _REGISTRY, ("subject",), lost=True)
        | _asking("register_schema", "The id of a schema that is there; nothing new is taken"),
        f"{versions}/{{version}}": _open("version_of", "One version", _REGISTRY, one, lost=True),
        "/config": _open("config", "How versions go together", _REGISTRY),
        "/config/{subject}": _open("config_of", "How those of a subject do", _REGISTRY, ("subject",), lost=True),
    }
