"""An example for every body of the OpenAPI document, made from its own schema: one that its schema refuses cannot stay.

What a schema cannot say, that a currency is one that exists or an id one of ours, is named here, once for each field.
"""

from __future__ import annotations

import re
from typing import Any, Final

Json = dict[str, Any]

_REF: Final = "#/components/schemas/"
_TIME: Final = "2026-01-02T03:04:05Z"
_DEPTH_MAX: Final = 12  # objects within objects; what goes deeper names itself again
_SHOWN_DEPTH: Final = 2  # to here what may be left out is shown, too
_NULL: Final[Json] = {"type": "null"}
#: by field; a value that the schema at hand refuses by its type is not taken
NAMED: Final[Json] = {
    "account_id": "merchant_payable:m_shop:USD",
    "action": "payment.read",
    "aggregate_key": "pi_01JGFJJZ0000000000000000",
    "algorithm": "fixed_window",
    "amount": 1_099,
    "as_of": _TIME,
    "audit": "full",
    "author": "ada@example.org",
    "body": {},
    "cancellation_reason": None,
    "capacity": 100,
    "capture_method": "automatic",
    "code": "card_declined",
    "created_at": _TIME,
    "currency": "USD",
    "display_name": "Ada",
    "description": "Order 17",
    "destination": "main",
    "digest": "sha-256=:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=:",
    "effective_at": _TIME,
    "email": "ada@example.org",
    "event_id": "ev_01JGFJJZ0000000000000000",
    "event_type": "PaymentSystemCommitted",
    "expected_version": None,
    "home_currency": "USD",
    "id": "pi_01JGFJJZ0000000000000000",
    "idempotency_key": "order-17",
    "kind": "settlement_difference",
    "last_payment_error": None,
    "merchant": "m_shop",
    "merchant_id": "m_shop",
    "metadata": {"order": "17"},
    "name": "Ada",
    "account_number": "DE89370400440532013000",
    "next_action": None,
    "note": "Seen on the bank's statement",
    "operation": "POST /v1/payment_intents",
    "operation_id": "op_17",
    "payment_intent": "pi_01JGFJJZ0000000000000000",
    "payment_method": "tok_sim_approve",
    "processor": "simulator",
    "public_key": (
        "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n"
        "-----END PUBLIC KEY-----"
    ),
    "reason": "requested by the customer",
    "reference": "order-17",
    "request_id": "req-17",
    "route": "*",
    "state": "requires_confirmation",
    "tenant": "t_shop",
    "text": "A first post",
    "trace_id": "4bf92f3577b34da6a3ce929d0e0e4736",
    "updated_at": _TIME,
    "url": "https://shop.example/webhooks",
    "user": "*",
    "valid_until": "2026-01-05T03:04:05Z",
    "window_ms": 60_000,
}
#: what a payload says, where it has one of these
_WORDS: Final = frozenset(("text", "display_name"))
#: by schema, of those whose fields depend on one another
_WHOLE: Final[Json] = {
    "ChangeTenantPayload": {"name": "Example"},
    "BankRule": {"name": "account-fees", "text": "Account fee", "direction": "out"},
    "RepairProposal": {"template": "write_off", "amount": 1_099, "currency": "USD", "note": "Never paid by the bank"},
}
#: of texts that have to fit a pattern or format, the first that does
_TEXTS: Final = (
    "example",
    "EXAMPLE",
    "US",
    "EUR/USD",
    "203.0.113.7",
    "203.0.113.0/24",
    "https://shop.example/",
    _TIME,
    "2026-01-02",
    "2026-01",
    "00000000-0000-4000-8000-000000000000",
    "17",
    "0" * 32,
    "0" * 64,
    "AAAAAAAAAAAAAAAAAAAAAA",
    "/v1/example",
    "bool:true",
)
_FORMATS: Final = {
    "date-time": _TIME,
    "date": "2026-01-02",
    "uri": "https://shop.example/",
    "ipv4": "203.0.113.7",
    "uuid": "00000000-0000-4000-8000-000000000000",
}
_TYPES: Final[dict[str, type | tuple[type, ...]]] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "object": dict,
    "array": list,
    "null": type(None),
}


def with_examples(document: Json) -> Json:
    """The document, with an example in every JSON body of a request and of a success that says what it is."""
    schemas = document["components"]["schemas"]
    for operation in (operation for item in document["paths"].values() for operation in item.values()):
        for media, content in bodies(operation):
            if media.endswith("json") and content["schema"] and "example" not in content:
                content["example"] = example(content["schema"], schemas)
    return document


def bodies(operation: Json) -> list[tuple[str, Json]]:
    """The contents of its request and of its successes, by media type."""
    answers = [answer for status, answer in operation["responses"].items() if status.startswith("2")]
    return [pair for body in (operation.get("requestBody", {}), *answers) for pair in body.get("content", {}).items()]


def example(schema: Json, schemas: Json, name: str = "", depth: int = 0) -> Any:
    """A value that the schema takes. ``schemas``: what it may refer to."""
    if "$ref" in schema:
        referred = schema["$ref"].removeprefix(_REF)
        return _WHOLE.get(referred) or example(schemas[referred], schemas, name, depth)
    for told in ("const", "example"):
        if told in schema:
            return schema[told]
    alternatives = schema.get("anyOf") or schema.get("oneOf")
    if alternatives and not (name in NAMED and NAMED[name] is None and _NULL in alternatives):
        # the first of them, past one that is null alone
        return example(next(one for one in alternatives if one != _NULL), schemas, name, depth)
    if "enum" in schema:
        return NAMED[name] if name in NAMED and NAMED[name] in schema["enum"] else schema["enum"][0]
    types = _types(schema)
    if name in NAMED and (alternatives or _fits(NAMED[name], schema, types)):
        return NAMED[name]
    return None if "null" in types and depth else _of_type(types[0], schema, schemas, name, depth)


def _of_type(kind: str, schema: Json, schemas: Json, name: str, depth: int) -> Any:
    if kind == "object":
        return _object(schema, schemas, depth)
    if kind == "array":
        items = schema.get("items", {})
        return [example(items, schemas, name, depth + 1)] if depth < _DEPTH_MAX else []
    if kind == "string":
        return _text(schema)
    if kind in ("integer", "number"):
        return schema.get("minimum", schema.get("exclusiveMinimum", 0) + 1 if "exclusiveMinimum" in schema else 1)
    return False if kind == "boolean" else None


def _says_something(payload: Json, schemas: Json) -> bool:
    """Whether it is wrong without any of its fields, though none of them alone has to be there."""
    referred = payload.get("$ref", "").removeprefix(_REF)
    if referred in _WHOLE:
        return True
    whole = schemas[referred] if referred else payload
    return not _WORDS.isdisjoint(whole.get("properties", ()))


def _object(schema: Json, schemas: Json, depth: int) -> Json:
    """What has to be there, and what tells most of the rest."""
    properties = schema.get("properties", {})
    required = schema.get("required", ())
    if _says_something(properties.get("payload", {}), schemas):
        required = (*required, "payload")
    tells = {n for n, of in properties.items() if "example" in of or NAMED.get(n) is not None}
    shown = [n for n in properties if n in required or (depth < _SHOWN_DEPTH and n in tells)]
    made = {n: example(properties[n], schemas, n, depth + 1) for n in shown}
    others = schema.get("additionalProperties")
    if not made and isinstance(others, dict):
        key = _text(schema["propertyNames"]) if "propertyNames" in schema else "order"
        made = {key: example(others, schemas, key, depth + 1)}
    return made


def _text(schema: Json) -> str:
    if schema.get("format") in _FORMATS:
        return _FORMATS[schema["format"]]
    for text in _TEXTS:
        if _fits(text, schema, ["string"]):
            return text
    return "x" * int(schema.get("minLength", 1))


def _fits(value: Any, schema: Json, types: list[str]) -> bool:
    if not any(isinstance(value, _TYPES[kind]) for kind in types):
        return False
    if isinstance(value, str):
        has_length = schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", len(value))
        return has_length and re.search(schema.get("pattern", ""), value) is not None
    if isinstance(value, int):
        return bool(schema.get("minimum", value) <= value <= schema.get("maximum", value))
    return True


def _types(schema: Json) -> list[str]:
    kind = schema.get("type", "object" if "properties" in schema else "string")
    return list(kind) if isinstance(kind, list) else [kind]
