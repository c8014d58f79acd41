"""What a command changed of a tenant, as its history keeps it. Pure."""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct

from dataflows.tenancy.domain.tenant import Tenant
from schemas.records import Command
from schemas.tenancy.operations import person_of

#: state, plan, quotas and placement; the database notes the same ones of what no command changes
FIELDS: Final = (
    *("name", "tier", "state", "suspension", "reason", "timezone", "home_currency", "quotas", "prices"),
    *("placement_id", "generation"),
)


class Noted(Struct, frozen=True, kw_only=True):
    """One row: what became other in a version, in whose name, by whom, and by which command."""

    tenant_id: str
    version: int
    at: int
    made_by: str
    operation: str
    request_id: str
    person: str | None
    changed: dict[str, list[Any]]  # by name, what it was and what it is


def noted(before: Tenant | None, after: Tenant, command: Command) -> Noted | None:
    """The row of a command; None where all of these fields stayed as they were."""
    both = {name: [getattr(before, name, None), getattr(after, name)] for name in FIELDS}
    changed = {name: values for name, values in both.items() if values[0] != values[1]}
    if not changed:
        return None
    return Noted(
        tenant_id=after.tenant_id,
        version=after.version,
        at=after.updated_at,
        made_by=command.scope,
        operation=command.operation,
        request_id=command.request_id,
        person=person_of(command),
        changed=changed,
    )
