"""The desk of a tenant in its owner: billing, support grants. Read once, decided in order, written once a batch.

One owner decides all of a tenant, so of many that ask for a period at once one gets it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from dataflows.tenancy import desk_entries
from dataflows.tenancy.desk_entries import EntriesWorkspace
from dataflows.tenancy.domain import billing_run, support_grant
from dataflows.tenancy.domain.billing_run import BillingRun, DeskTenant, Period
from dataflows.tenancy.domain.support_grant import SupportGrant
from schemas import identity
from schemas.records import Command, Rejection
from schemas.tenancy.desk_operations import ADJUST_USAGE, CREATE_BILLING_RUN, DESK, REQUEST_SUPPORT_GRANT
from sinks.postgres.arrays import Bigints, Column, Count, Integers, Texts, Times
from sinks.postgres.sql_files import queries
from sinks.postgres.struct_columns import Packer, columns

if TYPE_CHECKING:
    from dataflows.owner.batch import Statement
    from dataflows.tenancy.domain.entitled import Limit

SQL: Final = queries("sinks.postgres.queries.tenancy", "desk.sql")
READS: Final = 4
_CHANGE: Final = "change_tenant"
_NEW_GRANT: Final = (
    *("tenant_id", "grant_id", "requester", "reason", "ticket", "scopes", "duration_s", "needs_consent", "break_glass"),
    *("created_at", "masked_fields", "not_before"),
)
_GRANT_CHANGES: Final = (
    *(
        "tenant_id",
        "grant_id",
        "state",
        "approvers",
        "consented_by",
        "ended_by",
        "expires_at",
        "reviewed_by",
        "reviewed_at",
    ),
    *("findings", "version", "duration_s", "masked_fields", "asked_duration_s", "asked_masked_fields", "needs_consent"),
)
_RUN: Final = (
    *("tenant_id", "number", "billing_run_id", "invoice_id", "from_us", "to_us", "grace_s", "currency", "prices"),
    *("created_at", "made_by", "person"),
)
_PACKERS: Final[dict[str, Packer]] = {
    **dict.fromkeys(("from_us", "to_us", "created_at"), Times),
    **dict.fromkeys(("grace_s", "duration_s"), Integers),
    **dict.fromkeys(
        ("scopes", "masked_fields", "asked_masked_fields"),
        lambda values: Texts([" ".join(words or ()) for words in values]),
    ),
}


def reads(commands: Sequence[Command]) -> list[Statement]:
    """What these commands work on: always ``READS`` statements."""
    billing = (CREATE_BILLING_RUN, ADJUST_USAGE)
    billed = sorted({command.aggregate_key for command in commands if command.operation in billing})
    corrected = sorted({command.aggregate_key for command in commands if command.operation == ADJUST_USAGE})
    named = [command.payload.get("grant_id") for command in commands if command.operation in DESK]
    grants = sorted({grant_id for grant_id in named if isinstance(grant_id, str)})
    raised = sorted({c.aggregate_key for c in commands if c.operation == _CHANGE and c.payload["tier"] is not None})
    return [
        (SQL["desk_periods"], (Texts(corrected), Texts(billed))),
        (SQL["desk_grants"], (Texts(grants), Texts(raised))),
        *desk_entries.reads(commands),
    ]


class DeskWorkspace:
    """The runs, entries and grants of one batch of a partition, over what ``reads`` returned."""

    def __init__(self, partition: int, rows: Sequence[list[tuple[Any, ...]]]) -> None:
        periods, grants, entries, entitled = rows or ([], [], [], [])
        self._entries = EntriesWorkspace(partition, entries, entitled)
        self._partition = partition
        self._runs: dict[str, list[tuple[int, Period, Mapping[str, str]]]] = {}
        for tenant_id, number, begins, ends, prices in periods:
            self._runs.setdefault(tenant_id, []).append((number, (begins, ends), prices))
        self._grants = {row[0]: support_grant.of_row(row) for row in grants}
        self._read = {grant_id: grant.version for grant_id, grant in self._grants.items()}
        self._new_runs: list[BillingRun] = []
        self._changed: set[str] = set()

    def limits(self, tenant_id: str) -> list[Limit]:
        """As ``EntriesWorkspace.limits``."""
        return self._entries.limits(tenant_id)

    def decide(self, tenant: DeskTenant, command: Command, now: int) -> dict[str, Any] | Rejection:
        """Folds one command of the desk in: its public result, or why not."""
        if command.operation == CREATE_BILLING_RUN:
            return self._bill(tenant, command, now)
        if command.operation in desk_entries.HANDLED:
            billed = {period: prices for _, period, prices in self._runs.get(tenant.tenant_id, [])}
            return self._entries.decide(tenant, billed, command, now)
        after: SupportGrant | Rejection
        if command.operation == REQUEST_SUPPORT_GRANT:
            grant_id = identity.derived_id("sg", command.scope, tenant.tenant_id, command.idempotency_key)
            after = support_grant.requested(grant_id, tenant.tenant_id, tenant.tier, command, now)
        else:
            known = self._grants.get(str(command.payload["grant_id"]))
            after = support_grant.decide(known, tenant.tenant_id, tenant.tier, command, now)
        if isinstance(after, Rejection):
            return after
        self._keep(after)
        return support_grant.rendered(after, now)

    def of_tier(self, tenant_id: str, tier: str, now: int) -> None:
        """The tenant is of this tier now: what has not begun may have to wait for it."""
        for grant in list(self._grants.values()):
            if (after := support_grant.asked_anew(grant, tenant_id, tier, now)) is not None:
                self._keep(after)

    def _keep(self, after: SupportGrant) -> None:
        self._grants[after.grant_id] = after
        self._changed.add(after.grant_id)

    def _bill(self, tenant: DeskTenant, command: Command, now: int) -> dict[str, Any] | Rejection:
        runs = self._runs.setdefault(tenant.tenant_id, [])
        number = max((run[0] for run in runs), default=0) + 1
        run_id = identity.derived_id("br", command.scope, tenant.tenant_id, command.idempotency_key)
        billed = [period for _, period, _ in runs]
        run = billing_run.decide_billing_run(tenant, billed, number, run_id, command, now)
        if isinstance(run, Rejection):
            return run
        runs.append((number, run.period, run.prices))
        self._new_runs.append(run)
        return billing_run.rendered(run)

    def writes(self) -> list[Statement]:
        """What the batch changes."""
        changed = [self._grants[grant_id] for grant_id in sorted(self._changed)]
        new = [grant for grant in changed if grant.grant_id not in self._read]
        later = [grant for grant in changed if grant.version > 1]
        found = self._entries.writes()
        if self._new_runs:
            found.append((SQL["desk_runs_insert"], self._inserted(self._new_runs, _RUN)))
        if new:
            found.append((SQL["desk_grants_insert"], self._inserted(new, _NEW_GRANT)))
        if later:
            read = Bigints([self._read.get(grant.grant_id, 1) for grant in later])
            found.append(
                (SQL["desk_grants_update"], (*columns(later, _GRANT_CHANGES, _PACKERS), read, Count(len(later))))
            )
        return found

    def _inserted(self, rows: Sequence[Struct], names: Sequence[str]) -> tuple[Column, ...]:
        return (Integers([self._partition] * len(rows)), *columns(rows, names, _PACKERS))
