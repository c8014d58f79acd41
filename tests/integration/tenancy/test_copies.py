"""Pages of a copy: as fast as the move may on the average, whatever else the mover does; and what waits for no disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec import structs

from dataflows.tenancy.mover.copying import Copies
from dataflows.tenancy.mover.open_moves import OpenMoves
from schemas.tenancy import limits
from tests.worlds.mover_world import POOL, world

if TYPE_CHECKING:
    from dataflows.tenancy.mover.open_moves import Move
    from tests.worlds.mover_world import MoverWorld

__all__ = ["world"]  # the fixture of this module
pytestmark = [pytest.mark.servers]
ROWS_PER_SECOND = 20
PAGE = ROWS_PER_SECOND // limits.MOVE_PAGES_PER_SECOND
COPIED = "select rows_copied from tenant_migration where tenant_id = %s"


class Copying:
    """One move that is copied into a schema of the tenant's own, on a clock that the test turns."""

    def __init__(self, world: MoverWorld, name: str, rows: int, mode: str = "partitioned") -> None:
        self._world, self.now_s = world, 1_000.0
        self.tenant = world.tenant(name, rows)
        world.move(self.tenant, "copying", POOL, world.own_store(self.tenant, f"pl_{name}", mode))
        self._open = OpenMoves(world.control, lambda: 1)
        move = self._move()
        self.source, self.target = (self._open.place(move, place) for place in (move.source, move.target))
        world.places.make(self.target)
        self._copies = Copies(world.places, lambda: self.now_s)

    def look(self) -> int:
        """How many rows were copied before the next page is not due, or none is left."""
        before = self.copied()
        while self._copies.may_go_on(move := self._move()):
            if not self._copies.copy_page(move, self.source, self.target, 1):
                break
        return self.copied() - before

    def copied(self) -> int:
        """By all looks."""
        return int(self._world.one(COPIED, self.tenant)[0])

    def _move(self) -> Move:
        (found,) = [move for move in self._open.read() if move.tenant_id == self.tenant]
        return structs.replace(found, rows_per_second=ROWS_PER_SECOND)


def test_a_mover_that_looks_seldom_copies_as_fast_as_the_move_may(world: MoverWorld) -> None:
    """Its look comes a moment after a page is due, each time: that is made up for."""
    copying, looks, between_s = Copying(world, "tn_seldom", 100), 10, 0.3
    for _ in range(looks):
        copying.look()
        copying.now_s += between_s
    may = looks * between_s * ROWS_PER_SECOND
    assert may - PAGE <= copying.copied() <= may + PAGE


def test_after_a_long_pause_no_more_than_a_page_is_made_up_for(world: MoverWorld) -> None:
    copying = Copying(world, "tn_paused", 100)
    assert copying.look() == 2 * PAGE
    copying.now_s += 3_600
    assert copying.look() == 2 * PAGE
    copying.now_s += PAGE / ROWS_PER_SECOND
    assert copying.look() == PAGE


@pytest.mark.parametrize("mode", ["partitioned", "dedicated"])
def test_only_the_commits_of_the_copy_go_without_the_disk(world: MoverWorld, mode: str) -> None:
    """What the same sessions commit next, as the end of a move, is kept when it is said; with it all that was before."""
    copying = Copying(world, f"tn_{mode}", PAGE, mode)
    assert copying.look() == PAGE
    for session in {world.control, world.places.connection(copying.target)}:
        assert session.execute("show synchronous_commit").fetchone() == ("on",)
