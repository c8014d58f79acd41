"""Moves, one state further at a time.

Until the commit the source serves, and the target may be thrown away; after it the target serves, and the source is
kept up to date until it is emptied. The commit is one compare-and-set of the tenant's generation, under the lock that
every write of the tenant takes: so a write is before it, or after it, and never in both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog

from dataflows.owner import fail_points
from dataflows.tenancy.mover import feeding
from dataflows.tenancy.mover.copying import Copies
from dataflows.tenancy.mover.each import each
from dataflows.tenancy.mover.open_moves import Move, OpenMoves
from dataflows.tenancy.mover.verifying import Verifications
from schemas import errors
from schemas.tenancy import limits
from sinks.postgres.sql_files import queries

if TYPE_CHECKING:
    from collections.abc import Callable

    from dataflows.tenancy.mover.tenant_rows import Places

SQL: Final = queries("dataflows.tenancy.mover", "mover.sql")
_SECOND_US: Final = 1_000_000
_READS_DIFFER: Final = "callers read what the target has otherwise"
_SOURCE_GONE: Final = "the database of the source is gone: there is no way back"
_log: Final = structlog.get_logger(__name__)


class Moves:
    """Takes every open move further."""

    def __init__(self, places: Places, now_us: Callable[[], int]) -> None:
        self._places = places
        self._control = places.control
        self._now_us = now_us
        self._open = OpenMoves(places.control, now_us)
        self._copies = Copies(places)
        self._verifications = Verifications(places)
        self._passes: dict[str, int] = {}
        self.are_open = False  # whether any was, when they were last read
        self._steps: dict[str, Callable[[Move, int], bool]] = {
            "planned": self._prepare,
            "prepared": lambda move, now: self._open.to(move, "copying", now),
            "copying": self._copy,
            "catching_up": self._catch_up,
            "verifying": self._verify,
            "fencing": self._commit,
            "committed": self._soak,
            "soaking": self._complete,
            "aborting": self._abort,
            "rolling_back": self._roll_back,
        }

    def further(self) -> bool:
        """One step of each; whether any was done. What fails of one does not stop the others."""
        moves = self._open.read()
        self.are_open = bool(moves)
        return each(self._places, "move", moves, self._further)

    def _further(self, move: Move) -> bool:
        """One step; from a fence on every one up to its end, as writes wait: nothing else is done in between."""
        done = False
        while True:
            stepped = self._step(move)
            if stepped:
                fail_points.reach("move_after_step")
            done = done or stepped
            if not (stepped or move.fenced):
                return done
            fenced = self._open.fenced_still(move)
            if fenced is None:
                return done
            move = fenced
            brought = [feeding.bring_to(self._places, placement_id) for placement_id in (move.source, move.target)]
            if not (stepped or any(brought)):
                return done
            done = True

    def _step(self, move: Move) -> bool:
        step = self._steps.get(move.state)
        return step is not None and step(move, self._now_us())

    # --- before the commit -----------------------------------------------------------------------------------

    def _prepare(self, move: Move, now: int) -> bool:
        """The target is there, and gets every image from this commit on; older ones are with the source by then."""
        target = self._open.place(move, move.target)
        self._places.make(target)
        self._places.open_gate(target, move.generation)
        return self._open.to(move, "prepared", now)

    def _copy(self, move: Move, now: int) -> bool:
        """The next page, when it is due."""
        if not self._copies.may_go_on(move):
            return False
        source, target = self._open.place(move, move.source), self._open.place(move, move.target)
        return self._copies.copy_page(move, source, target, now) or self._open.to(move, "catching_up", now)

    def _catch_up(self, move: Move, now: int) -> bool:
        """Images that came while it was copied are there, but for the newest."""
        return self._open.left(move, move.target) <= limits.MOVE_CATCH_UP_ROWS_MAX and self._open.to(
            move, "verifying", now
        )

    def _verify(self, move: Move, now: int) -> bool:
        """Compares all rows; what only lags is looked at again, what is wrong ends the move."""
        if move.served_mismatches:
            return self._give_up(move, _READS_DIFFER, now)
        source, target = self._open.place(move, move.source), self._open.place(move, move.target)
        found = self._verifications.all_rows(move, source, target, now)
        passes = self._passes[move.migration_id] = self._passes.get(move.migration_id, 0) + 1
        if found.is_wrong or passes > limits.MOVE_PASSES_MAX:
            return self._give_up(move, "the sides differ", now)
        if (
            found.missing <= limits.MOVE_CATCH_UP_ROWS_MAX
            and self._open.left(move, move.target) <= limits.MOVE_CATCH_UP_ROWS_MAX
        ):
            fail_points.reach("move_before_fence")
            return self._open.fence(move, "fencing")
        return True

    # --- the commit ------------------------------------------------------------------------------------------

    def _commit(self, move: Move, now: int) -> bool:
        """Under the fence: both sides equal, then the pointer. Past its time the fence is given up."""
        if _is_over(move, now):
            return self._give_up(move, "the fence lasted too long", now)
        if move.served_mismatches:
            return self._give_up(move, _READS_DIFFER, now)
        source, target = self._open.place(move, move.source), self._open.place(move, move.target)
        if self._open.left(move, move.target) or self._open.left(move, move.source):
            return False
        found = self._verifications.changed_rows(move, source, target, now)
        if found.is_wrong:
            return self._give_up(move, "the sides differ under the fence", now)
        if not found.is_equal:
            return False
        fail_points.reach("move_before_commit")
        soak_s = limits.MOVE_SOAK_S if move.soak_s is None else move.soak_s
        soaks_until = now + soak_s * _SECOND_US
        if self._open.placed(move, "committed", move.target, now, soaks_until=soaks_until):
            fail_points.reach("move_after_commit")
        return True

    def _soak(self, move: Move, now: int) -> bool:
        """Older contexts are refused at a source of its own, too; then the soak begins."""
        source = self._open.place(move, move.source)
        if not self._places.is_gone(source):
            self._places.open_gate(source, move.generation)
        return self._open.to(move, "soaking", now)

    def _give_up(self, move: Move, reason: str, now: int, state: str = "aborting") -> bool:
        _log.warning("move_given_up", migration_id=move.migration_id, reason=reason)
        self._control.execute(SQL["move_reason"].encode(), move.named | {"reason": reason})
        return self._open.to(move, state, now)

    # --- ends ------------------------------------------------------------------------------------------------

    def _abort(self, move: Move, now: int) -> bool:
        """The source serves on; where a fence was up, under a generation that nobody had."""
        if move.fenced:
            return self._open.placed(move, "aborting", move.source, now)
        self._empty(move, move.target)
        return self._open.to(move, "aborted", now)

    def _roll_back(self, move: Move, now: int) -> bool:
        """The same as the move, backwards; in the end the target is emptied."""
        if move.placement_id == move.source:
            self._places.open_gate(self._open.place(move, move.source), move.generation)
            self._empty(move, move.target)
            return self._open.to(move, "rolled_back", now)
        if not move.fenced:
            return self._begin_way_back(move, now)
        if _is_over(move, now):  # the target serves on, and may be left another time
            return self._open.placed(move, "soaking", move.target, now)
        if self._open.left(move, move.source) or self._open.left(move, move.target):
            return False
        source, target = self._open.place(move, move.source), self._open.place(move, move.target)
        found = self._verifications.changed_rows(move, target, source, now)
        if not found.is_equal:
            raise errors.Unavailable("The sides of a move that is rolled back differ.", move=move.migration_id)
        return self._open.placed(move, "rolling_back", move.source, now)

    def _begin_way_back(self, move: Move, now: int) -> bool:
        """Up to the fence. The target serves on where the source is not there any more, as where a fence was over."""
        source = self._open.place(move, move.source)
        if self._places.is_gone(source):
            return self._give_up(move, _SOURCE_GONE, now, "soaking")
        if self._open.left(move, move.source) > limits.MOVE_CATCH_UP_ROWS_MAX:
            return False
        self._verifications.all_rows(move, self._open.place(move, move.target), source, now)
        return self._open.fence(move, move.state)

    def _complete(self, move: Move, now: int) -> bool:
        """When it has soaked long enough, or an operator says so, no row is left at the source."""
        if not move.closing:
            if move.soaks_until is None or now < move.soaks_until:
                return False
            return self._open.close(move, now)
        self._empty(move, move.source)
        return self._open.to(move, "completed", now)

    def _empty(self, move: Move, placement_id: str) -> None:
        """No row, and no image on its way, is left there. The store that serves the tenant is never touched."""
        place = self._open.place(move, placement_id)
        if place.rows_in == self._places.serving(move.tenant_id).rows_in:
            _log.warning("move_store_serves", migration_id=move.migration_id, placement_id=placement_id)
            return
        self._control.execute(SQL["feed_dropped"].encode(), move.named | {"placement_id": placement_id})
        self._places.empty(place)
        self._control.execute(SQL["placement_retired"].encode(), {"placement_id": placement_id})


def _is_over(move: Move, now: int) -> bool:
    """Whether its fence has lasted as long as one may: a tenant must not wait for a database that is away."""
    return move.fence_until is not None and now > move.fence_until
