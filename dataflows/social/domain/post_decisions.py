"""Decides what becomes of a post. Pure. Versions have no gaps, and a tombstone is the last one."""

from __future__ import annotations

import re
from typing import Any, Final

from msgspec import Struct, structs

from dataflows.social.domain import refusals
from dataflows.social.domain.records import Author, Post
from schemas import identity, limits
from schemas.fields import legible_text
from schemas.records import Command, Rejection
from schemas.refusals import version_conflict
from schemas.social import limits as social_limits

_MENTION: Final = re.compile(rf"(?<![A-Za-z0-9_-])@([A-Za-z0-9_-]{{1,{limits.SCOPE_LENGTH_MAX}}})")


class Seen(Struct, frozen=True):
    """A post that its reader could see when the batch was read, or its own that is deleted."""

    post_id: str
    author_id: str
    root_id: str
    state: str
    visibility: str
    is_private: bool  # its author
    is_followed: bool  # its author, by the reader
    is_removed: bool = False  # by moderators: then its author alone sees it

    @property
    def is_open(self) -> bool:
        """Whether all users see it, so that it may be quoted and reposted."""
        return self.visibility == "public" and not self.is_private

    @property
    def reaches_reader(self) -> bool:
        """Whether it is for a reader who is not its author."""
        return self.is_open or (self.visibility != "private" and self.is_followed)


def decide_publish(
    author: Author, command: Command, now: int, parent: Seen | Rejection | None, quoted: Seen | Rejection | None
) -> Post | Rejection:
    """The new post. A post that it answers or quotes must be visible to its author, or this refuses it likewise."""
    said: dict[str, Any] = command.payload
    if isinstance(parent, Rejection):
        return parent
    if isinstance(quoted, Rejection):
        return quoted
    if (parent is not None and parent.is_removed) or (quoted is not None and quoted.is_removed):
        return refusals.TAKEN_DOWN
    if quoted is not None and not quoted.is_open:
        return refusals.not_public("payload.quote_of")
    post_id = identity.derived_id("po", command.scope, "POST /v1/posts", command.idempotency_key)
    return Post(
        post_id=post_id,
        author_id=author.user_id,
        visibility=str(said["visibility"]),
        text=str(said["text"]),
        version=1,
        state="published",
        media_ids=tuple(said["media_ids"]),
        reply_to=said["reply_to"],
        root_id=parent.root_id if parent else post_id,
        quote_of=said["quote_of"],
        is_pushed=not author.is_pulled,
        created_at=now,
        edited_at=None,
    )


def why_not_changed(post: Post | None, user_id: str, expected_version: int | None) -> Rejection | None:
    """The refusal of a write. The version is compared first, so that the loser of a race knows that it lost."""
    if post is None or post.author_id != user_id:
        return refusals.NO_POST
    if expected_version is None:
        return refusals.version_required()
    if expected_version != post.version:
        return version_conflict(expected_version, post.version)
    return refusals.DELETED if post.state == "deleted" else None


def edited(post: Post, command: Command, now: int) -> Post:
    """The next version."""
    said: dict[str, Any] = command.payload
    media_ids = said["media_ids"]
    return structs.replace(
        post,
        text=post.text if said["text"] is None else said["text"],
        media_ids=post.media_ids if media_ids is None else tuple(media_ids),
        visibility=said["visibility"] or post.visibility,
        version=post.version + 1,
        edited_at=now,
    )


def shows_nothing(before: Post, after: Post) -> bool:
    """Whether an edit leaves neither media nor a text in which something can be seen.

    What was published so by an earlier release may be shown to fewer, and deleted.
    """
    is_same = (before.text, before.media_ids) == (after.text, after.media_ids)
    return not is_same and not after.media_ids and not legible_text.says_something(after.text)


def comes_home(before: Post | None, after: Post) -> bool:
    """Whether followers' homes have yet to get it: it was private, or not there."""
    return after.is_pushed and after.visibility != "private" and (before is None or before.visibility == "private")


def deleted(post: Post, now: int) -> Post:
    """The tombstone."""
    return structs.replace(post, text="", media_ids=(), state="deleted", version=post.version + 1, edited_at=now)


def mentioned(text: str, author_id: str) -> list[str]:
    """The users who are told that a text names them, in its order, each once, bounded; never its author."""
    found = dict.fromkeys(_MENTION.findall(text))
    found.pop(author_id, None)
    return list(found)[: social_limits.POST_MENTIONS_MAX]


def named(text: str) -> frozenset[str]:
    """All users whom a text names, told of it or not: who was told may stand behind many others in a later text."""
    return frozenset(_MENTION.findall(text))
