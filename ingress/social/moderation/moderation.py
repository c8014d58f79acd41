"""What moderators read, and what an author reads of a decision. Who decided is shown to nobody."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from dataflows.social.domain.moderation import Case, Ruling, rendered_case, rendered_ruling
from schemas import errors
from schemas.renderer import timestamp

if TYPE_CHECKING:
    from ingress.http.cursors import Cursors
    from ingress.http.store import Store

Json = dict[str, Any]
_FIRST: Final = (2**62, "\x7f")


class Moderation:
    """Reads of one process."""

    def __init__(self, store: Store, cursors: Cursors) -> None:
        self._store = store
        self._cursors = cursors

    async def queue(self, moderator: str, limit: int, cursor: str | None) -> Json:
        """Open cases, the most urgent first."""
        name = "moderation_queue"
        place = self._cursors.read(moderator, name, cursor, tuple[int, str]) if cursor else _FIRST
        rows = await self._store.rows("moderation_queue", {"priority": place[0], "id": place[1], "limit": limit + 1})
        cases = [Case(**dict(zip(Case.__struct_fields__, row, strict=True))) for row in rows[:limit]]
        has_more = len(rows) > limit
        last = (cases[-1].priority, cases[-1].object_id) if has_more else None
        return {
            "data": [rendered_case(case) for case in cases],
            "has_more": has_more,
            "next_cursor": self._cursors.write(moderator, name, last) if last else None,
        }

    async def in_force(self, object_id: str) -> Json | None:
        """The decision in force about an object, unless it restricts nothing."""
        rows = await self._store.rows("moderation_in_force", {"id": object_id})
        return rendered_ruling(_ruling(rows[0])) if rows else None

    async def appeal_state(self, decision_id: str) -> str | None:
        """What has come of the appeal against a decision; None where there is none."""
        rows = await self._store.rows("appeal_state", {"id": decision_id})
        return str(rows[0][0]) if rows else None

    async def appeals(self, reader: str, author_id: str | None, state: str, limit: int, cursor: str | None) -> Json:
        """Appeals, the last first: those of an author, or all; in any state, or in this one."""
        name = f"moderation_appeals:{author_id or ''}:{state}"
        at, below = self._cursors.read(reader, name, cursor, tuple[int, str]) if cursor else _FIRST
        query = "appeals_of_author" if author_id else "appeals_open" if state == "open" else "appeals_all"
        given = {"author_id": author_id, "state": state, "at": at, "id": below, "limit": limit + 1}
        rows = await self._store.records(query, given)
        has_more = len(rows) > limit
        last = (rows[limit - 1]["created_at"], rows[limit - 1]["appeal_id"]) if has_more else None
        return {
            "data": [_listed(row) for row in rows[:limit]],
            "has_more": has_more,
            "next_cursor": self._cursors.write(reader, name, last) if last else None,
        }

    async def decision(self, decision_id: str, author_id: str | None = None) -> Json:
        """One decision: any, or one about what is the author's own. Raises NotFound."""
        rows = await self._store.rows("moderation_decision", {"id": decision_id})
        ruling = _ruling(rows[0]) if rows else None
        if ruling is None or author_id not in (None, ruling.author_id):
            raise errors.NotFound
        return rendered_ruling(ruling)

    async def propagation(self, decision_id: str) -> Json:
        """What a decision has reached, by whoever shows its object. Raises NotFound."""
        rows = await self._store.rows("moderation_propagation", {"id": decision_id})
        if not rows:
            raise errors.NotFound
        consumers = [
            {
                "name": name,
                "state": state,
                "attempts": attempts,
                "verified_at": None if verified_at is None else timestamp(verified_at),
            }
            for name, state, attempts, verified_at in rows
        ]
        is_verified = all(consumer["state"] == "verified" for consumer in consumers)
        return {
            "object": "moderation_propagation",
            "decision_id": decision_id,
            "state": "verified" if is_verified else "pending",
            "consumers": consumers,
        }


def _listed(row: Json) -> Json:
    """An appeal with what it is against; who decided is shown to nobody."""
    return {"id": row["appeal_id"], "object": "moderation_appeal"} | row | {"created_at": timestamp(row["created_at"])}


def _ruling(row: tuple[Any, ...]) -> Ruling:
    return Ruling(**dict(zip(Ruling.__struct_fields__, row, strict=True)))
