"""Posts as cards: what a page shows of posts that its reader was authorized to see in the same request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ingress.http.store import Store
    from ingress.social.media.uploads import Uploads

Json = dict[str, Any]


class Cards:
    """Reads of one process. It adds to what a timeline gave, and gives no post of its own."""

    def __init__(self, store: Store, uploads: Uploads) -> None:
        self._store = store
        self._uploads = uploads

    async def of(self, viewer: str, posts: list[Json]) -> list[Json]:
        """The posts, each with its media, and with the viewer's own reactions."""
        ids = [post["post_id"] for post in posts]
        if not ids:
            return []
        media = await self._uploads.of_posts(viewer, ids)
        rows = await self._store.rows("app_reactions", {"viewer": viewer, "ids": ids})
        mine = {(str(post_id), str(kind)) for post_id, kind in rows}
        return [
            post
            | {
                "media": media[post["post_id"]],
                "is_liked": (post["post_id"], "like") in mine,
                "is_reposted": (post["post_id"], "repost") in mine,
            }
            for post in posts
        ]

    async def names(self, viewer: str, users: Iterable[str | None]) -> dict[str, str]:
        """How those of the users are called who are there for the viewer; who has no name is not in it."""
        ids = sorted({user for user in users if user})
        rows = await self._store.rows("app_names", {"viewer": viewer, "ids": ids}) if ids else []
        return {user_id: name for user_id, name in rows if name}

    async def names_of(self, viewer: str, posts: Iterable[Json]) -> dict[str, str]:
        """The names of authors, of the quoted, and of who reposted."""
        users: list[str | None] = []
        for post in posts:
            quote = post.get("quote") or {}
            users += [post["author_id"], post.get("reposted_by"), quote.get("author_id")]
        return await self.names(viewer, users)
