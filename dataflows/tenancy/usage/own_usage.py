"""What our own events meter: each committed write of a resource, once, whatever is read again.

The identity follows from the event alone, so a replay of the events meters the same. Counted in one transaction with
the position behind the events.
"""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from dataflows.tenancy.usage.counting import SQL, Metered, count
from dataflows.tenancy.usage.metrics import count as count_metrics
from dataflows.worker.event_worker import CountingWorker
from schemas.tenancy.service import SERVICE
from schemas.tenancy.usage_event import OWN_SOURCES, RESOURCE_WRITES, UsageEvent
from schemas.tenancy.usage_topic import USAGE_PARTITIONS, counted_partitions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dataflows.worker.contract import WorkerPlace
    from schemas.records import Event
    from sinks.postgres.owner_connection import OwnerConnection
    from sinks.streams.positions import Taken

SOURCE: Final = f"{OWN_SOURCES}resources"
FOLLOWER: Final = "tenancy_own_usage"
_GROUP: Final = "tenancy-metering-own"
_OPERATIONS: Final = frozenset({"create_resource", "replace_resource", "delete_resource"})
_OF_TENANT: Final = "tenant:"
_NAMES: Final = uuid.UUID("6d1f3f0e-6f0b-5a3e-9d0a-2f6f3a1b8c11")


def metered(event: Event) -> Metered | None:
    """The usage that an event tells; None of most."""
    if event.operation not in _OPERATIONS or not event.scope.startswith(_OF_TENANT):
        return None
    tenant_id = event.scope.removeprefix(_OF_TENANT)
    identity = uuid.uuid5(_NAMES, f"{tenant_id}\x1f{event.event_id}\x1f{RESOURCE_WRITES}")
    return Metered(tenant_id, UsageEvent(SOURCE, str(identity), RESOURCE_WRITES, 1, None, event.occurred_at))


def own_usage(place: WorkerPlace) -> CountingWorker:
    """Follows the events of tenancy and counts what they meter."""
    own = replace(place, name=FOLLOWER, client_id=f"{place.client_id}-own")
    return CountingWorker(own, SERVICE, _begin, _count, _GROUP)


def _begin(connection: OwnerConnection) -> None:
    every = {"partitions": list(range(counted_partitions(SERVICE.partitions)))}
    connection.execute(SQL["counted_begin"].encode(), every)


def _count(connection: OwnerConnection, taken: Sequence[Taken]) -> None:
    usage = {
        USAGE_PARTITIONS + one.partition: [
            found for accepted in one.events if (found := metered(accepted.event)) is not None
        ]
        for one in taken
    }
    if any(usage.values()):
        count_metrics(count(connection, usage))
