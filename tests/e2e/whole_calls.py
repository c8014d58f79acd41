"""A call of an operation that can succeed: its example, about objects that are there."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

Json = dict[str, Any]
KEY = "Idempotency-Key"


class WholeCall(NamedTuple):
    """What differs from call to call."""

    path_parameters: dict[str, str]
    query: dict[str, str]
    headers: dict[str, str]
    media_type: str | None
    body: Any


def whole_call(operation: Mapping[str, Any], world: Mapping[str, Any]) -> WholeCall:
    """``world``: as ``tests/e2e/api_world.py`` prepared it."""
    name = operation["operationId"]
    media_type, content = next(iter(operation.get("requestBody", {"content": {"": {}}})["content"].items()))
    body, headers = content.get("example"), dict(world["headers"].get(name, {}))
    own = world["bodies"].get(name)
    key = uuid.uuid4().hex
    if any(one["name"] == KEY for one in operation["parameters"]):
        headers[KEY] = key
    if isinstance(body, dict):
        body = {k: v for k, v in body.items() if not (k == "expected_version" and "If-Match" in headers)}
        if "idempotency_key" in body:
            body = body | {"idempotency_key": key, "payload": body.get("payload", {}) | (own or {})}
        elif own is not None:
            body = body | own
    elif own is not None:
        body = own
    if media_type:
        headers["Content-Type"] = media_type
    return WholeCall(world["objects"].get(name, {}), world["queries"].get(name, {}), headers, media_type or None, body)
