"""Keys of tenants that an older root key wraps are wrapped by the newest, some in a round, each by compare-and-set."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from dataflows.tenancy.mover.each import each
from schemas.tenancy import limits
from sinks.postgres.sql_files import queries

if TYPE_CHECKING:
    from dataflows.tenancy.mover.tenant_rows import Places
    from sinks.tenancy.root_keys import RootKeys

SQL: Final = queries("dataflows.tenancy.mover", "mover.sql")
_SECOND_US: Final = 1_000_000


class Wrapping:
    """Goes through all keys once for each newest root key, and again now and then: an owner may wrap one late."""

    def __init__(self, places: Places, root_keys: RootKeys) -> None:
        self._places = places
        self._root_keys = root_keys
        self._newest = ""
        self._after: tuple[str, int] | None = None  # None: there is none to go through
        self._again_at = 0

    def further(self, now: int) -> bool:
        """Whether a key was wrapped anew. One that does not open stays as it is, and is told."""
        newest = self._root_keys.newest
        if newest != self._newest or now >= self._again_at:
            self._newest, self._after = newest, ("", 0)
            self._again_at = now + limits.MOVER_KEYS_AGAIN_S * _SECOND_US
        if self._after is None:
            return False
        tenant_id, key_version = self._after
        asked = {"newest": newest, "tenant_id": tenant_id, "key_version": key_version, "limit": limits.MOVER_ITEMS_MAX}
        found = self._places.control.execute(SQL["keys_wrapped_before"].encode(), asked).fetchall()
        self._after = found[-1][:2] if found else None
        return each(self._places, "wrap a key anew", found, self._wrap)

    def _wrap(self, row: tuple[Any, ...]) -> bool:
        tenant_id, key_version, root_key_id, wrapped = row
        control = self._places.control
        with control.transaction():
            control.execute(SQL["keys_held"].encode())
            newest, key = self._root_keys.wrapped_anew(tenant_id, key_version, root_key_id, bytes(wrapped))
            changed = {
                "tenant_id": tenant_id,
                "key_version": key_version,
                "read": wrapped,
                "root_key_id": newest,
                "wrapped": key,
            }
            return control.execute(SQL["key_wrapped_anew"].encode(), changed).rowcount == 1
