"""Tenants as the owner runtime sees them: each read and locked once, and written once a batch, with its resources."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from msgspec import structs

from dataflows.owner.batch import Statement
from dataflows.owner.service import MISROUTED, Committed, NewEvent
from dataflows.tenancy import desk
from dataflows.tenancy.changes import Changes, Image, KeyChange
from dataflows.tenancy.desk import DeskWorkspace
from dataflows.tenancy.domain import resource, tenant
from dataflows.tenancy.domain.billing_run import DeskTenant
from dataflows.tenancy.domain.resource import Head
from dataflows.tenancy.domain.tenant import Placement, Tenant
from schemas import limits
from schemas.records import Command, Denial, Rejection
from schemas.tenancy.desk_operations import DESK
from schemas.tenancy.operations import scope_of
from schemas.tenancy.rendering import tenant_document
from schemas.topics import partition_for
from sinks.postgres.arrays import Texts
from sinks.postgres.sql_files import queries
from sinks.tenancy import seals

if TYPE_CHECKING:
    from sinks.tenancy.contexts import Contexts

SQL: Final = queries("dataflows.tenancy", "owner.sql")
_NOT_FOUND: Final = Rejection("not_found", "No such object.")
_EXISTS: Final = Rejection("state_conflict", "The tenant exists already.")
_SHREDDED: Final = Denial("key_shredded", "The keys of this data were destroyed; nobody can read it again.")
_RESOURCES: Final = frozenset({"create_resource", "replace_resource", "delete_resource"})
_TENANT_FIELDS: Final = Tenant.__struct_fields__
_PLACEMENT_FIELDS: Final = ("region", "mode", "shard_or_database", "state", "tenant_id")


class TenancyPartition:
    """One owned partition; nothing is remembered between batches."""

    def __init__(self, connection: object, partition: int, *, contexts: Contexts, root_keys: seals.RootKeys) -> None:
        del connection
        self._partition = partition
        self._contexts = contexts
        self._root_keys = root_keys

    def reads(self, keys: list[str], commands: Sequence[Command]) -> list[Statement]:  # noqa: D102 - as PartitionState says
        tenants = Texts(keys)
        written = [(c.aggregate_key, resource.identity_of(c)) for c in commands if c.operation in _RESOURCES]
        heads = (Texts([t for t, _ in written]), Texts([r for _, r in written]))
        return [
            (SQL["tenants_read"], (tenants,)),
            (SQL["keys_read"], (tenants,)),
            (SQL["usage_read"], (tenants,)),
            (SQL["heads_read"], heads),
            *desk.reads(commands),
        ]

    def begin(self, rows: Sequence[list[tuple[Any, ...]]]) -> TenancyWorkspace:  # noqa: D102 - as PartitionState says
        tenants, keys, usage, heads, *of_desk = rows or ([], [], [], [])
        return TenancyWorkspace(
            self._partition,
            Known(tenants, keys, usage, heads),
            Changes(self._partition, self._contexts, self._root_keys),
            DeskWorkspace(self._partition, of_desk),
        )


class Known:
    """What the database has of the aggregates of a batch, changed as commands fold in."""

    def __init__(
        self,
        tenants: list[tuple[Any, ...]],
        keys: list[tuple[Any, ...]],
        usage: list[tuple[Any, ...]],
        heads: list[tuple[Any, ...]],
    ) -> None:
        width = len(_TENANT_FIELDS)
        self.tenants: dict[str, Tenant] = {}
        self.placements: dict[str, Placement] = {}
        for row in tenants:
            found = Tenant(**dict(zip(_TENANT_FIELDS, row[:width], strict=True)))
            self.tenants[found.tenant_id] = found
            where = dict(zip(_PLACEMENT_FIELDS, row[width:], strict=True))
            self.placements[found.placement_id] = Placement(placement_id=found.placement_id, **where)
        self.keys = {id_: {row[1]: row[2] for row in own} for id_, own in groupby(keys, lambda row: str(row[0]))}
        self.used = {(row[0], row[1]): int(row[2]) for row in usage}
        self.heads = {(row[0], row[1]): Head(**dict(zip(Head.__struct_fields__, row, strict=True))) for row in heads}

    def is_shredded(self, tenant_id: str) -> bool:
        """Whether no key of a tenant is left."""
        states = self.keys.get(tenant_id, {}).values()
        return bool(states) and all(state == "destroyed" for state in states)


class TenancyWorkspace:
    """The tenants of one batch in memory."""

    def __init__(self, partition: int, known: Known, changes: Changes, of_desk: DeskWorkspace) -> None:
        self._partition = partition
        self._desk = of_desk
        self._known = known
        self._changes = changes
        changes.read(known.tenants, known.heads)

    def decide(self, command: Command, offset: int, now: int) -> Committed | Rejection:  # noqa: D102 - as Workspace says
        del offset
        if partition_for(command.aggregate_key, limits.TENANCY_PARTITIONS) != self._partition:
            return MISROUTED
        if command.operation in _RESOURCES:
            return self._resource(command, now)
        if command.operation == "create_tenant":
            return self._create(command, now)
        found = self._known.tenants.get(command.aggregate_key)
        if found is None:
            return _NOT_FOUND
        if command.operation in DESK:
            return self._at_desk(found, command, now)
        is_of_keys = command.operation in ("rotate_tenant_key", "shred_tenant_keys")
        return (self._keys if is_of_keys else self._life)(found, command, now)

    def writes(self) -> list[Statement]:  # noqa: D102 - as Workspace says
        return [*self._changes.statements(), *self._desk.writes()]

    def committed(self) -> None:
        """Nothing is remembered."""

    def _at_desk(self, found: Tenant, command: Command, now: int) -> Committed | Rejection:
        terms = DeskTenant(found.tenant_id, found.tier, found.home_currency, found.prices)
        decided = self._desk.decide(terms, command, now)
        return decided if isinstance(decided, Rejection) else Committed(decided, (self._event(found),))

    def _create(self, command: Command, now: int) -> Committed | Rejection:
        if command.aggregate_key in self._known.tenants:
            return _EXISTS
        asked: Any = command.payload["placement"]
        placement = tenant.placement_of(asked, command.aggregate_key, "1")
        made = tenant.created(command, placement, now)
        self._known.placements[placement.placement_id] = placement
        self._known.keys[made.tenant_id] = {1: "active"}
        self._changes.placements[placement.placement_id] = placement
        self._changes.keys.append(KeyChange(made.tenant_id, "new", 1, now))
        return self._tenant(made)

    def _life(self, found: Tenant, command: Command, now: int) -> Committed | Rejection:
        decided: Tenant | Rejection
        match command.operation:
            case "change_tenant":
                decided = tenant.changed(found, command, now)
            case "suspend_tenant":
                decided = tenant.suspended(found, command, now)
            case "resume_tenant":
                decided = tenant.resumed(found, now)
            case "offboard_tenant":
                decided = tenant.offboarded(found, command, now)
            case "delete_tenant":
                decided = tenant.deleting(found, command, now)
            case _:
                return Rejection("state_conflict", "This is not done yet.")
        return decided if isinstance(decided, Rejection) else self._tenant(decided)

    def _tenant(self, after: Tenant) -> Committed:
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
        after, keys = tenant.touched(found, now), self._known.keys[found.tenant_id]
        if command.operation == "shred_tenant_keys":
            newest = max(keys)
            self._known.keys[found.tenant_id] = dict.fromkeys(keys, "destroyed")
            self._changes.keys.append(KeyChange(found.tenant_id, "destroy", newest, now))
        else:
            newest = max(keys) + 1
            self._known.keys[found.tenant_id] = dict.fromkeys(keys, "decrypt_only") | {newest: "active"}
            self._changes.keys.append(KeyChange(found.tenant_id, "new", newest, now))
        self._tenant(after)
        result = {"tenant_id": after.tenant_id, "key_version": newest, "version": after.version}
        return Committed(result, (self._event(after),))

    def _resource(self, command: Command, now: int) -> Committed | Rejection:
        found = self._known.tenants.get(command.aggregate_key)
        if found is None or scope_of(found.tenant_id) != command.scope:
            return tenant.why_no_writes(None) or _NOT_FOUND
        if refusal := tenant.why_no_writes(found):
            return refusal
        payload: dict[str, Any] = command.payload
        if self._known.is_shredded(found.tenant_id):
            return _SHREDDED
        place = (found.tenant_id, resource.identity_of(command))
        counted = (found.tenant_id, resource.DIMENSION)
        used = self._known.used.get(counted, 0)
        decided = resource.decide(self._known.heads.get(place), found, used, command, now)
        if isinstance(decided, Rejection):
            return decided
        self._known.heads[place] = self._changes.heads[place] = decided
        if change := resource.live_change(command):
            self._known.used[counted] = self._changes.used[counted] = used + change
        sealed = b"" if decided.deleted else seals.from_text(payload["sealed"])
        placement = self._known.placements[found.placement_id]
        self._changes.images[place] = Image(found, placement, decided, sealed)
        result: dict[str, Any] = {
            "tenant_id": found.tenant_id,
            "resource_id": decided.resource_id,
            "version": decided.version,
        }
        result |= {"deleted": True} if decided.deleted else {"sealed": payload["sealed"]}
        return Committed(result, (self._event(found, decided),))

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


def _where(placement: Placement) -> dict[str, Any]:
    return {
        "region": placement.region,
        "mode": placement.mode,
        "shard_or_database": placement.shard_or_database,
    }
