"""Which keys a vault process works with: the file gives the keys, the database says which of them seals.

A key in the file that is not the one that the database knows by that id is refused before a card is touched:
sealing with it would lose the card at the next restart with the right file.
"""

from __future__ import annotations

import asyncio
import hmac
import time
from typing import TYPE_CHECKING, Final

import structlog

from schemas import errors
from vault import limits, sealing
from vault.key_file import VaultKeysUnusable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vault.key_file import KeyFile, KeyRing
    from vault.store import VaultStore

MAC_KEY_ID: Final = "mac"
KeyRow = tuple[str, str, str, bytes]  # id, purpose, state, check value


def require_known(ring: KeyRing, rows: Iterable[KeyRow]) -> None:
    """Raises VaultKeysUnusable unless the ring has the very keys that the database knows and still needs."""
    for key_id, purpose, state, check in rows:
        key = ring.mac_key if purpose == "mac" else ring.wrapping_keys.get(key_id)
        if key is None and state != "retired":
            raise VaultKeysUnusable(
                f"the key file lacks {key_id}, which cards are sealed with: restore it from its backup"
            )
        if key is not None and not hmac.compare_digest(bytes(check), sealing.check_value(key, key_id)):
            raise VaultKeysUnusable(
                f"{key_id} in the key file is not the key of that id that cards were sealed with: restore the right one"
            )


class Keyring:
    """The keys of one process, read again when the database moved on."""

    def __init__(self, file: KeyFile, store: VaultStore) -> None:
        self._file = file
        self._store = store
        self._ring: KeyRing | None = None
        self._active = ""
        self._read_at = float("-inf")
        self._lock = asyncio.Lock()

    @property
    def ring(self) -> KeyRing:
        """The keys. Raises Unavailable before the first successful ``refresh``."""
        if self._ring is None:
            raise errors.Unavailable("The vault has no keys yet; try again with the same identity.")
        return self._ring

    @property
    def active(self) -> str:
        """The id of the key that new cards are sealed with."""
        return self._active

    async def wait(self) -> None:
        """Returns with the first keys, however long the database is away. Raises VaultKeysUnusable."""
        while True:
            try:
                return await self.refresh()
            except errors.Unavailable as error:
                structlog.get_logger().warning("vault_waits_for_postgres", cause=error.public)
            await asyncio.sleep(limits.VAULT_KEYS_WAIT_S)

    async def refresh(self) -> None:
        """The keys of now. Raises VaultKeysUnusable, and then no keys are held at all, or Unavailable."""
        asked_at = time.monotonic()
        async with self._lock:
            if self._read_at > asked_at:
                return  # somebody else's read began after we asked
            reads_at = time.monotonic()
            try:
                ring = await asyncio.to_thread(self._file.read)
                rows = await self._known(ring)
                require_known(ring, rows)
            except VaultKeysUnusable:
                self._ring = None  # fail closed: better no vault than one that seals with a wrong key
                raise
            self._active = next(key_id for key_id, purpose, state, _ in rows if (purpose, state) == ("wrap", "active"))
            self._ring = ring
            self._read_at = reads_at

    async def _known(self, ring: KeyRing) -> list[KeyRow]:
        """The database's keys, after the first start has made ours known to it."""
        rows: list[KeyRow] = [(i, p, s, bytes(c)) for i, p, s, c in await self._store.rows("keys_all", {})]
        if {purpose for _, purpose, _, _ in rows} == {"wrap", "mac"}:
            return rows
        for key_id, purpose, key in (
            (MAC_KEY_ID, "mac", ring.mac_key),
            (ring.newest, "wrap", ring.wrapping_keys[ring.newest]),
        ):
            await self._store.rows(
                "key_register",
                {"key_id": key_id, "purpose": purpose, "check_value": sealing.check_value(key, key_id)},
            )
        return [(i, p, s, bytes(c)) for i, p, s, c in await self._store.rows("keys_all", {})]

    async def stay_fresh(self) -> None:
        """Reads the keys again from time to time, until cancelled: a retired key leaves this process's memory."""
        while True:
            await asyncio.sleep(limits.VAULT_KEYS_REFRESH_S)
            try:
                await self.refresh()
            except (VaultKeysUnusable, errors.Unavailable) as error:
                structlog.get_logger().error("vault_keys_not_refreshed", cause=error.public)
