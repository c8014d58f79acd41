"""Every GET of the OpenAPI document: resources, lists, streams, and what is open to everybody."""

from __future__ import annotations

from typing import Any, Final

from ingress import limits as ingress_limits
from ingress.http import openapi_elements as elements
from ingress.http import openapi_schemas
from ingress.identity.roles import by_operators
from ingress.operators import cases
from ingress.payments import expansion, filters
from ingress.payments.resources import DISPUTES, INTENTS, REFUNDS, Kind
from schemas.payments import limits as payments_limits
from schemas.services import SERVICES

Json = dict[str, Any]

_REGISTRY: Final = "application/vnd.schemaregistry.v1+json"
_OF_A_LIST: Final = ("malformed_request", "invalid_command")
_OF_ONE: Final = ("not_found",)
_ONLY_OF_STATE: Final = elements.query("state", {"enum": list(cases.STATES)}, "Only those in this state")
_ONLY_OF_KIND: Final = elements.query("kind", openapi_schemas.WORD, "Only those of this kind")
_AT: Final = elements.query("at", {"type": "string", "format": "date-time"}, "At this past time instead of now")


def paths() -> Json:
    """The GET of every path that has one."""
    return {
        "/v1/payment_intents": _list(
            "payment_intents",
            "The caller's payment intents, newest first",
            "PaymentIntentPage",
            *filters_of(INTENTS),
        ),
        "/v1/payment_intents/{intent_id}": _resource(
            "payment_intent", "intent_id", "One payment intent", "PaymentIntentRead", "payment_intents"
        ),
        "/v1/refunds": _list("refunds", "The caller's refunds, newest first", "RefundPage", *filters_of(REFUNDS)),
        "/v1/refunds/{refund_id}": _resource("refund", "refund_id", "One refund", "RefundRead", "refunds"),
        "/v1/disputes": _list("disputes", "The caller's disputes, newest first", "DisputePage", *filters_of(DISPUTES)),
        "/v1/disputes/{dispute_id}": _resource("dispute", "dispute_id", "One dispute", "DisputeRead", "disputes"),
        "/v1/balance": _balance(),
        "/v1/fee_policy": _fee_policy(),
        "/v1/operations/{request_id}": _operation(),
        "/v1/events": _events(),
        "/v1/events/stream": _stream(),
        "/v1/cases": _cases(),
        "/v1/cases/{case_id}": _case(),
        "/v1/processors": _processors(),
        "/v1/recovery_checkpoints": _checkpoints(),
        **_public(),
    }


def filters_of(kind: Kind[Any]) -> list[Json]:
    """By what the list of a kind is filtered."""
    return filters.parameters(kind.record, of_intent=kind.of_intent is not None)


def _read(operation_id: str, summary: str, parameters: list[Json], responses: Json, codes: tuple[str, ...]) -> Json:
    return {
        "get": {
            "operationId": operation_id,
            "summary": summary,
            "tags": ["payments"],
            "security": [{"bearer": ["payments:read"]}],
            "parameters": parameters,
            "responses": responses | elements.refusals((*elements.COMMON, *codes)),
        }
    }


def _for_operators(read: Json) -> Json:
    return {"get": read["get"] | by_operators("case.read")}


def _list(name: str, summary: str, page: str, *filters: Json) -> Json:
    responses = {"200": elements.answer("One page", elements.JSON, page)}
    return _read(f"list_{name}", summary, [*filters, elements.limit(), elements.CURSOR], responses, _OF_A_LIST)


def _resource(name: str, parameter: str, summary: str, schema: str, kind: str | None = None) -> Json:
    headers = {"ETag": elements.header("The version, in quotes; none when something is expanded")}
    responses = {
        "200": elements.answer("The resource", elements.JSON, schema, headers),
        "304": {"description": "If-None-Match names the current version"},
    }
    parameters = [elements.object_id(parameter), elements.PREFER, elements.NONE_MATCH]
    if kind is not None:
        names = {
            "type": "array",
            "items": {"enum": list(expansion.ALLOWED[kind])},
            "maxItems": payments_limits.EXPANSIONS_MAX,
        }
        parameters.append(elements.query(expansion.PARAMETER, names, "What to take along instead of its id"))
    return _read(f"get_{name}", summary, parameters, responses, (*_OF_ONE, "invalid_command"))


def _balance() -> Json:
    responses = {"200": elements.answer("The balances, one for each currency", elements.JSON, "Balances")}
    return _read("get_balance", "What is owed to the merchant", [_AT], responses, _OF_A_LIST)


def _fee_policy() -> Json:
    responses = {"200": elements.answer("The terms in force, and those to come", elements.JSON, "FeePolicyRead")}
    return _read("get_fee_policy", "What the platform takes of the caller's captures", [], responses, ())


def _operation() -> Json:
    parameter = {"name": "request_id", "in": "path", "required": True, "schema": openapi_schemas.REQUEST_ID}
    responses = {"200": elements.answer("The operation", elements.JSON, "OperationStatus")}
    return _read("get_operation", "What became of a command", [parameter], responses, _OF_ONE)


def _cases() -> Json:
    filters = (_ONLY_OF_STATE, _ONLY_OF_KIND)
    return _for_operators(_list("cases", "What waits for a person, newest first", "CasePage", *filters))


def _case() -> Json:
    responses = {"200": elements.answer("The case", elements.JSON, "Case")}
    return _for_operators(_read("get_case", "One case", [elements.object_id("case_id")], responses, _OF_ONE))


def _processors() -> Json:
    responses = {"200": elements.answer("The processors, the default first", elements.JSON, "Processors")}
    return _for_operators(_read("list_processors", "Every processor, and how it is", [], responses, ()))


def _checkpoints() -> Json:
    summary = "Named positions to recover from, newest first"
    return _for_operators(_list("recovery_checkpoints", summary, "CheckpointPage"))


def _events() -> Json:
    return _read(
        "list_events",
        "The caller's events after a place, oldest first",
        [
            elements.limit(ingress_limits.EVENTS_PAGE_LIMIT_DEFAULT, ingress_limits.EVENTS_PAGE_LIMIT_MAX),
            elements.CURSOR,
            _service(),
        ],
        {"200": elements.answer("One page", elements.JSON, "EventPage")},
        _OF_A_LIST,
    )


def _service() -> Json:
    named = {"enum": [service.name for service in SERVICES]}
    return {"name": "service", "in": "query", "description": "Of this service alone", "schema": named}


def _stream() -> Json:
    last = elements.parameter("Last-Event-ID", openapi_schemas.CURSOR, "Where to resume")
    content = {"text/event-stream": {"schema": {"type": "string"}}}
    return _read(
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
