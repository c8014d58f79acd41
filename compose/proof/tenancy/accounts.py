"""What a tenant of a soak used, and what it is billed: exact, beside the model."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from compose.proof.kit.patient_caller import CallRefused

if TYPE_CHECKING:
    from compose.proof.kit.patient_caller import PatientCaller
    from compose.proof.tenancy.model import TenantModel

DIMENSION: Final = "tokens"
OLD: Final = timedelta(hours=2)  # so long ago usage is told of


def usage_is_exact(member: PatientCaller, model: TenantModel) -> None:
    """What the member reads is what the model metered. Raises CallRefused."""
    now = datetime.now(UTC)
    span = {"from": f"{now - timedelta(days=1):%Y-%m-%dT%H:%M:%SZ}", "to": f"{now + OLD:%Y-%m-%dT%H:%M:%SZ}"}
    for dimension, wanted in model.usage().items():

        def counted(dimension: str = dimension) -> list[tuple[int, int]]:
            rows = member.read("/v1/usage", dimension=dimension, window="none", **span)["data"]
            return [(row["quantity"], row["events"]) for row in rows]

        member.becomes(f"usage of {dimension}", counted, [wanted])
    found = {one["event_id"] for one in member.walk("/v1/usage_conflicts")}
    if found != model.contradicted:
        raise CallRefused(f"{len(found)} contradictions are told of {len(model.contradicted)}")


def bill_is_exact(staff: PatientCaller, tenant_id: str, model: TenantModel) -> None:
    """The period of all events, over by now; made again the invoice has the same bytes. Raises CallRefused."""
    now = datetime.now(UTC)
    period = {"from": f"{now - timedelta(days=1):%Y-%m-%dT%H:%M:%SZ}", "to": f"{now:%Y-%m-%dT%H:%M:%SZ}"}
    path = f"/v1/tenants/{tenant_id}/billing_runs"
    run = staff.do("POST", path, period | {"grace_s": 0})["billing_run_id"]
    read = f"{path}/{run}"
    staff.becomes("a billing run", lambda: staff.read(read)["state"], "finalized")
    document = f"/v1/invoices/{staff.read(read)['invoice_id']}/document"
    stored, again = staff.get(document).content, staff.get(document, recompute="true").content
    total = json.loads(stored)["total"]
    if (total, stored) != (model.used[DIMENSION], again):
        raise CallRefused(
            f"an invoice of {total}, must be {model.used[DIMENSION]}; made again equal: {stored == again}"
        )
