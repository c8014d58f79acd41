"""Tenants as the owner runtime sees them: each read and locked once, and written once a batch, with its resources."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from dataflows.owner.batch import Statement
from dataflows.tenancy import desk
from dataflows.tenancy.changes import Changes
from dataflows.tenancy.desk import DeskWorkspace
from dataflows.tenancy.domain import resource
from dataflows.tenancy.known import Known
from dataflows.tenancy.owner_costs import OwnerCosts
from dataflows.tenancy.workspace import RESOURCES, TOLD, TenancyWorkspace
from schemas.records import Command
from sinks.postgres.arrays import Texts
from sinks.postgres.sql_files import queries

if TYPE_CHECKING:
    from sinks.tenancy.contexts import Contexts
    from sinks.tenancy.root_keys import RootKeys

SQL: Final = queries("dataflows.tenancy", "owner.sql")
_MAKES_KEYS: Final = frozenset({"create_tenant", "rotate_tenant_key"})
_TAKES_PLACES: Final = frozenset({"create_tenant", "start_migration"})
_COSTS: Final = OwnerCosts()  # of each lane of this process
_READS: Final = 7  # as many as ``reads`` has before those of the desk


class TenancyPartition:
    """One owned partition; nothing is remembered between batches."""

    def __init__(self, connection: object, partition: int, *, contexts: Contexts, root_keys: RootKeys) -> None:
        del connection
        self._partition = partition
        self._contexts = contexts
        self._root_keys = root_keys

    def reads(self, keys: list[str], commands: Sequence[Command]) -> list[Statement]:  # noqa: D102 - as PartitionState says
        _COSTS.began()
        tenants = Texts(keys)
        written = [(c.aggregate_key, resource.identity_of(c)) for c in commands if c.operation in RESOURCES]
        heads = (Texts([t for t, _ in written]), Texts([r for _, r in written]))
        told = [(c.aggregate_key, str(c.payload["migration_id"])) for c in commands if c.operation in TOLD]
        return [
            (SQL["tenants_read"], (tenants,)),
            (SQL["placements_read"], (tenants,)),
            (SQL["keys_read"], (tenants,)),
            (SQL["usage_read"], (tenants,)),
            (SQL["heads_read"], heads),
            (SQL["migrations_read"], (tenants,)),
            (SQL["migrations_known"], (Texts([t for t, _ in told]), Texts([m for _, m in told]))),
            *desk.reads(commands),
            *([(SQL["stores_read"], None)] if any(c.operation in _TAKES_PLACES for c in commands) else []),
            *([(SQL["keys_held"], None)] if any(c.operation in _MAKES_KEYS for c in commands) else []),
        ]

    def begin(self, rows: Sequence[list[tuple[Any, ...]]]) -> TenancyWorkspace:  # noqa: D102 - as PartitionState says
        stores = rows[_READS + desk.READS : _READS + desk.READS + 1]  # none where no command takes a place
        return TenancyWorkspace(
            self._partition,
            Known(*(rows[:_READS] or [[] for _ in range(_READS)]), *stores),
            Changes(self._partition, self._contexts, self._root_keys),
            DeskWorkspace(self._partition, rows[_READS : _READS + desk.READS]),
            _COSTS,
        )
