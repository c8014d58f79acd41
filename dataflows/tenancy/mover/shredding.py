"""Destroyed is for ever: keys that a database has again, as it was put back from before, are destroyed once more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog

from dataflows.tenancy.mover.each import each
from sinks.postgres.sql_files import queries

if TYPE_CHECKING:
    from dataflows.tenancy.mover.tenant_rows import Places
    from sinks.tenancy.shredded import Shredded

SQL: Final = queries("dataflows.tenancy.mover", "mover.sql")
_log: Final = structlog.get_logger(__name__)


class Shredding:
    """Once for each connection, as putting a database back ends them: the file and the database say the same."""

    def __init__(self, places: Places, shredded: Shredded) -> None:
        self._places = places
        self._shredded = shredded
        self._is_done = False

    def further(self, now: int) -> bool:
        """Whether there was anything to do."""
        if self._is_done:
            return False
        self._is_done = each(self._places, "destroy keys again", [now], self._again)
        return self._is_done

    def _again(self, now: int) -> bool:
        gone = self._places.control.execute(SQL["keys_gone"].encode()).fetchall()
        self._shredded.add(tenant_id for (tenant_id,) in gone)
        again = {"tenants": sorted(self._shredded.all()), "now": now}
        if came_back := self._places.control.execute(SQL["keys_came_back"].encode(), again).rowcount:
            _log.warning("destroyed_keys_came_back", keys=came_back, hint="the database was put back from before")
        return True
