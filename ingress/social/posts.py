"""Posts as their readers see them. Nothing leaves here that ``social_authorize`` did not allow in the same read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from dataflows.social.domain.records import Post, rendered_post
from schemas import errors
from schemas.renderer import timestamp
from schemas.social import limits

if TYPE_CHECKING:
    from ingress.http.cursors import Cursors
    from ingress.http.store import Store
    from ingress.social.media.uploads import Uploads
    from ingress.social.moderation.moderation import Moderation

Json = dict[str, Any]
_NO_VERSION: Final = 2**62  # above every version
_OF_LABEL: Final = ("label", "policy_version", "expires_at", "decision_id")
COLUMNS: Final = len(Post.__struct_fields__)


class Shown(Struct, frozen=True):
    """A post that its reader may see, the labels that moderators gave it, the last first; in a home who reposted it."""

    post: Post
    labels: Sequence[Sequence[Any]]  # label, policy_version, expires_at, decision_id
    reposted_by: str | None = None


def shown_of(row: Sequence[Any], reposted_by: str | None = None) -> Shown:
    """What a row says that ends with the labels and the columns of a post."""
    return Shown(Post(*row[-COLUMNS:]), row[-COLUMNS - 1] or (), reposted_by)


def _rendered(shown: Shown) -> Json:
    """In a document of its own, to which may be added."""
    labels = [dict(zip(_OF_LABEL, one, strict=True)) for one in shown.labels]
    found = rendered_post(shown.post)
    found["label"], found["labels"] = labels[0]["label"] if labels else None, labels
    if shown.reposted_by:
        found["reposted_by"] = shown.reposted_by
    return found


def _version(post_id: str, row: tuple[Any, ...]) -> Json:
    version, text, media_ids, visibility, edited_at = row
    return {
        "object": "post_version",
        "post_id": post_id,
        "version": version,
        "text": text,
        "media_ids": media_ids,
        "visibility": visibility,
        "edited_at": timestamp(edited_at),
    }


class Posts:
    """Reads of one process."""

    def __init__(self, store: Store, cursors: Cursors, uploads: Uploads, moderation: Moderation) -> None:
        self.store = store
        self._cursors = cursors
        self._uploads = uploads
        self._moderation = moderation

    async def shown(self, viewer: str, posts: Sequence[Shown]) -> list[Json]:
        """Posts that the viewer may see, each with the post that it quotes and with who reposted it."""
        quoted = await self._quoted(viewer, [one.post for one in posts])
        found = [_rendered(one) for one in posts]
        for document, one in zip(found, posts, strict=True):
            document["quote"] = quoted.get(one.post.quote_of or "")
        return found

    async def get(self, viewer: str, post_id: str, *, is_moderator: bool = False) -> Json:
        """One post. Raises NotFound, whether it is missing or hidden.

        Raises Gone for one's own deleted one.
        """
        rows = await self.store.rows("posts_shown", {"viewer": viewer, "ids": [post_id]})
        if not rows:
            await self.refuse(viewer, post_id)
        one = shown_of(rows[0])
        (shown,) = await self.shown(viewer, [one])
        counted = {"id": post_id, "viewer": viewer, "most": limits.POST_COUNTED_MAX}
        ((likes, reposts, replies),) = await self.store.rows("post_counts", counted)
        counts = {"likes": likes, "reposts": reposts, "replies": replies}
        media = (await self._uploads.of_posts(viewer, [post_id]))[post_id]
        is_told = is_moderator or one.post.author_id == viewer
        decided = await self._moderation.in_force(post_id) if is_told else None
        return shown | {"media": media, "counts": counts, "moderation": decided}

    async def root_of(self, viewer: str, post_id: str) -> str:
        """The root of the thread of a post that the viewer may see. Raises as ``get``."""
        rows = await self.store.rows("posts_shown", {"viewer": viewer, "ids": [post_id]})
        if not rows:
            await self.refuse(viewer, post_id)
        return shown_of(rows[0]).post.root_id

    async def versions(self, viewer: str, post_id: str, limit: int, cursor: str | None) -> Json:
        """Versions of a post that the viewer may see, newest first. Raises as ``get``."""
        name = f"versions:{post_id}"
        below = self._cursors.read(viewer, name, cursor, int) if cursor else _NO_VERSION
        parameters = {"viewer": viewer, "post_id": post_id, "below": below, "limit": limit + 1}
        rows = await self.store.rows("post_versions", parameters)
        if not rows and not await self.store.rows("posts_shown", {"viewer": viewer, "ids": [post_id]}):
            await self.refuse(viewer, post_id)
        has_more, data = len(rows) > limit, [_version(post_id, row) for row in rows[:limit]]
        next_cursor = self._cursors.write(viewer, name, data[-1]["version"]) if has_more else None
        return {"data": data, "has_more": has_more, "next_cursor": next_cursor}

    async def refuse(self, viewer: str, post_id: str) -> None:
        """Raises Gone for one's own tombstone, NotFound for everything else."""
        if (await self.store.rows("post_tombstone", {"viewer": viewer, "id": post_id}))[0][0]:
            raise errors.Gone("The post is deleted.")
        raise errors.NotFound

    async def _quoted(self, viewer: str, posts: list[Post]) -> dict[str, Json]:
        """The quoted posts, or that they are not available: hidden, deleted and unknown look alike."""
        ids = sorted({post.quote_of for post in posts if post.quote_of})
        if not ids:
            return {}
        rows = await self.store.rows("posts_shown", {"viewer": viewer, "ids": ids})
        found = {one.post.post_id: _rendered(one) for one in map(shown_of, rows)}
        return {post_id: found.get(post_id) or {"post_id": post_id, "unavailable": True} for post_id in ids}
