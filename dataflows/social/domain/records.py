"""The records of social posts, and how callers see them."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from schemas.renderer import timestamp


class Author(Struct, frozen=True, kw_only=True):
    """A user. ``is_pulled``: it has too many followers, so readers pull its next posts."""

    user_id: str
    display_name: str
    state: str
    is_private: bool
    followers: int
    is_pulled: bool
    version: int
    updated_at: int


class Post(Struct, frozen=True):
    """The current version of a post, or the tombstone of a deleted one: the columns of its row, in their order."""

    post_id: str
    author_id: str
    visibility: str
    text: str
    version: int
    state: str
    media_ids: tuple[str, ...]
    reply_to: str | None
    root_id: str
    quote_of: str | None
    is_pushed: bool
    created_at: int
    edited_at: int | None


class Edge(Struct, frozen=True, kw_only=True):
    """A relation of one user to another or to a post: a follow, block, mute, like or repost."""

    user_id: str
    target_id: str
    state: str
    version: int
    created_at: int
    updated_at: int


def rendered_user(author: Author) -> dict[str, Any]:
    """A user as others see it."""
    return {
        "id": author.user_id,
        "object": "user",
        "user_id": author.user_id,
        "display_name": author.display_name,
        "is_private": author.is_private,
        "followers": author.followers,
        "version": author.version,
    }


def rendered_post(post: Post) -> dict[str, Any]:
    """A post as callers see it, in a document of the caller's own; of a deleted one only that it is deleted."""
    found = {
        "id": post.post_id,
        "object": "post",
        "post_id": post.post_id,
        "state": post.state,
        "version": post.version,
    }
    if post.state != "deleted":
        found |= {
            "author_id": post.author_id,
            "visibility": post.visibility,
            "text": post.text,
            "media_ids": list(post.media_ids),
            "reply_to": post.reply_to,
            "root_id": post.root_id,
            "quote_of": post.quote_of,
            "created_at": timestamp(post.created_at),
            "edited_at": None if post.edited_at is None else timestamp(post.edited_at),
        }
    return found


def rendered_follow(edge: Edge) -> dict[str, Any]:
    """A follow as its two users see it."""
    return {
        "id": f"{edge.user_id}:{edge.target_id}",
        "object": "follow",
        "follower_id": edge.user_id,
        "followee_id": edge.target_id,
        "state": edge.state,
        "version": edge.version,
    }


def rendered_block(edge: Edge, kind: str) -> dict[str, Any]:
    """A block or mute as the one who made it sees it."""
    return {
        "id": f"{edge.user_id}:{edge.target_id}",
        "object": kind,
        "user_id": edge.user_id,
        "target_id": edge.target_id,
        "state": edge.state,
        "version": edge.version,
    }
