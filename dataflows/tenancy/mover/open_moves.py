"""Open moves as they stand in ``tenant_migration``: all that a mover knows of one.

What is changed is a move as it was read, under the lock that every write of its tenant takes: an operator's word that
came between wins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from dataflows.tenancy.mover.tenant_rows import Place
from schemas import errors
from schemas.tenancy import limits
from sinks.postgres.sql_files import queries

if TYPE_CHECKING:
    from collections.abc import Callable

    from psycopg import Connection

SQL: Final = queries("dataflows.tenancy.mover", "mover.sql")
_SECOND_US: Final = 1_000_000


class Move(Struct, frozen=True, kw_only=True):
    """An open move and its tenant, as they were read."""

    tenant_id: str
    migration_id: str
    state: str
    source: str
    target: str
    from_generation: int
    rows_per_second: int
    fenced: bool
    closing: bool
    fence_until: int | None
    soaks_until: int | None
    soak_s: int | None
    copied_after: str
    served_mismatches: int
    generation: int
    placement_id: str

    @property
    def named(self) -> dict[str, Any]:
        """Its key."""
        return {"tenant_id": self.tenant_id, "migration_id": self.migration_id}


class OpenMoves:
    """Those of one control database."""

    def __init__(self, control: Connection[Any], now_us: Callable[[], int]) -> None:
        self._control = control
        self._now_us = now_us

    def read(self) -> list[Move]:
        """The next of them."""
        rows = self._control.execute(SQL["moves_open"].encode(), {"limit": limits.MOVER_ITEMS_MAX}).fetchall()
        return [_move(row) for row in rows]

    def fenced_still(self, move: Move) -> Move | None:
        """The move as it is now; None when no fence is up any more."""
        row = self._control.execute(SQL["move_fenced_still"].encode(), move.named).fetchone()
        return None if row is None else _move(row)

    def to(self, move: Move, state: str, now: int) -> bool:
        """Its next state. False when the move went elsewhere."""
        with self._control.transaction():
            if not self._is_still(move):
                return False
            self._control.execute(SQL["move_state"].encode(), move.named | {"state": state, "now": now})
        return True

    def fence(self, move: Move, state: str) -> bool:
        """No write of the tenant is decided from this commit on, whoever its owner is."""
        with self._control.transaction():
            if not self._is_still(move):
                return False
            now = self._now_us()  # all rows were compared meanwhile, for however long
            until = now + limits.MOVE_FENCE_S * _SECOND_US
            self._control.execute(
                SQL["move_fenced"].encode(), move.named | {"state": state, "until": until, "now": now}
            )
            self._control.execute(SQL["gate_fenced"].encode(), {"tenant_id": move.tenant_id})
        return True

    def placed(self, move: Move, state: str, placement_id: str, now: int, soaks_until: int | None = None) -> bool:
        """The one compare-and-set of a cutover, a rollback, the end of a fence. False when the move went elsewhere."""
        with self._control.transaction():
            if not self._is_still(move):
                return False
            given = {
                "tenant_id": move.tenant_id,
                "placement_id": placement_id,
                "generation": move.generation,
                "now": now,
            }
            row = self._control.execute(SQL["tenant_placed"].encode(), given).fetchone()
            if row is None:
                raise errors.CasMiss(move=move.migration_id)
            self._control.execute(SQL["gate_opened"].encode(), {"tenant_id": move.tenant_id, "generation": row[0]})
            self._release(move, state, now, to_generation=row[0], soaks_until=soaks_until)
        return True

    def close(self, move: Move, now: int) -> bool:
        """The way back is closed. False when the move went elsewhere."""
        with self._control.transaction():
            if not self._is_still(move):
                return False
            self._release(move, "soaking", now, closing=True)
        return True

    def _release(
        self,
        move: Move,
        state: str,
        now: int,
        *,
        closing: bool = False,
        to_generation: int | None = None,
        soaks_until: int | None = None,
    ) -> None:
        changes = {
            "state": state,
            "closing": closing,
            "to_generation": to_generation or move.generation,
            "soaks_until": soaks_until or move.soaks_until,
            "reason": None,
            "now": now,
        }
        self._control.execute(SQL["move_released"].encode(), move.named | changes)

    def _is_still(self, move: Move) -> bool:
        """Whether it is as it was read, now that its tenant is locked: an operator's word may have come between."""
        row = self._control.execute(SQL["move_locked"].encode(), move.named).fetchone()
        return row == (move.state, move.fenced, move.generation, move.placement_id, move.served_mismatches)

    def left(self, move: Move, placement_id: str) -> int:
        """How many images are on their way there."""
        asked = {"tenant_id": move.tenant_id, "placement_id": placement_id}
        (count,) = self._control.execute(SQL["feed_left"].encode(), asked).fetchone() or (0,)
        return int(count)

    def place(self, move: Move, placement_id: str) -> Place:
        """One of its places, under its generation."""
        row = self._control.execute(SQL["placement"].encode(), {"placement_id": placement_id}).fetchone()
        if row is None:
            raise errors.NotFound
        return Place(
            tenant_id=move.tenant_id,
            generation=move.generation,
            placement_id=placement_id,
            mode=row[1],
            shard_or_database=row[2],
        )


def _move(row: tuple[Any, ...]) -> Move:
    return Move(**dict(zip(Move.__struct_fields__, row, strict=True)))
