"""What the page of all calls says of the OpenAPI document: calls by their tag, and what their bodies hold.

Pure. It says no more than the document does, so that no second description can be wrong.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

Json = dict[str, Any]

_REF: Final = "#/components/schemas/"
_CHOICES_SHOWN: Final = 12
#: header fields that so many calls have are told once, above all calls
_SHARED_BY: Final = 20
_OK: Final = 300


class Words(NamedTuple):
    """A piece of what a value is; ``schema`` is where it is told, if anywhere."""

    text: str
    schema: str = ""


Kind = list[Words]


@dataclass(frozen=True, slots=True)
class Value:
    """A parameter, or a field of a body."""

    name: str
    kind: Kind
    about: str
    is_required: bool
    place: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """What comes with one status; of refusals the codes are ``about``."""

    status: str
    about: str
    kind: Kind
    example: str


@dataclass(frozen=True, slots=True)
class Call:
    """One method of one path."""

    name: str
    method: str
    path: str
    summary: str
    about: str
    scopes: list[str]
    values: list[Value]
    shared: list[str]  # names of header fields that are told above
    body: Kind
    body_example: str
    answers: list[Answer]
    refusals: list[Answer]


@dataclass(frozen=True, slots=True)
class Group:
    """Calls of one tag."""

    name: str
    calls: list[Call]

    @property
    def anchor(self) -> str:
        """Where it begins on the page."""
        return "calls-" + self.name.replace(" ", "-")


@dataclass(frozen=True, slots=True)
class Schema:
    """One object, or what else has a name."""

    name: str
    about: str
    kind: Kind
    fields: list[Value]


def groups(document: Json) -> list[Group]:
    """All calls, in the order of the document."""
    shared = {value.name for value in shared_fields(document)}
    found: dict[str, list[Call]] = {}
    for path, item in document["paths"].items():
        for method, operation in item.items():
            found.setdefault(operation["tags"][0], []).append(_call(method, path, operation, shared))
    return [Group(name, calls) for name, calls in found.items()]


def shared_fields(document: Json) -> list[Value]:
    """The header fields that many calls have, each once."""
    every = [p for item in document["paths"].values() for one in item.values() for p in one.get("parameters", ())]
    found = {p["name"]: p for p in every if p["in"] == "header"}
    count = Counter(p["name"] for p in every if p["in"] == "header")
    return [_value(found[name]) for name, times in count.items() if times >= _SHARED_BY]


def schemas(document: Json) -> list[Schema]:
    """All that has a name, by it."""
    return [_schema(name, body) for name, body in sorted(document["components"]["schemas"].items())]


def kind_of(schema: Json) -> Kind:
    """What a value is, in words; what has a name of its own is told there."""
    if "$ref" in schema:
        name = schema["$ref"].removeprefix(_REF)
        return [Words(name, name)]
    for several in ("anyOf", "oneOf"):
        if several in schema:
            return _joined([kind_of(one) for one in schema[several]], " or ")
    if "allOf" in schema:
        return _joined([kind_of(one) for one in schema["allOf"]], " and ")
    if "const" in schema:
        return [Words(json.dumps(schema["const"]))]
    if "enum" in schema:
        shown = ", ".join("null" if one is None else str(one) for one in schema["enum"][:_CHOICES_SHOWN])
        rest = len(schema["enum"]) - _CHOICES_SHOWN
        return [Words(f"one of {shown}" + (f" and {rest} more" if rest > 0 else ""))]
    return _of_type(schema)


def _of_type(schema: Json) -> Kind:
    types = schema.get("type", "any value")
    names = types if isinstance(types, list) else [types]
    found: list[Kind] = []
    for name in names:
        if name == "array":
            found.append([Words("list of "), *kind_of(schema.get("items", {}))])
        elif name == "object" and isinstance(schema.get("additionalProperties"), dict):
            found.append([Words("object of "), *kind_of(schema["additionalProperties"])])
        elif name == "object" and schema.get("properties"):
            found.append([Words("object with " + ", ".join(schema["properties"]))])
        else:
            found.append([Words(str(schema.get("format", name)) if name == "string" else name)])
    bound = _bound(schema)
    return [*_joined(found, " or "), *([Words(f", {bound}")] if bound else [])]


def _bound(schema: Json) -> str:
    for least, most, unit in (
        ("minimum", "maximum", ""),
        ("minLength", "maxLength", " characters"),
        ("minItems", "maxItems", " items"),
    ):
        low, high = schema.get(least), schema.get(most)
        if low is not None and high is not None:
            return f"{low} to {high}{unit}"
        if low is not None or high is not None:
            return f"at least {low}{unit}" if high is None else f"at most {high}{unit}"
    return ""


def _joined(kinds: list[Kind], between: str) -> Kind:
    found: Kind = []
    for kind in kinds:
        found += [Words(between), *kind] if found else kind
    return found


def _call(method: str, path: str, operation: Json, shared: set[str]) -> Call:
    given = operation.get("parameters", [])
    is_shared = [p["in"] == "header" and p["name"] in shared for p in given]
    bodies = operation.get("requestBody", {}).get("content", {})
    body: Json = next(iter(bodies.values()), {})
    answers = [_answer(status, answer) for status, answer in operation["responses"].items()]
    return Call(
        name=operation["operationId"],
        method=method.upper(),
        path=path,
        summary=operation["summary"],
        about=operation.get("description", ""),
        scopes=[scope for one in operation.get("security", ()) for scope in one.get("bearer", ())],
        values=[_value(p) for p, told in zip(given, is_shared, strict=True) if not told],
        shared=[p["name"] for p, told in zip(given, is_shared, strict=True) if told],
        body=kind_of(body["schema"]) if body.get("schema") else [Words(next(iter(bodies), ""))] if bodies else [],
        body_example=_example(body),
        answers=[one for one in answers if int(one.status) < _OK],
        refusals=[one for one in answers if int(one.status) >= _OK],
    )


def _answer(status: str, answer: Json) -> Answer:
    content: Json = next(iter(answer.get("content", {}).values()), {})
    kind = kind_of(content["schema"]) if content.get("schema") else []
    return Answer(status, answer.get("description", ""), kind, _example(content))


def _example(content: Json) -> str:
    if "example" not in content:
        return ""
    example = content["example"]
    return example if isinstance(example, str) else json.dumps(example, indent=2, ensure_ascii=False)


def _value(parameter: Json) -> Value:
    about = parameter.get("description", "") or parameter["schema"].get("description", "")
    return Value(
        parameter["name"], kind_of(parameter["schema"]), about, parameter.get("required", False), parameter["in"]
    )


def _schema(name: str, body: Json) -> Schema:
    required = set(body.get("required", ()))
    fields = [
        Value(field, kind_of(said), said.get("description", ""), field in required)
        for field, said in body.get("properties", {}).items()
    ]
    return Schema(name, body.get("description", ""), [] if fields else kind_of(body), fields)
