"""One's own edges, and the requests to be followed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dataflows.social.domain.records import Edge, rendered_follow
from ingress.social.pager import Examined, Pager, Place
from schemas import errors

if TYPE_CHECKING:
    from ingress.http.cursors import Cursors
    from ingress.http.store import Store

Json = dict[str, Any]


class Edges:
    """Reads of one process."""

    def __init__(self, store: Store, cursors: Cursors) -> None:
        self._store = store
        self._pager = Pager(cursors)

    async def get(self, viewer: str, user_id: str) -> Json:
        """One's own edge to a user. Raises NotFound where there is none, or the user is not there for the viewer."""
        rows = await self._store.rows("follow_own", {"viewer": viewer, "user_id": user_id})
        if not rows:
            raise errors.NotFound
        return rendered_follow(_edge(rows[0]))

    async def requests(self, viewer: str, limit: int, cursor: str | None) -> Json:
        """Who asks to follow, newest first."""

        async def examine(place: Place, count: int) -> list[Examined[Json]]:
            parameters = {"viewer": viewer, "at": place[0], "id": place[1], "count": count}
            rows = await self._store.rows("follow_requests", parameters)
            return [
                Examined((at, follower), rendered_follow(_edge(edge)) if is_there else None)
                for at, follower, is_there, *edge in rows
            ]

        page = await self._pager.page(viewer, "follow_requests", limit, cursor, examine)
        return page.document(page.items)


def _edge(row: Any) -> Edge:
    return Edge(**dict(zip(Edge.__struct_fields__, row, strict=True)))
