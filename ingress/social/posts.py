"""Posts as their readers see them. Nothing leaves here that ``social_authorize`` did not allow in the same read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from dataflows.social.domain.records import Post, rendered_post
from schemas import errors
from schemas.renderer import timestamp

if TYPE_CHECKING:
    from ingress.http.cursors import Cursors
    from ingress.http.store import Store
    from ingress.social.media.uploads import Uploads
    from ingress.social.moderation.moderation import Moderation

Json = dict[str, Any]
_NO_VERSION: Final = 2**62  # above every version
COLUMNS: Final = len(Post.__struct_fields__)


def post_of(row: Sequence[Any]) -> Post:
    """A post of a row that ends with its columns."""
    return Post(**dict(zip(Post.__struct_fields__, row[-COLUMNS:], strict=True)))


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

    async def shown(self, viewer: str, posts: Iterable[tuple[Post, str | None]]) -> list[Json]:
        """Posts that the viewer may see, each with the post that it quotes and with who reposted it."""
        pairs = list(posts)
        quoted = await self._quoted(viewer, [post for post, _ in pairs])
        return [
            rendered_post(post)
            | {"quote": quoted.get(post.quote_of or "")}
            | ({"reposted_by": reposter} if reposter else {})
            for post, reposter in pairs
        ]

    async def get(self, viewer: str, post_id: str, *, is_moderator: bool = False) -> Json:
        """One post, and the label that moderators gave it. Raises NotFound, whether it is missing or hidden.

        Raises Gone for one's own deleted one.
        """
        rows = await self.store.rows("posts_shown", {"viewer": viewer, "ids": [post_id]})
        if not rows:
            await self.refuse(viewer, post_id)
        post = post_of(rows[0])
        (shown,) = await self.shown(viewer, [(post, None)])
        ((likes, reposts, replies),) = await self.store.rows("post_counts", {"id": post_id, "viewer": viewer})
        counts = {"likes": likes, "reposts": reposts, "replies": replies}
        media = (await self._uploads.of_posts(viewer, [post_id]))[post_id]
        decided = await self._moderation.in_force(post_id)
        told = decided if is_moderator or post.author_id == viewer else None
        label = decided["label"] if decided else None
        return shown | {"media": media, "counts": counts, "label": label, "moderation": told}

    async def root_of(self, viewer: str, post_id: str) -> str:
        """The root of the thread of a post that the viewer may see. Raises as ``get``."""
        rows = await self.store.rows("posts_shown", {"viewer": viewer, "ids": [post_id]})
        if not rows:
            await self.refuse(viewer, post_id)
        return post_of(rows[0]).root_id

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
        found = {post.post_id: rendered_post(post) for post in map(post_of, rows)}
        return {post_id: found.get(post_id) or {"post_id": post_id, "unavailable": True} for post_id in ids}
