"""Social posts in the OpenAPI document: what is read, and how it looks."""

from __future__ import annotations

from typing import Any, Final

from ingress.http import openapi_elements as elements
from ingress.http.openapi_schemas import a_schema, ref
from schemas.social.service import READ
from schemas.social.value_types import USER, VISIBILITY

Json = dict[str, Any]

_TEXT: Final[Json] = {"type": "string"}
_TEXT_OR_NULL: Final[Json] = {"type": ["string", "null"]}
_COUNT: Final[Json] = {"type": "integer", "minimum": 0}
_VERSION: Final[Json] = {"type": "integer", "minimum": 1}
_TIME: Final[Json] = {"type": "string", "format": "date-time"}
_USER: Final[Json] = {
    "id": _TEXT,
    "object": {"const": "user"},
    "user_id": USER.json,
    "display_name": _TEXT,
    "is_private": {"type": "boolean"},
    "followers": _COUNT,
    "version": _VERSION,
}
_TOMBSTONE: Final[Json] = {
    "id": _TEXT,
    "object": {"const": "post"},
    "post_id": _TEXT,
    "state": {"enum": ["published", "deleted"]},
    "version": _VERSION,
}
_EDGE: Final[Json] = {"id": _TEXT, "object": _TEXT, "state": _TEXT, "version": _VERSION}
_USER_ID: Final[Json] = {"name": "user_id", "in": "path", "required": True, "schema": USER.json}


def components() -> dict[str, Json]:
    """The shapes that answers have."""
    post = a_schema(_TOMBSTONE) | {"additionalProperties": True}
    post["properties"] = _TOMBSTONE | {"author_id": USER.json, "visibility": VISIBILITY.json, "text": _TEXT}
    edge = a_schema(_EDGE) | {"additionalProperties": True}
    return {
        "User": a_schema(_USER),
        "Post": post,
        "Edge": edge,
        "CommittedUser": a_schema({"result": ref("User"), "event": ref("Event")}),
        "CommittedPost": a_schema({"result": ref("Post"), "event": ref("Event")}),
        "CommittedEdge": a_schema({"result": ref("Edge"), "event": ref("Event")}),
        "CommittedBlock": a_schema({"result": ref("Edge"), "event": ref("Event")}),
        "CommittedReaction": a_schema({"result": ref("Edge"), "event": ref("Event")}),
    }


def paths() -> Json:
    """What is read; everything else is a command."""
    return {
        "/v1/me": _read("get_me", "The caller itself", [], "User", ()),
        "/v1/users/{user_id}": _read("get_user", "Another user", [_USER_ID], "User", ("not_found",)),
    }


def _read(name: str, summary: str, parameters: list[Json], schema: str, codes: tuple[str, ...]) -> Json:
    answer = {"200": elements.answer(summary, elements.JSON, schema)}
    return {
        "get": {
            "operationId": name,
            "summary": summary,
            "tags": ["social"],
            "security": [{"bearer": [READ]}],
            "parameters": parameters,
            "responses": answer | elements.refusals((*elements.COMMON, "gone", *codes)),
        }
    }
