"""The rows of a move, copied a page at a time, as fast as the move may."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from dataflows.owner import fail_points
from schemas.tenancy import limits
from sinks.postgres.sql_files import queries

if TYPE_CHECKING:
    from collections.abc import Callable

    from dataflows.tenancy.mover.open_moves import Move
    from dataflows.tenancy.mover.tenant_rows import Place, Places

SQL: Final = queries("dataflows.tenancy.mover", "mover.sql")


class Copies:
    """Those that are under way. How far each is, its move says."""

    def __init__(self, places: Places, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._places = places
        self._clock_s = clock_s
        self._due_at: dict[str, float] = {}  # when the next page is
        self._fed_before: dict[str, int] = {}  # the newest image of the source when a copy was first looked at

    def may_go_on(self, move: Move) -> bool:
        """Whether its next page is due, and all that it must not miss is in the source's rows."""
        is_due = self._clock_s() >= self._due_at.get(move.migration_id, 0)
        return is_due and bool(move.copied_after or not self._waits_from_before(move))

    def copy_page(self, move: Move, source: Place, target: Place, now: int) -> bool:
        """The next page; False when there is none. The newest version wins at the target: a page may come twice."""
        began = self._clock_s()
        per_page = max(1, min(limits.MOVE_PAGE_ROWS, move.rows_per_second // limits.MOVE_PAGES_PER_SECOND))
        rows = self._places.rows_after(source, move.copied_after, per_page)
        if not rows:
            return False
        self._places.apply(target, rows)
        fail_points.reach("move_after_page")
        copied = {"after": rows[-1][0], "rows": len(rows), "now": now}
        self._places.control.execute(SQL["move_copied"].encode(), move.named | copied)
        # what it fell behind, of a short while, it may make up for: the mover does other things between two pages
        due_at = max(self._due_at.get(move.migration_id, 0), began - 1 / limits.MOVE_PAGES_PER_SECOND)
        self._due_at[move.migration_id] = due_at + len(rows) / move.rows_per_second
        return True

    def _waits_from_before(self, move: Move) -> bool:
        """Whether images from before the target was prepared are not in the source's rows yet, which are copied.

        Later ones go to both sides: a tenant that never stops writing is copied all the same.
        """
        waits = {"tenant_id": move.tenant_id, "placement_id": move.source}
        if move.migration_id not in self._fed_before:
            (newest,) = self._places.control.execute(SQL["feed_newest"].encode(), waits).fetchone() or (0,)
            self._fed_before[move.migration_id] = newest
        upto = {"upto": self._fed_before[move.migration_id]}
        return self._places.control.execute(SQL["feed_left_upto"].encode(), waits | upto).fetchone() == (True,)
