"""Posts and what users do with them. Each command lies in the partition of the user who gives it: one order per user.

A post's id travels in the payload, so that an edit, a deletion and a new post of one author cannot cross.
"""

from __future__ import annotations

from typing import Final

from schemas import senders
from schemas.fields import legible_text
from schemas.fields.validation import Field
from schemas.fields.value_types import BOOLEAN, ID
from schemas.operation import Named, Operation
from schemas.social import limits
from schemas.social.sealed_texts import TRAVELS
from schemas.social.value_types import DISPLAY_NAME, MEDIA_IDS, POST_TEXT, VISIBILITY

SERVICE_NAME: Final = "social"
WRITE: Final = "posts:write"
_POST: Final = "/v1/posts/{id}"
_OF: Final = Field(ID, "the post, from the path")


def callers_own(named: Named) -> str:
    """The aggregate of the user who calls."""
    return named.scope


def _something(payload: dict[str, object]) -> list[dict[str, str]]:
    """A post has media, or a text in which something can be seen."""
    text = str(payload["text"])
    if payload["media_ids"] or legible_text.says_something(text):
        return []
    of_none = f"must have 1 to {limits.POST_TEXT_LENGTH_MAX} characters without media"
    reason = "must say something without media" if text else of_none
    return [{"field": "payload.text", "reason": reason}]


def _changes(payload: dict[str, object]) -> list[dict[str, str]]:
    """An edit changes something."""
    if any(value is not None for name, value in payload.items() if name != "post_id"):
        return []
    return [{"field": "payload", "reason": "must change something"}]


def _reaction(name: str, record: str, method: str, word: str, summary: str) -> Operation:
    return Operation(
        name=name,
        service=SERVICE_NAME,
        method=method,
        path=f"{_POST}/{word}",
        record=record,
        payload={"post_id": _OF},
        summary=summary,
        result="CommittedReaction",
        scope=WRITE,
        outside=senders.USER,
        refusals=("forbidden", "gone", "state_conflict") if name == "repost_post" else ("forbidden", "gone"),
        id_name="post_id",
        path_field="post_id",
        aggregate=callers_own,
    )


OPERATIONS: Final = (
    Operation(
        name="publish_post",
        service=SERVICE_NAME,
        method="POST",
        path="/v1/posts",
        record="PublishPost",
        signals=TRAVELS,
        payload={
            "text": Field(POST_TEXT, "what it says", default=""),
            "media_ids": Field(MEDIA_IDS, "media of the author that are ready and in no post", default=()),
            "visibility": Field(VISIBILITY, "who sees it", default="public"),
            "reply_to": Field(ID, "the post that it answers", default=None, nullable=True),
            "quote_of": Field(ID, "the public post that it quotes", default=None, nullable=True),
        },
        summary="Publish a post",
        result="CommittedPost",
        scope=WRITE,
        outside=senders.USER,
        refusals=("forbidden", "gone", "media_not_ready", "state_conflict"),
        creates="po",
        aggregate=callers_own,
        together=_something,
    ),
    Operation(
        name="edit_post",
        service=SERVICE_NAME,
        method="PATCH",
        path=_POST,
        record="EditPost",
        signals=TRAVELS,
        payload={
            "post_id": _OF,
            "text": Field(POST_TEXT, "what it says from now on", default=None, nullable=True),
            "media_ids": Field(MEDIA_IDS, "its media from now on", default=None, nullable=True),
            "visibility": Field(VISIBILITY, "who sees it from now on", default=None, nullable=True),
        },
        summary="Edit a post: its next version",
        result="CommittedPost",
        scope=WRITE,
        outside=senders.USER,
        refusals=("forbidden", "gone", "media_not_ready", "version_required"),
        id_name="post_id",
        path_field="post_id",
        aggregate=callers_own,
        together=_changes,
    ),
    Operation(
        name="delete_post",
        service=SERVICE_NAME,
        method="DELETE",
        path=_POST,
        record="DeletePost",
        payload={"post_id": _OF},
        summary="Delete a post: its text is nowhere any more",
        result="CommittedPost",
        scope=WRITE,
        outside=senders.USER,
        refusals=("gone", "version_required"),
        id_name="post_id",
        path_field="post_id",
        aggregate=callers_own,
    ),
    _reaction("like_post", "LikePost", "POST", "likes", "Like a post, once"),
    _reaction("unlike_post", "UnlikePost", "DELETE", "likes", "Take a like back"),
    _reaction("repost_post", "RepostPost", "POST", "reposts", "Bring a public post home to one's followers"),
    _reaction("unrepost_post", "UnrepostPost", "DELETE", "reposts", "Take a repost back"),
    Operation(
        name="change_profile",
        service=SERVICE_NAME,
        method="PATCH",
        path="/v1/me",
        record="ChangeProfile",
        signals=TRAVELS,
        payload={
            "display_name": Field(DISPLAY_NAME, "how others see the user named", default=None, nullable=True),
            "is_private": Field(BOOLEAN, "whether followers alone see its posts", default=None, nullable=True),
        },
        summary="Change one's own profile",
        result="CommittedUser",
        scope=WRITE,
        outside=senders.USER,
        refusals=("forbidden", "gone"),
        aggregate=callers_own,
        together=_changes,
    ),
)
