"""Decides whether a store has room for one more tenant, and which of those that tenants share. Pure.

How many tenants a store holds is exact, and read under a lock: no two commits take the last place. How many bytes it
has was measured some time ago: with them it is closed to further tenants, and never to those that it holds. One that
is drained, or retired, takes nobody, however empty it is.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from schemas.records import Denial
from schemas.tenancy import limits

OPEN: Final = "open"
DRAINING: Final = "draining"
RETIRED: Final = "retired"
_TOLD: Final = (
    "No store of mode {mode} has room for another tenant. Ask for another mode, or have an operator raise what its"
    " stores may hold: 'millrace tenants store'."
)


class Store(Struct, frozen=True, kw_only=True):
    """What one holds, and what it may; None of bytes: not measured, not bounded."""

    store: str
    mode: str
    tenants_max: int | None
    bytes_max: int | None
    tenants: int
    bytes: int | None
    standing: str = OPEN

    @property
    def places(self) -> int:
        """How many tenants it may hold."""
        return limits.STORE_TENANTS_MAX[self.mode] if self.tenants_max is None else self.tenants_max

    @property
    def has_room(self) -> bool:
        """Whether it takes another tenant."""
        return self.standing == OPEN and not self._is_taken

    @property
    def state(self) -> str:
        """``active``, ``full``, ``draining`` or ``retired``, of one that is made."""
        if self.standing != OPEN:
            return self.standing
        return "full" if self._is_taken else "active"

    @property
    def _is_taken(self) -> bool:
        is_heavy = self.bytes_max is not None and self.bytes is not None and self.bytes >= self.bytes_max
        return self.tenants >= self.places or is_heavy


def others(stores: Iterable[Store], mode: str, leaves: str) -> list[Store]:
    """The stores of a mode to which a tenant may move that leaves this schema."""
    return [store for store in stores if store.mode == mode and store.store != leaves]


def chosen(stores: Iterable[Store], mode: str) -> Store | Denial:
    """The store of a mode in which the smallest part of all places is taken.

    A refusal where none has room; it is not stored, so the same identity may ask again when one has.
    """
    of_mode = [store for store in stores if store.mode == mode and store.standing == OPEN]
    if with_room := [store for store in of_mode if store.has_room]:
        return min(with_room, key=lambda store: (store.tenants / store.places, store.store))
    numbers: dict[str, object] = {
        "mode": mode,
        "capacity": sum(store.places for store in of_mode),
        "used": sum(store.tenants for store in of_mode),
    }
    return Denial("placement_full", _TOLD.format(mode=mode), numbers)
