"""The tables that owners of social posts write, row by row."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from dataflows.social.domain.media import Media
from dataflows.social.domain.own_data import Erasure, Export
from dataflows.social.domain.records import Author, Edge, Post
from dataflows.social.rows import FLAGS, NULLABLE, NUMBERS, TEXTS, RowsOf, lists, optional_bigints


class Reaction(Struct, frozen=True, kw_only=True):
    """A like or a repost."""

    kind: str
    user_id: str
    post_id: str
    state: str
    is_pushed: bool
    version: int
    created_at: int
    updated_at: int


def _pair(edge: Edge) -> tuple[str, str]:
    return edge.user_id, edge.target_id


_EDGE: Final = {
    "user_id": TEXTS,
    "target_id": TEXTS,
    "state": TEXTS,
    "version": NUMBERS,
    "created_at": NUMBERS,
    "updated_at": NUMBERS,
}
_EDGE_CHANGING: Final = ("user_id", "target_id", "state", "version", "updated_at")


def _edges(table: str) -> RowsOf[Edge, tuple[str, str]]:
    return RowsOf(
        record=Edge,
        key=_pair,
        insert=f"{table}_insert",
        update=f"{table}_update",
        columns=_EDGE,
        changing=_EDGE_CHANGING,
    )


FOLLOWS: Final = _edges("follows")
BLOCKS: Final = _edges("blocks")
MUTES: Final = _edges("mutes")
AUTHORS: Final[RowsOf[Author, str]] = RowsOf(
    record=Author,
    key=lambda author: author.user_id,
    insert="authors_insert",
    update="authors_update",
    columns={
        "user_id": TEXTS,
        "display_name": TEXTS,
        "state": TEXTS,
        "is_private": FLAGS,
        "version": NUMBERS,
        "updated_at": NUMBERS,
    },
    changing=("user_id", "display_name", "state", "is_private", "version", "updated_at"),
)
POSTS: Final[RowsOf[Post, str]] = RowsOf(
    record=Post,
    key=lambda post: post.post_id,
    insert="posts_insert",
    update="posts_update",
    columns={
        "post_id": TEXTS,
        "author_id": TEXTS,
        "visibility": TEXTS,
        "text": TEXTS,
        "version": NUMBERS,
        "state": TEXTS,
        "media_ids": lists,
        "reply_to": NULLABLE,
        "root_id": TEXTS,
        "quote_of": NULLABLE,
        "is_pushed": FLAGS,
        "created_at": NUMBERS,
        "edited_at": optional_bigints,
    },
    changing=("post_id", "visibility", "text", "version", "state", "media_ids", "edited_at"),
)
REACTIONS: Final[RowsOf[Reaction, tuple[str, str, str]]] = RowsOf(
    record=Reaction,
    key=lambda r: (r.kind, r.user_id, r.post_id),
    insert="reactions_insert",
    update="reactions_update",
    columns={"kind": TEXTS, "user_id": TEXTS, "post_id": TEXTS, "state": TEXTS, "is_pushed": FLAGS, "version": NUMBERS}
    | {"created_at": NUMBERS, "updated_at": NUMBERS},
    changing=("kind", "user_id", "post_id", "state", "is_pushed", "version", "updated_at"),
)
MEDIA: Final[RowsOf[Media, str]] = RowsOf(
    record=Media,
    key=lambda media: media.media_id,
    insert="media_insert",
    update="media_update",
    columns={"media_id": TEXTS, "owner_id": TEXTS, "mime": TEXTS, "size": NUMBERS, "sha256": TEXTS, "parts": NUMBERS}
    | {"expires_in_s": NUMBERS, "scan_state": TEXTS, "manifest": NULLABLE, "attached_post_id": NULLABLE}
    | {"access_version": NUMBERS, "version": NUMBERS, "created_at": NUMBERS, "updated_at": NUMBERS},
    changing=(
        "media_id",
        "scan_state",
        "manifest",
        "attached_post_id",
        "access_version",
        "version",
        "updated_at",
    ),
)
ERASURES: Final[RowsOf[Erasure, str]] = RowsOf(
    record=Erasure,
    key=lambda erasure: erasure.user_id,
    insert="erasures_insert",
    update="erasures_update",
    columns={"user_id": TEXTS, "erasure_id": TEXTS, "state": TEXTS, "jws": NULLABLE, "version": NUMBERS}
    | {"created_at": NUMBERS, "updated_at": NUMBERS},
    changing=("user_id", "state", "jws", "version", "updated_at"),
)
EXPORTS: Final[RowsOf[Export, str]] = RowsOf(
    record=Export,
    key=lambda export: export.export_id,
    insert="exports_insert",
    update="exports_update",
    columns={"export_id": TEXTS, "user_id": TEXTS, "version": NUMBERS, "created_at": NUMBERS},
    changing=("export_id",),
)
