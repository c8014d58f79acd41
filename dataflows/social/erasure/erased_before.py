"""Erased is for ever: a user whom a database has again, as it was put back from before, is erased once more.

Who was erased is in ``keys/social_erased`` of the home, beside the keys and not in the database, before anything says
that it is gone.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

import structlog

from schemas.errors import Unavailable
from schemas.social import limits
from sinks.gone_for_ever import GoneForEver
from sinks.postgres import database_clock
from sinks.postgres.sql_files import queries

if TYPE_CHECKING:
    from pathlib import Path

    from psycopg import Connection

NAME: Final = "social_erased"
SQL: Final = queries("dataflows.social.erasure", "eraser.sql")
_log: Final = structlog.get_logger(__name__)


class ErasedBefore:
    """The users of one home that are gone for ever."""

    def __init__(self, keys: Path) -> None:
        self._users = GoneForEver(keys, NAME)
        self._next_at: float | None = None  # None: the database was not read since it was connected to

    def connected(self) -> None:
        """Putting a database back ends its connections: this one is another database, maybe."""
        self._next_at = None

    def note(self, user_id: str) -> bool:
        """Whether the file has this user, on the disk."""
        try:
            self._users.add([user_id])
        except Unavailable as error:
            _log.warning("erased_user_not_noted", reason=error.public)
            return False
        return True

    def again(self, connection: Connection[Any]) -> None:
        """Begins the erasure of those of the file who are there again; now and then also of who came since.

        The first time after a connection the file gets those whom the database knows and the file does not.
        """
        if self._next_at is not None and time.monotonic() < self._next_at:
            return
        try:
            if self._next_at is None:
                self._users.add(_erased(connection))
            gone = sorted(self._users.all())
        except Unavailable as error:
            _log.warning("erased_users_unknown", reason=error.public)
            gone = []
        self._next_at = time.monotonic() + limits.ERASED_AGAIN_S
        given = {"users": gone, "now": database_clock.now_us(connection)}
        if gone and (came_back := connection.execute(SQL["erase_again"].encode(), given).rowcount):
            _log.warning("erased_users_came_back", users=came_back, hint="the database was put back from before")


def _erased(connection: Connection[Any]) -> list[str]:
    found: list[str] = []
    after = ""
    while page := connection.execute(SQL["erased"].encode(), {"after": after, "limit": limits.ERASED_READ}).fetchall():
        found += [user_id for (user_id,) in page]
        after = found[-1]
    return found
