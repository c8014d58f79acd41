"""Exports are read when they are fetched, in bounded pages: no file with everything of a person lies anywhere."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any, Final

import msgspec

from dataflows.social.domain.own_data import Erasure, rendered_erasure
from schemas import errors
from schemas.social import limits

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from ingress.http.store import Store

Json = dict[str, Any]
#: in this order; each gives lines that are JSON already, and the place of each
_PARTS: Final = ("export_user", "export_posts", "export_media", "export_edges", "export_reactions")


class OwnData:
    """Reads of one process."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def export(self, user_id: str, export_id: str) -> Json:
        """That there is one. Raises NotFound."""
        if not await self._store.rows("export_one", {"user_id": user_id, "id": export_id}):
            raise errors.NotFound
        return {"id": export_id, "object": "export", "export_id": export_id, "state": "ready", "version": 1}

    async def content(self, user_id: str) -> AsyncIterator[bytes]:
        """All that is the user's own, a line for each: itself, posts with versions, media, edges, likes."""
        for part in _PARTS:
            place = ""
            while True:
                given = {"user_id": user_id, "after": place, "limit": limits.EXPORT_ROWS}
                rows = await self._store.rows(part, given)
                for place, line in rows:  # noqa: B007 - the last place is where the next page begins
                    yield line.encode() + b"\n"
                if len(rows) < limits.EXPORT_ROWS:
                    break

    async def erasure(self, user_id: str) -> Json:
        """The user's own erasure, with its certificate once it is complete. Raises NotFound."""
        rows = await self._store.rows("erasure_own", {"user_id": user_id})
        if not rows:
            raise errors.NotFound
        erasure = Erasure(**dict(zip(Erasure.__struct_fields__, rows[0], strict=True)))
        return rendered_erasure(erasure) | {"certificate": _certificate(erasure.jws)}


def _certificate(jws: str | None) -> Json | None:
    """What is certified, as it was signed, and the signed form."""
    if jws is None:
        return None
    payload = jws.split(".")[1]
    found: Json = msgspec.json.decode(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    return found | {"jws": jws}
