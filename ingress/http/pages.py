"""Pages of lists that are ordered newest first. The place of a page is the time and id of the last object before it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import quote

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ingress.http.cursors import Cursors
    from ingress.http.store import Store

Place = tuple[int, str]  # microseconds since the epoch, id
Item = TypeVar("Item")

BEFORE_ALL: Final[Place] = (253_402_300_799_000_000, "\x7f")  # newer than any: the end of the year 9999


class NewestFirst:
    """Reads pages. What is made while a reader turns pages is newer than every page to come: no repeat, no gap."""

    def __init__(self, store: Store, cursors: Cursors) -> None:
        self._store = store
        self._cursors = cursors

    async def page(
        self,
        query: str,
        name: str,
        caller: str,
        filters: Mapping[str, str | None],
        limit: int,
        cursor: str | None,
        read: Callable[[tuple[Any, ...]], Item],
        place_of: Callable[[Item], Place],
        render: Callable[[Item], dict[str, Any]],
        newest: Place = BEFORE_ALL,
        oldest_us: int = 0,
    ) -> dict[str, Any]:
        """One page and the cursor of the next one, which is good for this caller, list and filter only.

        ``filters`` are also parameters of the query; nothing is as new as ``newest``, and where the
        query asks for it nothing older than ``oldest_us``. Raises MalformedRequest for a cursor that is not of this
        list.
        """
        bound = (
            ":".join([name, *(quote(value or "", safe="") for value in filters.values())])
            if any(filters.values())
            else name
        )
        place = self._cursors.read(caller, bound, cursor, tuple[int, str]) if cursor else newest
        parameters = {
            **filters,
            "merchant": caller,
            "created_from": oldest_us,
            "created_at": place[0],
            "id": place[1],
            "limit": limit + 1,
        }
        rows = await self._store.rows(query, parameters)
        items = [read(row) for row in rows[:limit]]
        has_more = len(rows) > limit
        return {
            "data": [render(item) for item in items],
            "has_more": has_more,
            "next_cursor": self._cursors.write(caller, bound, place_of(items[-1])) if has_more else None,
        }
