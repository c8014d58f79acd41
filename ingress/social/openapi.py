"""Social posts in the OpenAPI document: what is read, and how it looks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from ingress.http.openapi import elements
from ingress.http.openapi.shared import a_schema, array_of, page_of, ref
from schemas.fields.value_types import text_schema
from schemas.social import limits
from schemas.social.service import READ
from schemas.social.value_types import USER, VISIBILITY

Json = dict[str, Any]

_TEXT: Final[Json] = {"type": "string"}
_COUNT: Final[Json] = {"type": "integer", "minimum": 0}
_VERSION: Final[Json] = {"type": "integer", "minimum": 1}
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
_TEXT_OR_NULL: Final[Json] = {"type": ["string", "null"]}
_LABEL: Final[Json] = {
    "label": _TEXT,
    "policy_version": _VERSION,
    "expires_at": _TEXT_OR_NULL,
    "decision_id": _TEXT,
}
_IN_A_HOME: Final[Json] = {
    "reposted_by": USER.json,
    "why": a_schema({"reason": {"enum": ["own", "followed", "reposted"]}, "user_id": USER.json}),
}
_REASONS: Final = (
    *("not_available", "deleted", "own", "followed", "reposted", "muted", "not_followed", "followers_only", "only_you"),
    *("private_account", "taken_down", "limited", "labelled", "media_waits"),
)
_WHY: Final[Json] = {
    "object": {"const": "post_why"},
    "post_id": _TEXT,
    "is_seen": {"type": "boolean"},
    "is_in_home": {"type": "boolean"},
    "reasons": array_of(a_schema({"reason": {"enum": list(_REASONS)}})),
}
_EDGE: Final[Json] = {"id": _TEXT, "object": _TEXT, "state": _TEXT, "version": _VERSION}
_POST_ID: Final[Json] = elements.object_id("post_id")
_WORDS: Final[Json] = {
    "name": "q",
    "in": "query",
    "required": True,
    "schema": text_schema(limits.SEARCH_TEXT_LENGTH_MAX),
}
_USER_ID: Final[Json] = {"name": "user_id", "in": "path", "required": True, "schema": USER.json}


def components() -> dict[str, Json]:
    """The shapes that answers have."""
    post = a_schema(_TOMBSTONE) | {"additionalProperties": True}
    post["properties"] = _TOMBSTONE | {"author_id": USER.json, "visibility": VISIBILITY.json, "text": _TEXT}
    post["properties"] |= {"label": _TEXT_OR_NULL, "labels": {"type": "array", "items": a_schema(_LABEL)}}
    edge = a_schema(_EDGE) | {"additionalProperties": True}
    return {
        "User": a_schema(_USER),
        "Post": post,
        "Edge": edge,
        "SocialPage": page_of({"type": "object"}),
        "PublicPage": _public_page(),
        "PostWhy": a_schema(_WHY),
        "HomePage": page_of(post | {"properties": post["properties"] | _IN_A_HOME}),
        "CommittedUser": a_schema({"result": ref("User"), "event": ref("Event")}),
        "CommittedPost": a_schema({"result": ref("Post"), "event": ref("Event")}),
        "CommittedEdge": a_schema({"result": ref("Edge"), "event": ref("Event")}),
        "CommittedBlock": a_schema({"result": ref("Edge"), "event": ref("Event")}),
        "CommittedReaction": a_schema({"result": ref("Edge"), "event": ref("Event")}),
    }


def _public_page() -> Json:
    """A list; while Postgres is away one that says how old it is."""
    page = page_of({"type": "object"})
    page["properties"] |= {"degraded": {"const": True}, "as_of": {"type": "string", "format": "date-time"}}
    return page


def paths() -> Json:
    """What is read; everything else is a command."""
    return {
        "/v1/me": _read("get_me", "The caller itself", [], "User", ()),
        "/v1/users/{user_id}": _read("get_user", "Another user", [_USER_ID], "User", ("not_found",)),
        "/v1/posts/{post_id}": _read("get_post", "A post that the caller may see", [_POST_ID], "Post", ("not_found",)),
        "/v1/posts/{post_id}/versions": _page("list_post_versions", "Its versions, newest first", [_POST_ID]),
        "/v1/posts/{post_id}/replies": _page("list_post_replies", "Its direct answers, oldest first", [_POST_ID]),
        "/v1/posts/{post_id}/why": _read(
            "get_post_why", "Why it is seen, or not", [_POST_ID], "PostWhy", ("not_found",)
        ),
        "/v1/timelines/home": _page("get_home", "One's own posts, the followed's, their reposts", schema="HomePage"),
        "/v1/timelines/home/stream": _stream(),
        "/v1/timelines/public": _page(
            "get_public_timeline", "What all users may see, newest first", schema="PublicPage"
        ),
        "/v1/timelines/user/{user_id}": _page("get_user_timeline", "The posts of one author, newest first", [_USER_ID]),
        "/v1/timelines/thread/{post_id}": _page("get_thread", "A root, then its replies, oldest first", [_POST_ID]),
        "/v1/search": _page("search_posts", "Posts with all words, newest first", [_WORDS]),
        "/v1/notifications": _page("list_notifications", "What the caller is told, newest first"),
        "/v1/follows/requests": _page("list_follow_requests", "Who asks to follow, newest first"),
        "/v1/follows/{user_id}": _read("get_follow", "One's own edge", [_USER_ID], "Edge", ("not_found",)),
    }


def _stream() -> Json:
    of_event = ({"type": "string"}, "The id of the event behind which to go on; or the post that stood first in a home")
    resumes = [elements.query("after", *of_event), elements.parameter("Last-Event-ID", *of_event)]
    found = _read("stream_home", "What comes home from now on", resumes, "SocialPage", ("overloaded",))
    text = {"text/event-stream": {"schema": {"type": "string"}}}
    told = "An event `post` for each post, once; its id says what was told so far"
    found["get"]["responses"]["200"] = {"description": told, "content": text}
    return found


def _page(name: str, summary: str, parameters: Sequence[Json] = (), schema: str = "SocialPage") -> Json:
    codes = ("malformed_request", "invalid_command", "not_found")
    return _read(name, summary, [*parameters, elements.limit(), elements.CURSOR], schema, codes)


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
