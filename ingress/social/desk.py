"""What the moderation desk reads: cases, reports, decisions, appeals, and how far decisions have come.

Posts themselves it asks of the API's own reader, in the moderator's name: a moderator sees what its user may see.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ingress import limits
from schemas import errors

if TYPE_CHECKING:
    from ingress.http.store import Store
    from ingress.social.posts import Posts

Json = dict[str, Any]
_ROWS: Final = {"limit": limits.CONSOLE_ROWS_MAX}


class Desk:
    """Reads of one process."""

    def __init__(self, store: Store, posts: Posts) -> None:
        self._store = store
        self._posts = posts

    async def case(self, moderator: str, object_id: str) -> Json:
        """An object with all that was said and decided of it; its post and versions, where the moderator may see it.

        ``unread`` are versions that it has to judge and may not see, without their text: ``texts`` reads that. Of a
        medium, whose it is and which post has it; of a user, its name; of each the version that is judged.
        ``policies`` are those that were decided by of late.
        """
        kind = object_id[:3]
        medium = await self._first("desk_medium", object_id) if kind == "md_" else None
        person = await self._first("desk_user", object_id) if kind not in ("md_", "po_") else None
        post, versions = await self._post(moderator, object_id)
        return {
            "case": await self._first("desk_case", object_id),
            "reports": await self._store.records("desk_reports", {"id": object_id, **_ROWS}),
            "rulings": await self._store.records("desk_rulings", {"id": object_id, **_ROWS}),
            "labels": await self._store.records("desk_labels", {"id": object_id}),
            "post": post,
            "versions": versions,
            "unread": await self._unread(moderator, object_id, versions),
            "policies": [one["policy_version"] for one in await self._store.records("desk_policies", _ROWS)],
            "medium": medium,
            "person": person,
        }

    async def _first(self, query: str, object_id: str) -> Json | None:
        rows = await self._store.records(query, {"id": object_id})
        return rows[0] if rows else None

    async def _post(self, moderator: str, object_id: str) -> tuple[Json | None, list[Json]]:
        if not object_id.startswith("po_"):
            return None, []
        try:
            post = await self._posts.get(moderator, object_id, is_moderator=True)
            versions = await self._posts.versions(moderator, object_id, limits.PAGE_LIMIT_DEFAULT, None)
        except (errors.NotFound, errors.Gone):
            return None, []
        return post, versions["data"]

    async def texts(self, moderator: str, object_id: str) -> list[Json]:
        """A post's text as it is, and in the versions that decisions name, newest first: for who has to judge it.

        That is who has its case, or may decide an appeal that waits, whoever may see the post. Raises NotFound for
        everybody else, and of what is deleted.
        """
        found = await self._judged("desk_texts", moderator, object_id)
        if not found:
            raise errors.NotFound
        return found

    async def _judged(self, query: str, moderator: str, object_id: str) -> list[Json]:
        if not object_id.startswith("po_"):
            return []
        return await self._store.records(query, {"id": object_id, "moderator": moderator, **_ROWS})

    async def _unread(self, moderator: str, object_id: str, seen: list[Json]) -> list[int]:
        """A text is read by who asks for it alone, which is noted; a page that shows none reads none."""
        known = {one["version"] for one in seen}
        found = [one["version"] for one in await self._judged("desk_versions", moderator, object_id)]
        return [version for version in found if version not in known]

    async def appeals(self) -> list[Json]:
        """Those that wait, the oldest first."""
        return await self._store.records("desk_appeals", _ROWS)

    async def newest(self) -> list[Json]:
        """The last decisions with what each has reached."""
        return await self._store.records("desk_newest", _ROWS)
