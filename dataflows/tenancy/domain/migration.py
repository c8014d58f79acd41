"""Decides commands on a move. The mover takes it further, one state after the other. Pure."""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct, structs

from dataflows.tenancy.domain.tenant import POOLED_SCHEMA, Placement, Tenant, conflict, placement_of
from schemas.records import Denial, Rejection

#: states in which the target gets every image, from the commit that prepared it
TO_TARGET: Final = frozenset({"prepared", "copying", "catching_up", "verifying", "fencing"})
#: states in which the source gets every image, until it is emptied or serves again
TO_SOURCE: Final = frozenset({"committed", "soaking", "rolling_back"})
ABORTABLE: Final = frozenset({"planned", *TO_TARGET})
OVER: Final = frozenset({"completed", "aborted", "rolled_back"})
MOVING: Final = Denial("unavailable", "The tenant is being moved; try again with the same identity.")


class Migration(Struct, frozen=True, kw_only=True):
    """A move, as far as commands see it."""

    tenant_id: str
    migration_id: str
    state: str
    source: str
    target: str
    from_generation: int
    to_generation: int | None
    rows_per_second: int
    fenced: bool
    closing: bool
    soaks_until: int | None
    version: int
    created_at: int
    updated_at: int
    # what the mover has counted by then: told with an answer, and written by nobody but the mover
    rows_copied: int = 0
    rows_verified: int = 0
    mismatches: int = 0
    dual_match: int = 0
    dual_target_behind: int = 0
    dual_missing: int = 0
    dual_diff: int = 0
    dual_target_ahead: int = 0

    def further_placement(self, serving: str) -> str | None:
        """The placement that gets images beside the serving one, if any."""
        if self.closing:
            return None
        if self.state in TO_TARGET:
            return self.target
        return self.source if self.state in TO_SOURCE and serving == self.target else None


def target_of(
    asked: dict[str, str], tenant: Tenant, serving: Placement, migration_id: str, pool: str = POOLED_SCHEMA
) -> Placement | Rejection:
    """The target of a move: in the present region unless another is named, and never where the rows are.

    ``pool``: the schema that a pooled one is in.
    """
    target = placement_of(asked, tenant.tenant_id, migration_id, region_otherwise=serving.region, pool=pool)
    if target.placement_id == serving.placement_id:
        return conflict(tenant, "it is in that placement already")
    if target.rows_in == serving.rows_in:  # the pools of all regions are one
        return conflict(tenant, "its rows are in the store of that placement already")
    return target


def planned(tenant: Tenant, target: Placement, migration_id: str, rows_per_second: int, now: int) -> Migration:
    """A new move."""
    return Migration(
        tenant_id=tenant.tenant_id,
        migration_id=migration_id,
        state="planned",
        source=tenant.placement_id,
        target=target.placement_id,
        from_generation=tenant.generation,
        to_generation=None,
        rows_per_second=rows_per_second,
        fenced=False,
        closing=False,
        soaks_until=None,
        version=1,
        created_at=now,
        updated_at=now,
    )


def told(migration: Migration, verb: str, now: int) -> Migration | Rejection:
    """An open move after an operator's command."""
    state = migration.state
    if verb == "abort_migration" and state in ABORTABLE:
        return _changed(migration, now, state="aborting")
    if state == "soaking" and not migration.closing:
        if verb == "rollback_migration":
            return _changed(migration, now, state="rolling_back")
        if verb == "complete_migration":
            return _changed(migration, now, closing=True)
    return refused(state, is_closing=migration.closing)


def refused(state: str, *, is_closing: bool = False) -> Rejection:
    """The refusal of a command in this state of a move; a move that is over takes none."""
    told: dict[str, object] = {"state": state, "current_state": state}
    return Rejection("state_conflict", f"The move is {state}: {_may(state, is_closing)}.", told)


def _may(state: str, is_closing: bool) -> str:
    if state in ABORTABLE:
        return "it may be aborted now, and rolled back or completed when it soaks"
    if state == "soaking":
        return "it is being completed" if is_closing else "it may be rolled back or completed now"
    return "that is over" if state in OVER else "wait for what it becomes"


def _changed(migration: Migration, now: int, **changes: Any) -> Migration:
    return structs.replace(migration, version=migration.version + 1, updated_at=now, **changes)
