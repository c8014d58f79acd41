"""Billing entries and entitlements in the owner of their tenant, as the desk of a batch keeps them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct

from dataflows.tenancy.domain import billing_entry
from dataflows.tenancy.domain.entitled import limits_of
from schemas import identity
from schemas.records import Command, Rejection
from schemas.refusals import stale
from schemas.tenancy import entitlements
from schemas.tenancy.desk_operations import ADJUST_USAGE, GRANT_CREDIT, SET_ENTITLEMENTS
from schemas.tenancy.instants import instant
from sinks.postgres.arrays import Bigints, Integers, OptionalTexts, Texts, Times
from sinks.postgres.sql_files import queries

if TYPE_CHECKING:
    from dataflows.owner.batch import Statement
    from dataflows.tenancy.domain.billing_entry import BillingEntry
    from dataflows.tenancy.domain.billing_run import DeskTenant, Period
    from dataflows.tenancy.domain.entitled import Limit

SQL: Final = queries("sinks.postgres.queries.tenancy", "desk.sql")
HANDLED: Final = frozenset({ADJUST_USAGE, GRANT_CREDIT, SET_ENTITLEMENTS})
#: what a limit may refuse, or warn of
_IS_LIMITED: Final = "create_resource"
_encode: Final = msgspec.json.Encoder(order="sorted").encode


class Said(Struct, frozen=True):
    """What a tenant may, as it was said last."""

    texts: dict[str, str]
    versions: dict[str, int]  # since which each is what it is
    version: int
    updated_at: int = 0


def reads(commands: Sequence[Command]) -> list[Statement]:
    """What these commands work on: always two statements."""
    entered = sorted({c.aggregate_key for c in commands if c.operation in (ADJUST_USAGE, GRANT_CREDIT)})
    entitled = sorted({c.aggregate_key for c in commands if c.operation in (SET_ENTITLEMENTS, _IS_LIMITED)})
    return [(SQL["desk_entries"], (Texts(entered),)), (SQL["desk_entitlements"], (Texts(entitled),))]


class EntriesWorkspace:
    """Over what ``reads`` returned."""

    def __init__(self, partition: int, entries: Sequence[tuple[Any, ...]], entitled: Sequence[tuple[Any, ...]]) -> None:
        self._partition = partition
        self._numbers: dict[str, int] = dict(entries)
        self._known = {tenant_id: Said(texts, versions, version) for tenant_id, version, texts, versions in entitled}
        self._new: list[BillingEntry] = []
        self._said: dict[str, Said] = {}

    def decide(
        self, tenant: DeskTenant, billed: Mapping[Period, Mapping[str, str]], command: Command, now: int
    ) -> dict[str, Any] | Rejection:
        """Folds one command in: its public result, or why not. ``billed``: as ``adjusted`` says."""
        if command.operation == SET_ENTITLEMENTS:
            return self._entitle(tenant.tenant_id, command, now)
        number = self._numbers.get(tenant.tenant_id, 0) + 1
        entry_id = identity.derived_id("be", command.scope, tenant.tenant_id, command.idempotency_key)
        entry: BillingEntry | Rejection
        if command.operation == GRANT_CREDIT:
            entry = billing_entry.credited(tenant, number, entry_id, command, now)
        else:
            entry = billing_entry.adjusted(tenant, billed, number, entry_id, command, now)
        if isinstance(entry, Rejection):
            return entry
        self._numbers[tenant.tenant_id] = number
        self._new.append(entry)
        return billing_entry.rendered(entry)

    def _entitle(self, tenant_id: str, command: Command, now: int) -> dict[str, Any] | Rejection:
        before = self._known.get(tenant_id) or Said({}, {}, 0)
        if refused := stale(command.expected_version, before.version):
            return refused
        texts: Any = command.payload["entitlements"]
        current = before.version
        stays = {name for name, text in texts.items() if before.texts.get(name) == text}
        versions = {n: before.versions.get(n, current) if n in stays else current + 1 for n in texts}
        self._known[tenant_id] = self._said[tenant_id] = Said(texts, versions, current + 1, now)
        shown = {"tenant_id": tenant_id, "entitlements": entitlements.shown(texts)}
        return {"object": "entitlements", **shown, "updated_at": instant(now), "version": current + 1}

    def limits(self, tenant_id: str) -> list[Limit]:
        """How many resources the tenant is entitled to, as of the commands before: known where one is to be made."""
        known = self._known.get(tenant_id)
        return [] if known is None else limits_of(known.texts)

    def writes(self) -> list[Statement]:
        """What the batch changes."""
        found: list[Statement] = []
        if self._new:
            found.append((SQL["desk_entries_insert"], self._columns()))
        if said := sorted(self._said.items()):
            columns = (
                Texts([tenant_id for tenant_id, _ in said]),
                Integers([self._partition] * len(said)),
                Texts([_encode(one.texts).decode() for _, one in said]),
                Texts([_encode(one.versions).decode() for _, one in said]),
                Bigints([one.version for _, one in said]),
                Times([one.updated_at for _, one in said]),
            )
            found.append((SQL["desk_entitlements_write"], columns))
        return found

    def _columns(self) -> tuple[Any, ...]:
        new = self._new
        return (
            Texts([e.tenant_id for e in new]),
            Bigints([e.number for e in new]),
            Texts([e.entry_id for e in new]),
            Integers([self._partition] * len(new)),
            Texts([e.kind for e in new]),
            OptionalTexts([e.dimension for e in new]),
            Bigints([e.quantity or 0 for e in new]),
            OptionalTexts([e.unit_price for e in new]),
            OptionalTexts([_moment(e.at_us) for e in new]),
            OptionalTexts([_moment(e.period[0]) if e.period else None for e in new]),
            OptionalTexts([_moment(e.period[1]) if e.period else None for e in new]),
            Bigints([e.amount or 0 for e in new]),
            Texts([e.reason for e in new]),
            Times([e.created_at for e in new]),
            Texts([e.made_by or "" for e in new]),
            OptionalTexts([e.person for e in new]),
        )


def _moment(at_us: int | None) -> str | None:
    return None if at_us is None else instant(at_us)
