"""What is read of every service, in the OpenAPI document: what became of commands, events, and what is open to all."""

from __future__ import annotations

from typing import Any, Final

from ingress import limits as ingress_limits
from ingress.http import registry
from ingress.http.openapi import elements, shared
from schemas.services import SERVICES

Json = dict[str, Any]

OF_A_LIST: Final = ("malformed_request", "invalid_command")
OF_ONE: Final = ("not_found",)
_REGISTRY: Final = registry.MEDIA_TYPE
_TEXT: Final = {"type": "string"}
#: query values of Confluent's registry; what is no "true" there, in capitals or not, is false
_ASKED: Final[Json] = {
    "normalize": _TEXT,
    "deleted": _TEXT,
    "deletedOnly": _TEXT,
    "deleted_only": _TEXT,
    "deletedAsNegative": _TEXT,
    "defaultToGlobal": _TEXT,
    "fetchMaxId": _TEXT,
    "findTags": _TEXT,
    "subject": _TEXT,
    "subjectPrefix": _TEXT,
    "format": _TEXT,
    "referenceFormat": _TEXT,
    "reference_format": _TEXT,
    "offset": {"type": "integer", "minimum": 0, "maximum": registry.NUMBER_MAX},
    "limit": {"type": "integer", "minimum": registry.EVERYTHING, "maximum": registry.NUMBER_MAX},
}
_LISTED: Final = ("deleted", "deletedOnly", "deleted_only", "deletedAsNegative", "offset", "limit")
_SHOWN: Final = ("format", "referenceFormat", "reference_format", "fetchMaxId", "findTags")
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
    parameter = {"name": "request_id", "in": "path", "required": True, "schema": shared.REQUEST_ID}
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
    last = elements.parameter("Last-Event-ID", shared.CURSOR, "Where to resume")
    content = {"text/event-stream": {"schema": {"type": "string"}}}
    return read(
        "stream_events",
        "The caller's events as they commit (server-sent events)",
        [elements.CURSOR, _service(), last],
        {"200": {"description": "A stream; id is a cursor, data is one event", "content": content}},
        ("malformed_request",),
    )


def _open(operation_id: str, summary: str, media: str, parameters: list[Json], responses: Json) -> Json:
    return {
        "get": {
            "operationId": operation_id,
            "summary": summary,
            "tags": ["public"],
            "security": [],
            "parameters": parameters,
            "responses": {"200": {"description": "Found", "content": {media: {"schema": {}}}}} | responses,
        }
    }


def _alive(operation_id: str, summary: str, *codes: str) -> Json:
    refusals = elements.refusals(("headers_too_large", "internal_error", *codes))
    return _open(operation_id, summary, elements.JSON, [], refusals)


def _registry(operation_id: str, summary: str, names: tuple[str, ...], asked: tuple[str, ...]) -> Json:
    """A GET of the registry: ``asked`` are query values of Confluent's API, and so are its errors."""
    parameters = [{"name": n, "in": "path", "required": True, "schema": {"type": "string"}} for n in names]
    parameters += [elements.query(name, _ASKED[name], "As in Confluent's API") for name in asked]
    statuses = ("400", "404", "422") if names else ("400",)
    return _open(operation_id, summary, _REGISTRY, parameters, _registry_errors(*statuses))


def _registry_errors(*statuses: str) -> Json:
    error = {_REGISTRY: {"schema": shared.ref("RegistryError")}}
    refused = {status: {"description": "Refused, or not found", "content": error} for status in statuses}
    return elements.refusals(("headers_too_large", "internal_error")) | refused


def _asking(operation_id: str, summary: str, *asked: str) -> Json:
    schema = {"type": "object", "required": ["schema"], "properties": {"schema": {"type": "string"}}}
    found = _registry(operation_id, summary, ("subject",), asked)["get"]
    body = {"required": True, "content": {_REGISTRY: {"schema": schema}}}
    responses = _registry_errors("408", "413", "415") | found["responses"]
    return {"post": found | {"requestBody": body, "responses": responses}}


def _public() -> Json:
    versions = "/subjects/{subject}/versions"
    one = ("subject", "version")
    return {
        "/healthz": _alive("healthz", "Alive"),
        "/readyz": _alive("readyz", "May serve", "unavailable"),
        "/.well-known/jwks.json": _alive("jwks", "Keys of the development issuer", "not_found"),
        "/schemas/ids/{schema_id}": _registry("schema_by_id", "A schema", ("schema_id",), ("subject", *_SHOWN)),
        "/subjects": _registry("subjects", "All subjects", (), ("subjectPrefix", *_LISTED)),
        "/subjects/{subject}": _asking("look_up_schema", "Which version a schema is", "normalize", "deleted", "format"),
        versions: _registry("versions", "The versions of a subject", ("subject",), _LISTED)
        | _asking("register_schema", "The id of a schema that is there; nothing new is taken", "normalize", "format"),
        f"{versions}/{{version}}": _registry("version_of", "One version", one, ("deleted", *_SHOWN)),
        "/config": _registry("config", "How versions go together", (), ("defaultToGlobal",)),
        "/config/{subject}": _registry("config_of", "How those of a subject do", ("subject",), ("defaultToGlobal",)),
    }
