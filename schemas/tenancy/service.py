"""The multi-tenant platform as a service: tenants, their resources, quotas, keys, placements and moves."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Struct

from schemas.fields.column import Column
from schemas.service import EventType, Service, Worker
from schemas.tenancy import limits
from schemas.tenancy.desk_operations import DESK_OPERATIONS
from schemas.tenancy.operations import OPERATIONS, READ, SERVICE_NAME, STAFF
from schemas.tenancy.usage_topic import USAGE_TOPIC


class TenancyEventBody(Struct, kw_only=True):
    """What an event of a tenant says: the tenant, and the resource that was written, if one was."""

    tenant_id: Annotated[str, Column("whose it is")]
    state: Annotated[str, Column("of the tenant, afterwards")]
    policy_version: Annotated[int, Column("of the tenant", minimum=0)]
    generation: Annotated[int, Column("of its placement", minimum=0)]
    resource_id: Annotated[str | None, Column("the resource that was written; null when none was")]
    resource_version: Annotated[int | None, Column("of that resource")]
    deleted: Annotated[bool, Column("whether that resource is deleted")]
    size: Annotated[int, Column("of its payload, in bytes", minimum=0)]


MOVER: Final = Worker(name="tenancy_mover", module="dataflows.tenancy.mover.worker", role="millrace_tenancy_mover")
METERING: Final = Worker(
    name="tenancy_metering", module="dataflows.tenancy.usage.worker", role="millrace_tenancy_metering"
)
MONITOR: Final = Worker(
    name="tenancy_monitor",
    module="compose.isolation.worker",
    role="millrace_tenancy_monitor",
    secrets=("redis",),
)
SERVICE: Final = Service(
    name=SERVICE_NAME,
    code="t",
    doc="tenants and their resources",
    read_scope=READ,
    further_read_scopes=(STAFF,),
    owner_role="millrace_tenancy_owner",
    partitions=limits.TENANCY_PARTITIONS,
    operations=(*OPERATIONS, *DESK_OPERATIONS),
    further_topics=(USAGE_TOPIC,),
    event_types=(
        EventType(
            name="multi_tenant_saas_committed",
            record="MultiTenantSaasCommitted",
            body=TenancyEventBody,
            doc="what was committed for a tenant",
        ),
    ),
    workers=(MOVER, METERING, MONITOR),
    takes_turns=True,
)
