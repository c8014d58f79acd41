"""Moves, one state further at a time. What is written in ``tenant_migration`` is all that a mover knows of one.

Until the commit the source serves, and the target may be thrown away; after it the target serves, and the source is
kept up to date until it is emptied. The commit is one compare-and-set of the tenant's generation, under the lock that
every write of the tenant takes: so a write is before it, or after it, and never in both.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

import structlog
from msgspec import Struct

from dataflows.owner import fail_points
from dataflows.tenancy.domain.comparison import Comparison
from dataflows.tenancy.mover import feeding
from dataflows.tenancy.mover.comparing import compare, compare_again
from dataflows.tenancy.mover.each import each
from dataflows.tenancy.mover.tenant_rows import Place
from schemas import errors, limits
from schemas.tenancy import limits as tenancy_limits
from sinks.postgres.sql_files import queries

if TYPE_CHECKING:
    from collections.abc import Callable
    from decimal import Decimal

    from dataflows.tenancy.mover.tenant_rows import Places

SQL: Final = queries("dataflows.tenancy.mover", "mover.sql")
_SECOND_US: Final = 1_000_000
_READS_DIFFER: Final = "callers read what the target has otherwise"
_SOURCE_GONE: Final = "the database of the source is gone: there is no way back"
_log: Final = structlog.get_logger(__name__)


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
    copied_after: str
    served_mismatches: int
    generation: int
    placement_id: str

    @property
    def named(self) -> dict[str, Any]:
        """Its key."""
        return {"tenant_id": self.tenant_id, "migration_id": self.migration_id}


class Verified(Struct, frozen=True):
    """A comparison of all rows: it speaks for what was not written since, but for what it found unlike."""

    since: int
    unlike: set[str]


class Moves:
    """Takes every open move further."""

    def __init__(self, places: Places, now_us: Callable[[], int]) -> None:
        self._places = places
        self._control = places.control
        self._now_us = now_us
        self._copies_at: dict[str, float] = {}  # when the next page of a copy is due
        self._fed_before: dict[str, int] = {}  # the newest image of the source when a copy was first looked at
        self._passes: dict[str, int] = {}
        self._verified: dict[str, Verified] = {}  # a mover that starts has none: it compares all rows again
        self.are_open = False  # whether any was, when they were last read
        self._steps: dict[str, Callable[[Move, int], bool]] = {
            "planned": self._prepare,
            "prepared": lambda move, now: self._to(move, "copying", now),
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
        rows = self._control.execute(SQL["moves_open"].encode(), {"limit": tenancy_limits.MOVER_ITEMS_MAX}).fetchall()
        moves = [_move(row) for row in rows]
        self.are_open = bool(moves)
        return each(self._places, "move", moves, self._further)

    def _further(self, move: Move) -> bool:
        """One step; from a fence on every one up to its end, as writes wait: nothing else is done in between."""
        done = False
        while True:
            stepped = self._step(move)
            done = done or stepped
            if not (stepped or move.fenced):
                return done
            row = self._control.execute(SQL["move_fenced_still"].encode(), move.named).fetchone()
            if row is None:
                return done
            move = _move(row)
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
        target = self._place(move, move.target)
        self._places.make(target)
        self._places.open_gate(target, move.generation)
        return self._to(move, "prepared", now)

    def _copy(self, move: Move, now: int) -> bool:
        """The next page: the newest version wins at the target, so a page that is copied twice harms nothing."""
        clock = time.monotonic()
        if clock < self._copies_at.get(move.migration_id, 0):
            return False
        source, target = self._place(move, move.source), self._place(move, move.target)
        if not move.copied_after and self._waits_from_before(move):
            return False
        per_page = max(
            1, min(tenancy_limits.MOVE_PAGE_ROWS, move.rows_per_second // tenancy_limits.MOVE_PAGES_PER_SECOND)
        )
        rows = self._places.rows_after(source, move.copied_after, per_page)
        if not rows:
            return self._to(move, "catching_up", now)
        self._places.apply(target, rows)
        fail_points.reach("move_after_page")
        copied = {"after": rows[-1][0], "rows": len(rows), "now": now}
        self._control.execute(SQL["move_copied"].encode(), move.named | copied)
        self._copies_at[move.migration_id] = clock + len(rows) / move.rows_per_second
        return True

    def _waits_from_before(self, move: Move) -> bool:
        """Whether images from before the target was prepared are not in the source's rows yet, which are copied.

        Later ones go to both sides: a tenant that never stops writing is copied all the same.
        """
        waits = {"tenant_id": move.tenant_id, "placement_id": move.source}
        if move.migration_id not in self._fed_before:
            (newest,) = self._control.execute(SQL["feed_newest"].encode(), waits).fetchone() or (0,)
            self._fed_before[move.migration_id] = newest
        upto = {"upto": self._fed_before[move.migration_id]}
        return self._control.execute(SQL["feed_left_upto"].encode(), waits | upto).fetchone() == (True,)

    def _catch_up(self, move: Move, now: int) -> bool:
        """Images that came while it was copied are there, but for the newest."""
        return self._left(move, move.target) <= tenancy_limits.MOVE_CATCH_UP_ROWS_MAX and self._to(
            move, "verifying", now
        )

    def _verify(self, move: Move, now: int) -> bool:
        """Compares all rows; what only lags is looked at again, what is wrong ends the move."""
        if move.served_mismatches:
            return self._give_up(move, _READS_DIFFER, now)
        found = self._compared(move, self._place(move, move.source), self._place(move, move.target), now)
        passes = self._passes[move.migration_id] = self._passes.get(move.migration_id, 0) + 1
        if found.is_wrong or passes > tenancy_limits.MOVE_PASSES_MAX:
            return self._give_up(move, "the sides differ", now)
        if (
            found.missing <= tenancy_limits.MOVE_CATCH_UP_ROWS_MAX
            and self._left(move, move.target) <= tenancy_limits.MOVE_CATCH_UP_ROWS_MAX
        ):
            fail_points.reach("move_before_fence")
            return self._fence(move, "fencing")
        return True

    def _fence(self, move: Move, state: str) -> bool:
        """No write of the tenant is decided from this commit on, whoever its owner is."""
        with self._control.transaction():
            if not self._is_still(move):
                return False
            now = self._now_us()  # all rows were compared meanwhile, for however long
            until = now + tenancy_limits.MOVE_FENCE_S * _SECOND_US
            self._control.execute(
                SQL["move_fenced"].encode(), move.named | {"state": state, "until": until, "now": now}
            )
            self._control.execute(SQL["gate_fenced"].encode(), {"tenant_id": move.tenant_id})
        return True

    # --- the commit ------------------------------------------------------------------------------------------

    def _commit(self, move: Move, now: int) -> bool:
        """Under the fence: both sides equal, then the pointer. Past its time the fence is given up."""
        if _is_over(move, now):
            return self._give_up(move, "the fence lasted too long", now)
        if move.served_mismatches:
            return self._give_up(move, _READS_DIFFER, now)
        source, target = self._place(move, move.source), self._place(move, move.target)
        if self._left(move, move.target) or self._left(move, move.source):
            return False
        found = self._compared_again(move, source, target, now)
        if found.is_wrong:
            return self._give_up(move, "the sides differ under the fence", now)
        if not found.is_equal:
            return False
        fail_points.reach("move_before_commit")
        soaks_until = now + tenancy_limits.MOVE_SOAK_S * _SECOND_US
        if self._placed(move, "committed", move.target, now, soaks_until=soaks_until):
            fail_points.reach("move_after_commit")
        return True

    def _soak(self, move: Move, now: int) -> bool:
        """Older contexts are refused at a source of its own, too; then the soak begins."""
        source = self._place(move, move.source)
        if not self._places.is_gone(source):
            self._places.open_gate(source, move.generation)
        return self._to(move, "soaking", now)

    def _give_up(self, move: Move, reason: str, now: int, state: str = "aborting") -> bool:
        _log.warning("move_given_up", migration_id=move.migration_id, reason=reason)
        self._control.execute(SQL["move_reason"].encode(), move.named | {"reason": reason})
        return self._to(move, state, now)

    # --- ends ------------------------------------------------------------------------------------------------

    def _abort(self, move: Move, now: int) -> bool:
        """The source serves on; where a fence was up, under a generation that nobody had."""
        if move.fenced:
            return self._placed(move, "aborting", move.source, now)
        self._empty(move, move.target)
        return self._to(move, "aborted", now)

    def _roll_back(self, move: Move, now: int) -> bool:
        """The same as the move, backwards; in the end the target is emptied."""
        if move.placement_id == move.source:
            self._places.open_gate(self._place(move, move.source), move.generation)
            self._empty(move, move.target)
            return self._to(move, "rolled_back", now)
        if not move.fenced:
            return self._begin_way_back(move, now)
        if _is_over(move, now):  # the target serves on, and may be left another time
            return self._placed(move, "soaking", move.target, now)
        if self._left(move, move.source) or self._left(move, move.target):
            return False
        found = self._compared_again(move, self._place(move, move.target), self._place(move, move.source), now)
        if not found.is_equal:
            raise errors.Unavailable("The sides of a move that is rolled back differ.", move=move.migration_id)
        return self._placed(move, "rolling_back", move.source, now)

    def _begin_way_back(self, move: Move, now: int) -> bool:
        """Up to the fence. The target serves on where the source is not there any more, as where a fence was over."""
        source = self._place(move, move.source)
        if self._places.is_gone(source):
            return self._give_up(move, _SOURCE_GONE, now, "soaking")
        if self._left(move, move.source) > tenancy_limits.MOVE_CATCH_UP_ROWS_MAX:
            return False
        self._compared(move, self._place(move, move.target), source, now)
        return self._fence(move, move.state)

    def _complete(self, move: Move, now: int) -> bool:
        """When it has soaked long enough, or an operator says so, no row is left at the source."""
        if not move.closing:
            if move.soaks_until is None or now < move.soaks_until:
                return False
            with self._control.transaction():
                if not self._is_still(move):
                    return False
                self._release(move, "soaking", now, closing=True)
            return True
        self._empty(move, move.source)
        return self._to(move, "completed", now)

    def _empty(self, move: Move, placement_id: str) -> None:
        """No row, and no image on its way, is left there. The store that serves the tenant is never touched."""
        place = self._place(move, placement_id)
        if place.rows_in == self._places.serving(move.tenant_id).rows_in:
            _log.warning("move_store_serves", migration_id=move.migration_id, placement_id=placement_id)
            return
        self._control.execute(SQL["feed_dropped"].encode(), move.named | {"placement_id": placement_id})
        self._places.empty(place)
        self._control.execute(SQL["placement_retired"].encode(), {"placement_id": placement_id})

    # --- what they share -------------------------------------------------------------------------------------

    def _placed(self, move: Move, state: str, placement_id: str, now: int, soaks_until: int | None = None) -> bool:
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

    def _to(self, move: Move, state: str, now: int) -> bool:
        with self._control.transaction():
            if not self._is_still(move):
                return False
            self._control.execute(SQL["move_state"].encode(), move.named | {"state": state, "now": now})
        return True

    def _left(self, move: Move, placement_id: str) -> int:
        asked = {"tenant_id": move.tenant_id, "placement_id": placement_id}
        (count,) = self._control.execute(SQL["feed_left"].encode(), asked).fetchone() or (0,)
        return int(count)

    def _place(self, move: Move, placement_id: str) -> Place:
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

    def _compared(self, move: Move, source: Place, target: Place, now: int) -> Comparison:
        """All rows. What is written from now on is looked at again under the fence, however the owner's clock goes."""
        compared = compare(self._places, source, target)
        self._verified[move.migration_id] = Verified(now - limits.CLOCK_SKEW_MAX_S * _SECOND_US, compared.unlike)
        sums = {source.placement_id: compared.source_sum, target.placement_id: compared.target_sum}
        digests = {"source_digest": _hex(sums[move.source]), "target_digest": _hex(sums[move.target])}
        self._control.execute(SQL["move_digests"].encode(), move.named | digests)
        return self._noted(move, compared.found, now)

    def _compared_again(self, move: Move, source: Place, target: Place, now: int) -> Comparison:
        """Under the fence: what changed since all rows were compared. All of them where another mover did that."""
        verified = self._verified.get(move.migration_id)
        if verified is None:
            return self._compared(move, source, target, now)
        compared = compare_again(self._places, source, target, verified.since, verified.unlike)
        return self._noted(move, compared.found, now)

    def _noted(self, move: Move, found: Comparison, now: int) -> Comparison:
        counts = {name: getattr(found, name) for name in found.__struct_fields__}
        self._control.execute(
            SQL["move_compared"].encode(), move.named | counts | {"verified": found.match, "now": now}
        )
        return found


def _move(row: tuple[Any, ...]) -> Move:
    return Move(**dict(zip(Move.__struct_fields__, row, strict=True)))


def _hex(total: Decimal) -> str:
    """A sum as people compare it."""
    return f"{int(total) % 2**64:016x}"


def _is_over(move: Move, now: int) -> bool:
    """Whether its fence has lasted as long as one may: a tenant must not wait for a database that is away."""
    return move.fence_until is not None and now > move.fence_until
