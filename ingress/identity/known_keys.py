"""What one process knows of merchants' signing keys: active keys and requirement; bounded in time and number.

A key that was revoked, or a requirement that was raised, counts everywhere within ``SIGNING_KEYS_CACHED_S``. Callers
who do not sign cost a look into a dictionary.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Literal, Protocol

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from msgspec import Struct

from ingress import limits
from ingress.http.coalescer import Coalescer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

Requirement = Literal["off", "optional", "required"]


class Rows(Protocol):
    """Where rows of named queries come from, by whatever role a process has."""

    async def rows(self, query: str, parameters: Mapping[str, Any], /) -> list[tuple[Any, ...]]:
        """The rows of a named query. Raises Unavailable when the database does not answer."""
        ...


class Known(Struct, frozen=True):
    """What a merchant requires, and its active keys by their ids."""

    requirement: Requirement
    keys: Mapping[str, Ed25519PublicKey]
    read_at: float


class KnownKeys:
    """Looks merchants up, many in one query. Raises Unavailable when the database is out: nothing is guessed."""

    def __init__(self, store: Rows, clock: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._clock = clock
        self._known: OrderedDict[str, Known] = OrderedDict()
        self._coalescer: Coalescer[str, Known] = Coalescer(
            self._read,
            batch_max=limits.SIGNING_KEYS_ASKED_MAX,
            running_max=limits.SIGNING_KEYS_ASKED_RUNNING_MAX,
        )

    async def of(self, merchant: str, younger_than_s: float = limits.SIGNING_KEYS_CACHED_S) -> Known:
        """What is known of the merchant, read within that time."""
        known = self._known.get(merchant)
        if known is not None and self._clock() - known.read_at < younger_than_s:
            return known
        known = self._known[merchant] = await self._coalescer.ask(merchant)
        self._known.move_to_end(merchant)
        if len(self._known) > limits.SIGNING_KEYS_CACHED_MAX:
            self._known.popitem(last=False)
        return known

    async def key(self, merchant: str, key_id: str) -> Ed25519PublicKey | None:
        """The merchant's active key; one that was registered elsewhere a moment ago is found too."""
        found = (await self.of(merchant)).keys.get(key_id)
        if found is None:
            found = (await self.of(merchant, limits.SIGNING_KEYS_RELOAD_S)).keys.get(key_id)
        return found

    def forget(self, merchant: str) -> None:
        """The next call reads again."""
        self._known.pop(merchant, None)

    async def _read(self, merchants: Sequence[str]) -> list[Known]:
        read_at = self._clock()  # before the query: what is older than its answer is not called younger
        parameters = {"ns": list(range(len(merchants))), "merchants": list(merchants)}
        requirements: dict[int, Requirement] = {}
        keys: list[dict[str, Ed25519PublicKey]] = [{} for _ in merchants]
        for n, requirement, key_id, public_key in await self._store.rows("signing_keys_of", parameters):
            requirements[n] = requirement
            if key_id is not None:
                keys[n][key_id] = Ed25519PublicKey.from_public_bytes(bytes(public_key))
        return [Known(requirements[n], keys[n], read_at) for n in range(len(merchants))]
