"""The tenants of one batch: each command of them decided in memory, and what changed kept for one write."""

from __future__ import annotations

from typing import Any, Final

from msgspec import structs

from dataflows.owner.batch import Statement
from dataflows.owner.service import MISROUTED, Committed, NewEvent
from dataflows.tenancy.changes import Changes, Image, KeyChange
from dataflows.tenancy.desk import DeskWorkspace
from dataflows.tenancy.domain import capacity, entitled, history, migration, resource, tenant
from dataflows.tenancy.domain.billing_run import DeskTenant
from dataflows.tenancy.domain.capacity import Store
from dataflows.tenancy.domain.migration import Migration
from dataflows.tenancy.domain.resource import Head
from dataflows.tenancy.domain.tenant import Placement, Tenant
from dataflows.tenancy.known import Known
from dataflows.tenancy.owner_costs import OwnerCosts
from schemas.records import Command, Denial, Rejection
from schemas.refusals import stale
from schemas.tenancy import limits
from schemas.tenancy.desk_operations import DESK, DESK_OPERATIONS, OPENS_A_GRANT
from schemas.tenancy.operations import OPERATIONS, made_id, scope_of
from schemas.tenancy.rendering import export_document, migration_document, tenant_document
from schemas.topics import partition_for
from sinks.tenancy import seals

_NOT_FOUND: Final = Rejection("not_found", "No such object.")
_EXISTS: Final = Rejection("state_conflict", "The tenant exists already.")
_KEYS_AWAY: Final = Denial("unavailable", "The keys of this tenant are not at hand; try again with the same identity.")
_SEALED_BEFORE: Final = Denial("unavailable", "It is sealed under a closed key; send it again with the same identity.")
_CLOSED: Final = "closed"  # a key under which nothing is written any more
_SHREDDED: Final = Denial("key_shredded", "The keys of this data were destroyed; nobody can read it again.")
RESOURCES: Final = frozenset({"create_resource", "replace_resource", "delete_resource"})
TOLD: Final = frozenset({"abort_migration", "rollback_migration", "complete_migration"})
_MAKES: Final = frozenset(o.name for o in (*OPERATIONS, *DESK_OPERATIONS) if o.creates)
_OF_ITS_PARTS: Final = TOLD | {name for name in DESK if name not in _MAKES}  # what has versions of its own


class TenancyWorkspace:
    """The tenants of one batch in memory."""

    def __init__(
        self, partition: int, known: Known, changes: Changes, of_desk: DeskWorkspace, costs: OwnerCosts
    ) -> None:
        self._partition = partition
        self._desk = of_desk
        self._known = known
        self._changes = changes
        self._costs = costs
        changes.read(known.tenants, known.heads, known.migrations)

    def decide(self, command: Command, offset: int, now: int) -> Committed | Rejection:  # noqa: D102 - of Workspace
        del offset
        if partition_for(command.aggregate_key, limits.TENANCY_PARTITIONS) != self._partition:
            return MISROUTED
        self._costs.heard(command.aggregate_key)
        if command.operation in RESOURCES:
            return self._resource(command, now)
        if command.operation == "create_tenant":
            return self._create(command, now)
        found = self._known.tenants.get(command.aggregate_key)
        if found is None:
            return _NOT_FOUND
        if refused := _stale(found, command):
            return refused
        by_operation = {
            "rotate_tenant_key": self._keys,
            "shred_tenant_keys": self._keys,
            "start_migration": self._move,
            "export_tenant": self._export,
            **dict.fromkeys(TOLD, self._told),
            **dict.fromkeys(DESK, self._at_desk),
        }
        return by_operation.get(command.operation, self._life)(found, command, now)

    def writes(self) -> list[Statement]:  # noqa: D102 - as Workspace says
        return [*self._changes.statements(), *self._desk.writes(), *self._costs.due()]

    def committed(self) -> None:
        """Nothing of tenants is remembered, but what they cost."""
        self._costs.committed()

    def _at_desk(self, found: Tenant, command: Command, now: int) -> Committed | Rejection:
        if command.operation in OPENS_A_GRANT and found.state in ("deleting", "deleted"):
            return tenant.conflict(found, "there is nothing to look at")
        terms = DeskTenant(found.tenant_id, found.tier, found.home_currency, found.prices)
        decided = self._desk.decide(terms, command, now)
        return decided if isinstance(decided, Rejection) else Committed(decided, (self._event(found),))

    def _create(self, command: Command, now: int) -> Committed | Rejection:
        if command.aggregate_key in self._known.tenants:
            return _EXISTS
        if refused := stale(command.expected_version, 0):
            return refused
        asked: Any = command.payload["placement"]
        room = capacity.chosen(self._known.stores.values(), asked["mode"])
        if isinstance(room, Denial):
            return room
        self._take(room)
        placement = tenant.placement_of(asked, command.aggregate_key, "1", pool=room.store)
        made = tenant.created(command, placement, now)
        self._known.placements[placement.placement_id] = placement
        self._known.keys[made.tenant_id] = {1: "active"}
        self._changes.placements[placement.placement_id] = placement
        self._changes.keys.append(KeyChange(made.tenant_id, "new", 1, now))
        return self._tenant(made, command)

    def _life(self, found: Tenant, command: Command, now: int) -> Committed | Rejection:
        decided: Tenant | Rejection
        match command.operation:
            case "change_tenant":
                decided = tenant.changed(found, command, now)
                if isinstance(decided, Tenant) and decided.tier != found.tier:
                    self._desk.of_tier(decided.tenant_id, decided.tier, now)
            case "suspend_tenant":
                decided = tenant.suspended(found, command, now)
            case "resume_tenant":
                decided = tenant.resumed(found, now)
            case "offboard_tenant":
                decided = tenant.offboarded(found, command, now)
            case "delete_tenant" if found.tenant_id not in self._known.migrations:
                is_shredded = self._known.is_shredded(found.tenant_id)
                decided = tenant.deleting(found, command, now, is_shredded=is_shredded)
            case "delete_tenant":
                decided = tenant.conflict(found, "complete, roll back or abort its move first")
            case _:
                return Rejection("not_found", "There is no such operation.")
        return decided if isinstance(decided, Rejection) else self._tenant(decided, command)

    def _tenant(self, after: Tenant, by: Command | None = None) -> Committed:
        """``by``: what changed more of it than its version."""
        if by is not None and (row := history.noted(self._known.tenants.get(after.tenant_id), after, by)) is not None:
            self._changes.history.append(row)
        self._known.tenants[after.tenant_id] = after
        self._changes.tenants[after.tenant_id] = after
        placement = self._known.placements[after.placement_id]
        document = tenant_document(structs.asdict(after) | _where(placement))
        return Committed(document, (self._event(after),))

    def _keys(self, found: Tenant, command: Command, now: int) -> Committed | Rejection:
        if self._known.is_shredded(found.tenant_id):
            return _SHREDDED
        if found.state in ("deleting", "deleted"):
            return tenant.conflict(found, "its keys change no more")
        if (keys := self._known.keys.get(found.tenant_id)) is None:
            return _KEYS_AWAY
        after = tenant.touched(found, now)
        if command.operation == "shred_tenant_keys":
            newest = max(keys)
            self._known.keys[found.tenant_id] = dict.fromkeys(keys, "destroyed")
            self._changes.keys.append(KeyChange(found.tenant_id, "destroy", newest, now))
        else:
            newest = max(keys) + 1
            self._known.keys[found.tenant_id] = _opening(keys) | {newest: "active"}
            self._changes.keys.append(KeyChange(found.tenant_id, "new", newest, now))
        self._tenant(after)
        result = {"tenant_id": after.tenant_id, "key_version": newest, "version": after.version}
        return Committed(result, (self._event(after),))

    def _move(self, found: Tenant, command: Command, now: int) -> Committed | Rejection:
        payload: dict[str, Any] = command.payload
        if found.tenant_id in self._known.migrations:
            return tenant.conflict(found, "it is being moved already; complete, roll back or abort that move first")
        if found.state in ("provisioning", "deleting", "deleted"):
            return tenant.conflict(found, "it cannot be moved")
        if self._known.is_shredded(found.tenant_id):
            return _SHREDDED
        id_ = made_id("mg", "start_migration", command.scope, command.idempotency_key)
        serving = self._known.placements[found.placement_id]
        others = capacity.others(self._known.stores.values(), payload["placement"]["mode"], serving.shard_or_database)
        room = capacity.chosen(others, payload["placement"]["mode"]) if others else None
        if isinstance(room, Denial):
            return room
        pool = room.store if room else tenant.POOLED_SCHEMA
        target = migration.target_of(payload["placement"], found, serving, id_, pool)
        if isinstance(target, Rejection):
            return target
        if room is not None:
            self._take(room)
        made = migration.planned(found, target, id_, payload["rows_per_second"], now)
        self._changes.placements[target.placement_id] = target
        return self._moved(found, made, now)

    def _take(self, room: Store) -> None:
        """One place of a store; whether it was the last one of all partitions, the write finds out."""
        taken = structs.replace(room, tenants=room.tenants + 1)
        self._known.stores[room.store] = self._changes.stores[room.store] = taken

    def _told(self, found: Tenant, command: Command, now: int) -> Committed | Rejection:
        id_ = str(command.payload["migration_id"])
        known = self._known.migrations.get(found.tenant_id)
        if known is None or known.migration_id != id_:
            was = self._known.migrations_known.get((found.tenant_id, id_))
            if was is None:
                return _NOT_FOUND
            state, version = was
            return stale(command.expected_version, version) or migration.refused(state)
        if refused := stale(command.expected_version, known.version):
            return refused
        decided = migration.told(known, command.operation, now)
        return decided if isinstance(decided, Rejection) else self._moved(found, decided, now)

    def _moved(self, found: Tenant, after: Migration, now: int) -> Committed:
        self._known.migrations[found.tenant_id] = self._changes.migrations[found.tenant_id] = after
        changed = tenant.touched(found, now)
        self._tenant(changed)
        return Committed(migration_document(structs.asdict(after)), (self._event(changed),))

    def _export(self, found: Tenant, command: Command, now: int) -> Committed | Rejection:
        if found.state in ("provisioning", "deleting", "deleted"):
            return tenant.conflict(found, "there is nothing to export")
        if self._known.is_shredded(found.tenant_id):
            return _SHREDDED
        id_ = made_id("ex", "export_tenant", command.scope, command.idempotency_key)
        after = tenant.touched(found, now)
        self._tenant(after)
        self._changes.exports[id_] = (found.tenant_id, now)
        asked = {"export_id": id_, "tenant_id": found.tenant_id, "state": "running", "resources": 0, "sha256": None}
        return Committed(export_document(asked | {"created_at": now}), (self._event(after),))

    def _resource(self, command: Command, now: int) -> Committed | Rejection:
        found = self._known.tenants.get(command.aggregate_key)
        if found is None or scope_of(found.tenant_id) != command.scope:
            return tenant.why_no_writes(None) or _NOT_FOUND
        if refusal := tenant.why_no_writes(found):
            return refusal
        moves = self._known.migrations.get(found.tenant_id)
        if moves is not None and moves.fenced:
            return migration.MOVING
        payload: dict[str, Any] = command.payload
        if refusal := self._why_not_sealed_so(found.tenant_id, payload):
            return refusal
        place = (found.tenant_id, resource.identity_of(command))
        counted = (found.tenant_id, resource.DIMENSION)
        used = self._known.used.get(counted, 0)
        limits = self._desk.limits(found.tenant_id)
        decided = resource.decide(self._known.heads.get(place), found, used, command, now, limits)
        if isinstance(decided, Rejection):
            return decided
        self._known.heads[place] = self._changes.heads[place] = decided
        if change := resource.live_change(command):
            self._known.used[counted] = self._changes.used[counted] = used + change
        warnings = entitled.warnings(limits, used + change) if change > 0 else []
        sealed = b"" if decided.deleted else seals.from_text(payload["sealed"])
        placement = self._known.placements[found.placement_id]
        further = None if moves is None else moves.further_placement(found.placement_id)
        self._changes.images[place] = Image(found, placement, further, decided, sealed)
        result: dict[str, Any] = {
            "tenant_id": found.tenant_id,
            "resource_id": decided.resource_id,
            "version": decided.version,
        }
        result |= {"deleted": True} if decided.deleted else {"sealed": payload["sealed"]}
        result |= {"warnings": warnings} if warnings else {}
        return Committed(result, (self._event(found, decided),))

    def _why_not_sealed_so(self, tenant_id: str, payload: dict[str, Any]) -> Denial | None:
        """Rule: nothing is written behind a page that was sealed anew. A delete carries no seal."""
        if self._known.is_shredded(tenant_id):
            return _SHREDDED
        keys = self._known.keys.get(tenant_id, {})
        sealed = payload.get("sealed")
        is_closed = sealed and keys.get(seals.key_version_of(seals.from_text(sealed))) == _CLOSED
        return _SEALED_BEFORE if is_closed else None

    @staticmethod
    def _event(after: Tenant, head: Head | None = None) -> NewEvent:
        body = {
            "tenant_id": after.tenant_id,
            "state": after.state,
            "policy_version": after.policy_version,
            "generation": after.generation,
            "resource_id": head.resource_id if head else None,
            "resource_version": head.version if head else None,
            "deleted": head.deleted if head else False,
            "size": head.size if head else 0,
        }
        return NewEvent(head.version if head else after.version, scope_of(after.tenant_id), body)


def _stale(found: Tenant, command: Command) -> Rejection | None:
    """Rule: a version that a call names is the tenant's, or that of the part that it changes (a move, a grant).

    Of what it makes below the tenant it may say 0, too: that is not there yet.
    """
    if command.operation in _OF_ITS_PARTS or (command.operation in _MAKES and command.expected_version == 0):
        return None
    return stale(command.expected_version, found.version)


def _opening(keys: dict[int, str]) -> dict[int, str]:
    """The keys of a tenant as they are once there is a newer one."""
    return {version: _CLOSED if state == _CLOSED else "decrypt_only" for version, state in keys.items()}


def _where(placement: Placement) -> dict[str, Any]:
    return {
        "region": placement.region,
        "mode": placement.mode,
        "shard_or_database": placement.shard_or_database,
    }
