"""Pages of lists whose entries are judged at every read: filled with what may be seen, in a few rounds at most.

A cursor is the place of the last entry that was examined, seen or not: what comes and goes moves no place. That there
is more is said of what the reader may see, as far as it was examined.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from msgspec import Struct

from schemas.social import limits

if TYPE_CHECKING:
    from ingress.http.cursors import Cursors

Place = tuple[int, str]
NEWEST: Final[Place] = (253_402_300_799_000_000, "\x7f")  # before all of a list that is newest first
OLDEST: Final[Place] = (-1, "")
Item = TypeVar("Item")


class Examined(Struct, Generic[Item]):
    """One entry: where it stands, and what it is; None where the reader may not see it."""

    place: Place
    item: Item | None


#: so many entries behind a place
Examine = Callable[[Place, int], Awaitable[list[Examined[Item]]]]


class Page(Struct, Generic[Item]):
    """What one read gives."""

    items: list[Item]
    next_cursor: str | None

    def document(self, data: list[dict[str, Any]]) -> dict[str, Any]:
        """As every list looks."""
        return {"data": data, "has_more": self.next_cursor is not None, "next_cursor": self.next_cursor}


class Pager:
    """Reads pages; a cursor is of one reader and one list."""

    def __init__(self, cursors: Cursors) -> None:
        self._cursors = cursors

    async def page(
        self, viewer: str, name: str, limit: int, cursor: str | None, examine: Examine[Item], first: Place = NEWEST
    ) -> Page[Item]:
        """One page. Raises MalformedRequest for a cursor that is not of this list."""
        place = self._cursors.read(viewer, name, cursor, tuple[int, str]) if cursor else first
        items: list[Item] = []
        for margin in limits.TIMELINE_MARGINS:
            count = limit + margin
            entries = await examine(place, count)
            for n, entry in enumerate(entries):
                place = entry.place
                if entry.item is None:
                    continue
                items.append(entry.item)
                if len(items) == limit:
                    has_more = len(entries) == count or any(later.item is not None for later in entries[n + 1 :])
                    return Page(items, self._cursors.write(viewer, name, place) if has_more else None)
            if len(entries) < count:
                return Page(items, None)
        return Page(items, self._cursors.write(viewer, name, place))
