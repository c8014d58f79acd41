"""What a batch changes, as set-based statements: the same order of texts in every batch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal

from msgspec import Struct

from dataflows.owner.batch import Statement
from dataflows.tenancy.domain.capacity import Store
from dataflows.tenancy.domain.history import Noted
from dataflows.tenancy.domain.migration import Migration
from dataflows.tenancy.domain.resource import Head
from dataflows.tenancy.domain.tenant import Placement, Tenant
from sinks.postgres.arrays import Bigints, Blobs, Count, Integers, Texts
from sinks.postgres.sql_files import queries
from sinks.postgres.struct_columns import columns

if TYPE_CHECKING:
    from sinks.tenancy.contexts import Contexts
    from sinks.tenancy.root_keys import RootKeys

SQL: Final = queries("dataflows.tenancy", "owner.sql")
TENANT_CHANGES: Final = (
    *("tenant_id", "name", "tier", "state", "suspension", "reason", "timezone", "quotas", "prices", "policy_version"),
    *("version", "updated_at"),
)
NEW_MIGRATION: Final = (
    *("tenant_id", "migration_id", "state", "source", "target", "from_generation", "rows_per_second", "version"),
    *("created_at", "updated_at"),
)
MIGRATION_CHANGES: Final = ("tenant_id", "migration_id", "state", "closing", "version", "updated_at")
HEAD_CHANGES: Final = ("tenant_id", "resource_id", "version", "deleted", "size", "updated_at")


class KeyChange(Struct, frozen=True):
    """A new key of a tenant, which is its active one, or the end of all of them."""

    tenant_id: str
    kind: Literal["new", "destroy"]
    key_version: int
    at: int


class Image(Struct, frozen=True):
    """A row as its stores shall have it."""

    tenant: Tenant
    placement: Placement
    further: str | None  # another placement that a move has it go to, by the feed
    head: Head
    sealed: bytes


class Changes:
    """Collects what changed; the newest of each thing is what is written."""

    def __init__(self, partition: int, contexts: Contexts, root_keys: RootKeys) -> None:
        self._partition = partition
        self._contexts = contexts
        self._root_keys = root_keys
        self._tenants_read: dict[str, int] = {}
        self._heads_read: dict[tuple[str, str], int] = {}
        self._migrations_read: dict[str, int] = {}
        self.placements: dict[str, Placement] = {}
        self.stores: dict[str, Store] = {}  # that tenants were brought to
        self.tenants: dict[str, Tenant] = {}
        self.history: list[Noted] = []
        self.keys: list[KeyChange] = []
        self.used: dict[tuple[str, str], int] = {}
        self.heads: dict[tuple[str, str], Head] = {}
        self.migrations: dict[str, Migration] = {}
        self.exports: dict[str, tuple[str, int]] = {}  # by export: its tenant, and when
        self.images: dict[tuple[str, str], Image] = {}

    def read(
        self,
        tenants: Mapping[str, Tenant],
        heads: Mapping[tuple[str, str], Head],
        migrations: Mapping[str, Migration],
    ) -> None:
        """The versions that the database had."""
        self._tenants_read = {id_: found.version for id_, found in tenants.items()}
        self._heads_read = {place: found.version for place, found in heads.items()}
        self._migrations_read = {found.migration_id: found.version for found in migrations.values()}

    def statements(self) -> list[Statement]:
        """All of it, in an order that is always the same."""
        return [
            *self._of_placements(),
            *self._of_tenants(),
            *self._of_keys(),
            *self._of_moves(),
            *self._of_stores(),
            *self._of_resources(),
            *self._of_images(),
        ]

    def _of_placements(self) -> Iterable[Statement]:
        if found := [self.placements[id_] for id_ in sorted(self.placements)]:
            yield SQL["placements_insert"], columns(found)

    def _of_tenants(self) -> Iterable[Statement]:
        if self.history:
            yield SQL["history_insert"], columns(self.history)
        changed = [self.tenants[id_] for id_ in sorted(self.tenants)]
        if new := [t for t in changed if t.tenant_id not in self._tenants_read]:
            yield SQL["tenants_insert"], (Integers([self._partition] * len(new)), *columns(new))
            yield SQL["gates_insert"], (Texts([t.tenant_id for t in new]), Bigints([t.generation for t in new]))
        if old := [t for t in changed if t.tenant_id in self._tenants_read]:
            read = Bigints([self._tenants_read[t.tenant_id] for t in old])
            yield SQL["tenants_update"], (*columns(old, TENANT_CHANGES), read, Count(len(old)))

    def _of_keys(self) -> Iterable[Statement]:
        new = [change for change in self.keys if change.kind == "new"]
        gone = {change.tenant_id: change.at for change in self.keys if change.kind == "destroy"}
        if new:
            yield SQL["keys_retire"], (Texts(sorted({change.tenant_id for change in new})),)
            newest = {change.tenant_id: change.key_version for change in new}
            wrapped = [self._root_keys.new_wrapped(change.tenant_id, change.key_version) for change in new]
            states = ["active" if newest[c.tenant_id] == c.key_version else "decrypt_only" for c in new]
            yield (
                SQL["keys_insert"],
                (
                    Texts([change.tenant_id for change in new]),
                    Bigints([change.key_version for change in new]),
                    Texts([root_key_id for root_key_id, _ in wrapped]),
                    Blobs([key for _, key in wrapped]),
                    Texts(states),
                    Bigints([change.at for change in new]),
                ),
            )
        if gone:  # behind the new ones: a key that was made and destroyed in one batch is destroyed
            yield SQL["keys_destroy"], (Texts(list(gone)), Bigints(list(gone.values())))

    def _of_moves(self) -> Iterable[Statement]:
        changed = [self.migrations[id_] for id_ in sorted(self.migrations)]
        if new := [m for m in changed if m.migration_id not in self._migrations_read]:
            yield SQL["migrations_insert"], columns(new, NEW_MIGRATION)
        if old := [m for m in changed if m.migration_id in self._migrations_read]:
            read = Bigints([self._migrations_read[m.migration_id] for m in old])
            yield SQL["migrations_update"], (*columns(old, MIGRATION_CHANGES), read, Count(len(old)))
        if self.exports:
            asked = sorted((tenant, export, at) for export, (tenant, at) in self.exports.items())
            yield (
                SQL["exports_insert"],
                (
                    Texts([tenant for tenant, _, _ in asked]),
                    Texts([export for _, export, _ in asked]),
                    Bigints([at for _, _, at in asked]),
                ),
            )

    def _of_stores(self) -> Iterable[Statement]:
        if found := [self.stores[name] for name in sorted(self.stores)]:
            yield SQL["stores_fit"], (Texts([s.store for s in found]), Bigints([s.places for s in found]))

    def _of_resources(self) -> Iterable[Statement]:
        if places := sorted(self.used):
            counts = Bigints([self.used[place] for place in places])
            yield SQL["usage_write"], (Texts([t for t, _ in places]), Texts([d for _, d in places]), counts)
        changed = [self.heads[place] for place in sorted(self.heads)]
        if new := [h for h in changed if (h.tenant_id, h.resource_id) not in self._heads_read]:
            yield SQL["heads_insert"], columns(new)
        if old := [h for h in changed if (h.tenant_id, h.resource_id) in self._heads_read]:
            read = Bigints([self._heads_read[h.tenant_id, h.resource_id] for h in old])
            yield SQL["heads_update"], (*columns(old, HEAD_CHANGES), read, Count(len(old)))

    def _of_images(self) -> Iterable[Statement]:
        images = [self.images[place] for place in sorted(self.images)]
        if here := [image for image in images if image.placement.is_reached]:
            contexts = {image.tenant.tenant_id: self._context(image.tenant) for image in here}
            yield (
                SQL["rows_apply"],
                (
                    Texts([contexts[image.tenant.tenant_id] for image in here]),
                    Texts([image.placement.store for image in here]),
                    *_images(here),
                ),
            )
        away = [(image.placement.placement_id, image) for image in images if not image.placement.is_reached]
        away += [(image.further, image) for image in images if image.further is not None]
        if away:
            yield SQL["feed_append"], (Texts([place for place, _ in away]), *_images([image for _, image in away]))

    def _context(self, tenant: Tenant) -> str:
        """As of the policy that this batch leaves: what changed it is written before, under the same lock."""
        newest = self.tenants.get(tenant.tenant_id, tenant)
        return self._contexts.of(tenant.tenant_id, tenant.generation, "rw", policy_version=newest.policy_version)


def _images(images: list[Image]) -> tuple[Any, ...]:
    tenants, resources, versions, deleted = columns([image.head for image in images], HEAD_CHANGES[:4])
    return tenants, resources, versions, Blobs([image.sealed for image in images]), deleted
