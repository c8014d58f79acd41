"""What the database has of the tenants of a batch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, TypeVar

from msgspec import Struct

from dataflows.tenancy.domain.capacity import Store
from dataflows.tenancy.domain.migration import Migration
from dataflows.tenancy.domain.resource import Head
from dataflows.tenancy.domain.tenant import Placement, Tenant

Found = TypeVar("Found", bound=Struct)


class Known:
    """What the database has of the aggregates of a batch, changed as commands fold in."""

    def __init__(
        self,
        tenants: list[tuple[Any, ...]],
        placements: list[tuple[Any, ...]],
        keys: list[tuple[Any, ...]],
        usage: list[tuple[Any, ...]],
        heads: list[tuple[Any, ...]],
        migrations: list[tuple[Any, ...]],
        migrations_known: list[tuple[Any, ...]],
        stores: Sequence[tuple[Any, ...]] = (),
    ) -> None:
        self.tenants = {found.tenant_id: found for found in _each(Tenant, tenants)}
        self.placements = {found.placement_id: found for found in _each(Placement, placements)}
        self.keys = {id_: {row[1]: row[2] for row in own} for id_, own in groupby(keys, lambda row: str(row[0]))}
        self.used = {(row[0], row[1]): int(row[2]) for row in usage}
        self.heads = {(found.tenant_id, found.resource_id): found for found in _each(Head, heads)}
        self.migrations = {found.tenant_id: found for found in _each(Migration, migrations)}
        self.stores = {found.store: found for found in _each(Store, stores)}
        self.migrations_known = {(row[0], row[1]): (str(row[2]), int(row[3])) for row in migrations_known}

    def is_shredded(self, tenant_id: str) -> bool:
        """Whether no key of a tenant is left."""
        states = self.keys.get(tenant_id, {}).values()
        return bool(states) and all(state == "destroyed" for state in states)


def _each(kind: type[Found], rows: Iterable[tuple[Any, ...]]) -> Iterator[Found]:
    return (kind(**dict(zip(kind.__struct_fields__, row, strict=True))) for row in rows)
