"""Who asks what with which token, about which objects; and what is kept from everybody else's payments.

An operation is asked by every kind of caller that may, in turns, and every second call of it can succeed.
``SCHEMATHESIS_WORLD`` names the file that ``tests/e2e/test_openapi.py`` prepared, ``SCHEMATHESIS_ANSWERS`` the one that
every answer is noted in: the operation, who asked, the status.
"""

from __future__ import annotations

import itertools
import json
import os
from collections import defaultdict
from pathlib import Path
from typing import Any

import schemathesis
from schemathesis.generation.modes import GenerationMode

from schemas.payments import limits
from tests.e2e.tokens_by_scope import kinds_for
from tests.e2e.whole_calls import whole_call

_WORLD = json.loads(Path(os.environ["SCHEMATHESIS_WORLD"]).read_bytes())
_ANSWERS = Path(os.environ["SCHEMATHESIS_ANSWERS"])
_turns: dict[tuple[str, str], itertools.count[int]] = defaultdict(itertools.count)


@schemathesis.serializer("application/x-ndjson")
def command_list(_: Any, value: Any) -> bytes:
    """A text as it is; anything else as one line of JSON."""
    if isinstance(value, bytes):
        return value
    return (value if isinstance(value, str) else json.dumps(value)).encode(errors="surrogatepass")


@schemathesis.hook
def map_headers(_: Any, headers: Any) -> Any:
    """A made-up signature is refused before anything else is looked at: those have tests of their own."""
    return {k: v for k, v in headers.items() if not k.lower().startswith("signature")} if headers else headers


@schemathesis.auth()
class Tokens:
    """Each kind of caller that may, in turns."""

    def get(self, _: Any, __: Any) -> dict[str, str]:
        tokens: dict[str, str] = _WORLD["tokens"]
        return tokens

    def set(self, case: Any, data: dict[str, str], _: Any) -> None:
        raw = case.operation.definition.raw
        if kinds := kinds_for(raw):
            kind = kinds[next(_turns[raw["operationId"], "token"]) % len(kinds)]
            case.headers = {**(case.headers or {}), "Authorization": f"Bearer {data[kind]}"}


@schemathesis.hook
def before_call(_: Any, case: Any, __: Any) -> None:
    """The first call of an operation, and every second one that is not wrong on purpose, is one that can succeed."""
    operation = case.operation.definition.raw
    if case.meta is None or case.meta.generation.mode is not GenerationMode.POSITIVE:
        return
    turn = next(_turns[operation["operationId"], "whole"])
    if turn % 2:
        return
    made = whole_call(operation, _WORLD)
    said = {one["name"].lower() for one in operation["parameters"] if one["in"] == "header"}
    if (kinds := kinds_for(operation)) and "Authorization" in (case.headers or {}):
        case.headers["Authorization"] = f"Bearer {_WORLD['tokens'][kinds[turn // 2 % len(kinds)]]}"
    kept = {name: value for name, value in (case.headers or {}).items() if name.lower() not in said}
    case.path_parameters = {**(case.path_parameters or {}), **made.path_parameters}
    case.query, case.headers = made.query, kept | made.headers
    if made.media_type:
        case.body, case.media_type = _harmless(case.path, made.body), made.media_type


@schemathesis.hook
def after_call(_: Any, case: Any, response: Any) -> None:
    """Notes the answer."""
    said = case.operation.definition.raw["operationId"], response.status_code
    with _ANSWERS.open("a") as answers:
        answers.write(json.dumps(said) + "\n")


@schemathesis.hook
def map_body(context: Any, body: Any) -> Any:
    """As generated, but for what would govern others."""
    return _harmless(context.operation.path, body) if context.operation is not None else body


def _harmless(path: str, body: Any) -> Any:
    """Policies are published for a version that is never there: random rules would block other tests' payments.

    Those of a tenant govern nobody else.
    """
    if path.endswith("/policies") and path != "/v1/policies" and isinstance(body, dict) and "expected_version" in body:
        return body | {"expected_version": limits.POLICY_VERSION_MAX - 1}
    return body
