"""What one client connection has of the engine: a session, kept while the requests on it say the same.

A session is made in three steps (connect, SET, USE), which take as long as a small query. So the next request of the
same client connection finds it made, where it says the same database and settings, and nothing since could have
changed it. Nobody else ever has it: no SET, USE or temporary table of one caller is seen by another.
"""

from __future__ import annotations

import re
import threading
from typing import TYPE_CHECKING, Final

from chdb.state.sqlitelike import Connection

from compose import limits
from compose.stack.clickhouse.errors import UNKNOWN_SETTING, QueryError

if TYPE_CHECKING:
    from compose.stack.clickhouse.query import Query

#: of a parameter, too, which SET knows as a setting
SETTING_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")
#: what a server does where the embedded engine has other defaults, and the bounds of one query
_DEFAULTS: Final = {
    "implicit_select": "0",
    "max_memory_usage": str(limits.CLICKHOUSE_MEMORY_BYTES_MAX),
    "max_execution_time": str(limits.CLICKHOUSE_EXECUTION_TIME_MAX_S),
}


class Session:
    """Of one client connection, which asks one thing after another; only ``close`` may come from another thread."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._kept: tuple[object, Connection] | None = None
        self._is_closed = False
        self._lock = threading.Lock()

    def take(self, query: Query) -> Connection:
        """A connection to the engine that is as the request says. Raises ``QueryError``, and what the engine raises."""
        with self._lock:
            kept, self._kept = self._kept, None
        if kept is not None:
            if kept[0] == _said(query):
                return kept[1]
            kept[1].close()
        connection = Connection(self._path)
        try:
            _configure(connection, query)
        except BaseException:
            connection.close()
            raise
        return connection

    def give_back(self, query: Query, connection: Connection, *, is_as_said: bool) -> None:
        """Kept for the next request, unless something may have changed it since it was made as the request says."""
        with self._lock:
            is_kept = is_as_said and not self._is_closed
            if is_kept:
                self._kept = _said(query), connection
        if not is_kept:
            connection.close()

    def close(self) -> None:
        """The client left, or the engine ends: nothing is kept any more."""
        with self._lock:
            kept, self._kept, self._is_closed = self._kept, None, True
        if kept is not None:
            kept[1].close()


def _said(query: Query) -> object:
    return query.database, query.read_only, query.settings


def _configure(connection: Connection, query: Query) -> None:
    settings = _DEFAULTS | query.settings
    for name in settings:
        if not SETTING_NAME.fullmatch(name):
            raise QueryError.named(UNKNOWN_SETTING, "UNKNOWN_SETTING", f"Unknown setting {name!r}")
    connection.query("SET " + ", ".join(f"{name} = {quoted(value)}" for name, value in settings.items()))
    if query.database:
        connection.query(f"USE `{query.database.replace(chr(92), chr(92) * 2).replace('`', chr(92) + '`')}`")
    if query.read_only:
        connection.query("SET readonly = 2")


def quoted(value: str) -> str:
    """As a text of SQL."""
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
