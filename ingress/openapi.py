"""The OpenAPI document, built from the tables and bounds that the code obeys; a test compares the routes.

Bodies are read raw (for speed and for exact bytes), so FastAPI cannot derive their schemas; ``openapi_payloads.py``
states what comes in, ``openapi_schemas.py`` what goes out, and ``openapi_reads.py`` describes every GET.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from ingress.http import openapi_elements as elements
from ingress.http import openapi_schemas
from ingress.identity import openapi_signing
from ingress.limiter import openapi as openapi_limiter
from ingress.payments import dry_run
from ingress.payments.openapi import accounts as openapi_accounts
from ingress.payments.openapi import closings as openapi_closings
from ingress.payments.openapi import endpoints as openapi_endpoints
from ingress.payments.openapi import outcomes as openapi_outcomes
from ingress.payments.openapi import payloads as openapi_payloads
from ingress.payments.openapi import policies as openapi_policies
from ingress.payments.openapi import reads as openapi_reads
from ingress.payments.openapi import repairs as openapi_repairs
from ingress.payments.openapi import webhooks as openapi_webhooks
from schemas.operation import Operation
from schemas.services import OPERATIONS

TITLE: Final = "Millrace payments"
Json = dict[str, Any]

_NDJSON: Final = "application/x-ndjson"
_OF_A_COMMAND: Final = (
    *elements.COMMON,
    "malformed_request",
    "not_found",
    "version_conflict",
    "too_large",
    "unsupported_media_type",
    "invalid_command",
    "quota_exceeded",
    "deadline_exceeded",
)
_DRY_RUN: Final = elements.query(
    dry_run.PARAMETER, {"enum": ["true", "false"]}, "true: only tell what it would come to; nothing is done"
)


@cache
def document() -> Json:
    """The whole document."""
    paths: Json = {}
    for operation in OPERATIONS.values():
        if operation.scope:
            paths.setdefault(path_of(operation), {})["post"] = _command(operation)
    for path, read in openapi_reads.paths().items():
        paths.setdefault(path, {}).update(read)
    for path, item in (openapi_accounts.paths() | openapi_limiter.paths()).items():
        paths.setdefault(path, {}).update(item)
    paths |= openapi_repairs.paths()
    paths |= openapi_closings.paths()
    paths |= openapi_outcomes.paths()
    paths |= openapi_policies.paths()
    paths |= openapi_endpoints.paths()
    paths |= openapi_signing.paths()
    paths["/v1/commands"] = {"post": _commands()}
    paths["/v1/webhooks/{processor}"] = {"post": openapi_webhooks.receive(elements.refusals)}
    return {
        "openapi": "3.1.0",
        "info": {"title": TITLE, "version": "1", "description": openapi_schemas.OVERVIEW},
        "paths": paths,
        "components": {
            "schemas": openapi_schemas.components()
            | openapi_payloads.components()
            | openapi_endpoints.components()
            | openapi_repairs.components()
            | openapi_closings.components()
            | openapi_outcomes.components()
            | openapi_accounts.components()
            | openapi_limiter.components()
            | openapi_policies.components()
            | openapi_signing.components(),
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"}},
        },
    }


def path_of(operation: Operation) -> str:
    """The route of an operation, with the name of its path parameter."""
    return operation.path.replace("{id}", f"{{{operation.id_name}}}")


def _command(operation: Operation) -> Json:
    forms = [openapi_schemas.ref(f"{operation.record}{form}") for form in ("Command", "Payload")]
    request = {"description": "The envelope; or, with Idempotency-Key, the bare payload", "anyOf": forms}
    status = "201" if operation.creates else "200"
    schema = operation.result
    found = "Committed: the stored result and its event"
    result = elements.answer(found, elements.JSON, schema, elements.COMMITTED_HEADERS)
    own_id = [] if operation.creates else [elements.object_id(operation.id_name)]
    can_dry_run = operation.name in dry_run.OPERATIONS
    dry_runs = [_DRY_RUN] if can_dry_run else []
    forecast = {"200": elements.answer("What it would come to", elements.JSON, "DryRun")} if can_dry_run else {}
    if can_dry_run and status == "200":
        result["content"][elements.JSON]["schema"] = {"anyOf": [openapi_schemas.ref(s) for s in (schema, "DryRun")]}
    return {
        "operationId": operation.name,
        "summary": operation.summary,
        "tags": ["payments"],
        "security": [{"bearer": [operation.scope]}],
        "parameters": [*own_id, *elements.COMMAND_HEADERS, *elements.SIGNATURE_HEADERS, *dry_runs],
        "requestBody": {"required": True, "content": {elements.JSON: {"schema": request}}},
        "responses": {
            **forecast,
            status: result,
            "202": elements.answer("Accepted, not decided yet", elements.JSON, "Accepted", elements.ACCEPTED_HEADERS),
            **elements.refusals(_OF_A_COMMAND),
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
        "description": openapi_schemas.COMMANDS_DOC,
        "tags": ["payments"],
        "security": [{"bearer": ["payments:write"]}],
        "parameters": [elements.PREFER, *elements.SIGNATURE_HEADERS],
        "requestBody": {"required": True, "content": {_NDJSON: {"schema": {}}}},
        "responses": responses | elements.refusals(codes),
    }
