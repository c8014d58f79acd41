"""The document says exactly what the application serves."""

from __future__ import annotations

import json
import re
from collections import Counter
from itertools import product
from typing import TYPE_CHECKING, Any

import jsonschema_rs

from ingress import app, openapi
from ingress import limits as ingress_limits
from ingress.http import problems
from ingress.http.openapi import commands, examples
from ingress.http.openapi import shared as shared_schemas
from ingress.http.openapi.examples import bodies
from ingress.payments.openapi import objects
from ingress.services import HTTP_SERVICES
from schemas import limits
from schemas.payments import records, rendering
from schemas.services import OPERATIONS
from tests.each import each
from tests.tidy import tree
from tests.worlds.payments import payment_cases

if TYPE_CHECKING:
    from collections.abc import Iterator

DOCUMENT = openapi.document()


def test_every_route_is_documented_and_nothing_else() -> None:
    served = {
        (route.path.replace(":path}", "}"), method.lower())
        for router in app.API_ROUTERS
        for route in router.routes
        for method in getattr(route, "methods", ())
    }
    documented = {(path, method) for path, item in DOCUMENT["paths"].items() for method in item}
    assert documented == served


def test_no_two_operations_or_schemas_have_one_name() -> None:
    """Of two the later would be read in the place of the other, and clients have one function for both."""
    names = [operation["operationId"] for item in DOCUMENT["paths"].values() for operation in item.values()]
    assert [name for name, count in Counter(names).items() if count > 1] == []
    made = Counter(name for service in HTTP_SERVICES for name in service.components())
    made.update(shared_schemas.components().keys())
    assert [name for name, count in made.items() if count > 1] == []


def test_every_operation_of_the_table_is_a_route() -> None:
    for operation in OPERATIONS.values():
        if operation.scope:
            assert (
                DOCUMENT["paths"][openapi.path_of(operation)][operation.method.lower()]["operationId"] == operation.name
            )


def test_every_reference_leads_somewhere() -> None:
    for name in re.findall(r'"#/components/schemas/(\w+)"', json.dumps(DOCUMENT)):
        assert name in DOCUMENT["components"]["schemas"], name


@each("operation", [o for o in OPERATIONS.values() if o.scope])
def test_payload_fields_are_those_of_the_validation_table(operation: Any) -> None:
    schema = commands.components()[f"{operation.record}Payload"]
    if operation.document:  # the caller's own object
        assert "properties" not in schema
        return
    assert set(schema["properties"]) == set(operation.payload)
    assert schema["additionalProperties"] is False


def test_the_resource_has_the_fields_of_its_rendering() -> None:
    shown = rendering.payment_intent(payment_cases.authorized().intent)
    schema = objects.components()["PaymentIntent"]
    assert set(schema["properties"]) == set(schema["required"]) == set(shown)


def test_states_are_those_of_the_record() -> None:
    states = objects.components()["PaymentIntent"]["properties"]["state"]["enum"]
    assert states == list(records.IntentState.__args__)  # type: ignore[attr-defined] # a Literal has its values there


def test_bounds_are_the_named_ones() -> None:
    text = json.dumps(DOCUMENT)
    for bound in (limits.AMOUNT_MINOR_MAX, ingress_limits.PAGE_LIMIT_MAX, limits.METADATA_KEYS_MAX):
        assert str(bound) in text


def test_an_operation_lists_its_own_refusals_and_no_other_code() -> None:
    """What a client has to handle: a refund is never more than can be captured, and a capture never more than refundable."""
    for name, own, others in (
        ("capture_payment_intent", "amount_exceeds_capturable", "amount_exceeds_refundable"),
        ("create_refund", "amount_exceeds_refundable", "amount_exceeds_capturable"),
        ("create_payment_intent", "account_frozen", "not_found"),
    ):
        answers = DOCUMENT["paths"][openapi.path_of(OPERATIONS[name])]["post"]["responses"]
        listed = {code for answer in answers.values() for code in answer["description"].split(" or ")}
        assert own in listed
        assert others not in listed
    assert all(code in problems.TABLE for o in OPERATIONS.values() for code in o.refusals)


def test_what_a_call_names_may_not_be_there() -> None:
    """In its path, also where it makes something below it; or in its body: what is reported, decided or appealed."""
    named = {"create_refund", "report_object", "decide_case", "appeal_decision"}
    silent = [
        (method, path)
        for path, item in DOCUMENT["paths"].items()
        for method, operation in item.items()
        if ("{" in path or operation["operationId"] in named) and "404" not in operation["responses"]
    ]
    assert silent == []


def test_what_has_to_be_sent_is_said_to_be_required() -> None:
    """Where no body can say them a key and a version are header fields; a body of nothing need not be sent."""
    paths = DOCUMENT["paths"]

    def needed(path: str, method: str = "delete") -> set[str]:
        return {one["name"] for one in paths[path][method]["parameters"] if one["required"] and one["in"] == "header"}

    assert needed("/v1/resources/{resource_id}") == {"Idempotency-Key", "If-Match"}
    assert needed("/v1/posts/{post_id}/likes") == {"Idempotency-Key"}
    assert needed("/v1/resources/{resource_id}", "put") == set()
    bodies_of = {path: paths[path]["post"]["requestBody"]["required"] for path in ("/v1/me/exports", "/v1/refunds")}
    assert bodies_of == {"/v1/me/exports": False, "/v1/refunds": True}
    users_only = [{"bearer": ["posts:write"]}]
    of_users = [o for item in paths.values() for o in item.values() if o.get("security") == users_only]
    assert all("410" in operation["responses"] for operation in of_users)  # who was erased


def test_generators_of_clients_find_a_type_everywhere() -> None:
    """One that is null alone stops openapi-generator, an array without items openapi-python-client."""

    def wrong(schema: Any, place: str, *, within_any_of: bool = False) -> list[str]:
        if isinstance(schema, list):
            return [found for n, part in enumerate(schema) for found in wrong(part, f"{place}/{n}", within_any_of=True)]
        if not isinstance(schema, dict):
            return []
        is_null = schema.get("type") == "null" and not within_any_of
        has_no_items = schema.get("type") == "array" and "items" not in schema
        found = [place] if is_null or has_no_items else []
        return found + [one for name, part in schema.items() for one in wrong(part, f"{place}/{name}")]

    assert wrong(DOCUMENT, "") == []


def test_every_body_has_an_example_that_its_schema_takes() -> None:
    """Of requests and of successes; a body whose schema says nothing (a document of Kafka's kind, a stream) has none."""
    operations = [(path, operation) for path, item in DOCUMENT["paths"].items() for operation in item.values()]
    told = [(path, content) for path, o in operations for media, content in bodies(o) if media.endswith("json")]
    assert len(told) > len(OPERATIONS)
    # one validator of all: each would compile all components anew
    schemas = {str(n): content["schema"] for n, (_, content) in enumerate(told) if content["schema"]}
    shared = {"components": DOCUMENT["components"]}
    validator = jsonschema_rs.Draft202012Validator({"properties": schemas} | shared)
    wrong = [
        (path, error.message)
        for n, (path, content) in enumerate(told)
        if str(n) in schemas
        for error in validator.iter_errors({str(n): content["example"]})
    ]
    assert wrong == []


@each("name", [name for name, one in OPERATIONS.items() if one.scope])
def test_an_example_says_what_its_operation_needs(name: str) -> None:
    """A version where none is a refusal, and something to do where no field alone has to be there."""
    operation, schemas = OPERATIONS[name], DOCUMENT["components"]["schemas"]
    shown = examples.example({"$ref": f"#/components/schemas/{operation.record}Command"}, schemas)
    assert ("expected_version" in shown) == operation.needs_version
    if name in {"publish_post", "edit_post", "change_profile"}:
        named = {operation.path_field: "po_1"} if operation.path_field else {}
        assert operation.normalize(shown["payload"] | named)[1] == []


def test_what_may_be_null_says_so_as_generators_understand_it() -> None:
    """A part that is null only makes openapi-generator's Python break off, as does an object without members."""

    def every(schema: Any) -> Iterator[dict[str, Any]]:
        if isinstance(schema, dict):
            yield schema
        for part in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
            yield from every(part)

    for schema in every({"paths": DOCUMENT["paths"], "components": DOCUMENT["components"]}):
        alternatives = schema.get("anyOf", [])
        plain = [part for part in alternatives if part != {"type": "null"}]
        assert len(plain) != 1 or "$ref" in plain[0], schema
        if schema.get("type") == ["object", "null"]:
            assert {"properties", "additionalProperties"} & schema.keys(), schema


def named_calls(text: str) -> set[tuple[str, str]]:
    """Verb and path of each call; of ``freeze|unfreeze`` both, and a parameter is ``{}`` whatever its name."""
    found = re.findall(r"\b(GET|POST|PUT|PATCH|DELETE) (/v1/[\w/{}.|-]*\w\}?)", text)
    calls = {(verb, re.sub(r"\{\w+\}", "{}", path)) for verb, path in found}
    chosen = ((verb, path.split("/")) for verb, path in calls)
    parts = ((verb, [one.strip("{}").split("|") if "|" in one else [one] for one in path]) for verb, path in chosen)
    return {(verb, "/".join(path)) for verb, options in parts for path in product(*options)}


def test_documents_name_calls_that_exist() -> None:
    there = {
        (verb.upper(), re.sub(r"\{\w+\}", "{}", path)) for path, calls in DOCUMENT["paths"].items() for verb in calls
    }
    documents = [file for file in tree.files(".md") if file == "README.md" or file.startswith(("docs/", "limiter/"))]
    named = {(file, *call) for file in documents for call in named_calls(tree.text(file))}
    assert len(named) > 60
    known = [(verb, path.split("/")) for verb, path in there]

    def exists(verb: str, path: str) -> bool:
        """An example may say an id, or a word of a parameter."""
        parts = path.split("/")
        same = (one for of, one in known if of == verb and len(one) == len(parts))
        return any(all(a in (b, "{}") for a, b in zip(one, parts, strict=True)) for one in same)

    assert sorted(one for one in named if not exists(*one[1:])) == []
    assert not exists("POST", "/v1/payment_intent")
