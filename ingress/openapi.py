"""The OpenAPI document, built from the tables and bounds that the code obeys; a test compares the routes.

Bodies are read raw (for speed and for exact bytes), so FastAPI cannot derive their schemas; what comes in is what the
operations declare, each service states what is read (``ingress/<service>/service.py``), ``http/openapi/shared.py``
what goes out.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any, Final

from ingress.commands.admission import DRY_RUN
from ingress.commands.operation_routes import path_of
from ingress.http.openapi import commands, elements, nulls, reads, shared
from ingress.http.openapi.examples import with_examples
from ingress.operators import openapi as operators_document
from ingress.services import HTTP_SERVICES
from schemas import services
from schemas.operation import Operation

TITLE: Final = "Millrace payments"
Json = dict[str, Any]

_NDJSON: Final = "application/x-ndjson"
_DRY_RUN: Final = elements.query(
    DRY_RUN, {"enum": ["true", "false"]}, "true: only tell what it would come to; nothing is done"
)
_FORECASTS: Final = frozenset[str]().union(*(service.forecasts for service in HTTP_SERVICES))


@cache
def document() -> Json:
    """The whole document."""
    paths: Json = {}
    for operation in services.OPERATIONS.values():
        if operation.scope:
            paths.setdefault(path_of(operation), {})[operation.method.lower()] = _command(operation)
    rooms = [service.paths() for service in HTTP_SERVICES]
    for room in rooms:
        for path, item in room.items():
            paths.setdefault(path, {}).update(item)
    paths |= reads.paths() | operators_document.paths()
    paths["/v1/commands"] = {"post": _commands()}
    schemas: Json = shared.components() | commands.components()
    schemas |= operators_document.components()
    for components in [service.components() for service in HTTP_SERVICES]:
        schemas |= components
    schemas["OperationStatus"] = shared.operation_status(_results(schemas))
    found: Json = {
        "openapi": "3.1.0",
        "info": {"title": TITLE, "version": "1", "description": shared.OVERVIEW},
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"}},
        },
    }
    return with_examples(nulls.typed(found))


def _results(schemas: Json) -> list[Json]:
    """What commands of all services show, each kind once; some have no name."""
    shown = [schemas[one.result]["properties"]["result"] for one in services.OPERATIONS.values() if one.scope]
    named = [one for one in shown if "$ref" in one]
    distinct = list({one["$ref"]: one for one in named}.values())
    return distinct if len(named) == len(shown) else [*distinct, {"type": "object"}]


def _command(operation: Operation) -> Json:
    forms = [shared.ref(f"{operation.record}{form}") for form in ("Command", "Payload")]
    request = {"description": "The envelope; or, with Idempotency-Key, the bare payload", "anyOf": forms}
    status = "201" if operation.creates else "200"
    schema = operation.result
    found = "Committed: the stored result and its event"
    result = elements.answer(found, elements.JSON, schema, elements.COMMITTED_HEADERS)
    own_id = [elements.object_id(name) for name in re.findall(r"{(\w+)}", path_of(operation))]
    can_dry_run = operation.name in _FORECASTS
    dry_runs = [_DRY_RUN] if can_dry_run else []
    forecast = {"200": elements.answer("What it would come to", elements.JSON, "DryRun")} if can_dry_run else {}
    if can_dry_run and status == "200":
        result["content"][elements.JSON]["schema"] = {"anyOf": [shared.ref(s) for s in (schema, "DryRun")]}
    has_to_say = operation.document or bool(commands.payload(operation)["required"])
    body = {"required": has_to_say, "content": {elements.JSON: {"schema": request}}}  # a DELETE has header fields alone
    return {
        "operationId": operation.name,
        "summary": operation.summary,
        "tags": [operation.service],
        "security": [{"bearer": [operation.scope]}],
        "parameters": [*own_id, *elements.command_headers(operation), *elements.SIGNATURE_HEADERS, *dry_runs],
        **({} if operation.method == "DELETE" else {"requestBody": body}),
        "responses": {
            **forecast,
            status: result,
            "202": elements.answer("Accepted, not decided yet", elements.JSON, "Accepted", elements.ACCEPTED_HEADERS),
            **elements.refusals_of(operation),
        },
    }


def _commands() -> Json:
    responses = {
        "200": {
            "description": "One line per command, in order",
            "content": {_NDJSON: {"schema": {"type": "string"}}},
        }
    }
    codes = (*elements.COMMON, "malformed_request", "too_large", "unsupported_media_type", "quota_exceeded")
    return {
        "operationId": "carry_out_commands",
        "summary": "Many commands in one request",
        "description": shared.COMMANDS_DOC,
        "tags": ["payments"],
        "security": [{"bearer": [scope]} for scope in services.WRITE_SCOPES],
        "parameters": [elements.PREFER, *elements.SIGNATURE_HEADERS],
        "requestBody": {"required": True, "content": {_NDJSON: {"schema": {}}}},
        "responses": responses | elements.refusals(codes),
    }
