"""What a user is told, as far as it still holds: a row is a claim, and every read judges it anew."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ingress.social.pager import Examined, Pager, Place
from schemas.renderer import timestamp

if TYPE_CHECKING:
    from ingress.http.cursors import Cursors
    from ingress.http.store import Store

Json = dict[str, Any]


class Notifications:
    """Reads of one process."""

    def __init__(self, store: Store, cursors: Cursors) -> None:
        self._store = store
        self._pager = Pager(cursors)

    async def page(self, viewer: str, limit: int, cursor: str | None) -> Json:
        """One page, newest first."""

        async def examine(place: Place, count: int) -> list[Examined[Json]]:
            parameters = {"viewer": viewer, "at": place[0], "id": place[1], "count": count}
            rows = await self._store.rows("notifications_of", parameters)
            return [Examined((row[0], row[1]), _rendered(row) if row[-1] else None) for row in rows]

        page = await self._pager.page(viewer, "notifications", limit, cursor, examine)
        return page.document(page.items)


def _rendered(row: tuple[Any, ...]) -> Json:
    created_at, notification_id, kind, actor_id, post_id, decision_id, _ = row
    return {
        "id": notification_id,
        "object": "notification",
        "notification_id": notification_id,
        "kind": kind,
        "actor_id": actor_id,
        "post_id": post_id,
        "decision_id": decision_id,
        "created_at": timestamp(created_at),
    }
