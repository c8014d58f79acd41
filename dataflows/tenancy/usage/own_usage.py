"""What our own events meter: each committed write of a resource, once, whatever is read again.

The identity follows from the event alone, so a replay of the events meters the same. Counted in one transaction with
the position behind the events.
"""

from __future__ import annotations

import threading
import uuid
from typing import TYPE_CHECKING, Final

import psycopg

from dataflows import limits
from dataflows.tenancy.usage.counting import SQL, Metered, count
from dataflows.tenancy.usage.metrics import count as count_metrics
from schemas import errors
from schemas.tenancy.service import SERVICE
from schemas.tenancy.usage_event import OWN_SOURCES, UsageEvent
from schemas.tenancy.usage_topic import USAGE_PARTITIONS, counted_partitions
from sinks.postgres import owner_connection
from sinks.streams.follower import Followed, Follower
from sinks.streams.metrics import FollowerMetrics

if TYPE_CHECKING:
    from collections.abc import Sequence

    from schemas.records import Event
    from sinks.kafka.connection import KafkaConnection
    from sinks.postgres.owner_connection import OwnerConnection
    from sinks.streams.positions import Taken

WRITES: Final = "resource_writes"
SOURCE: Final = f"{OWN_SOURCES}resources"
FOLLOWER: Final = "tenancy_own_usage"
_OPERATIONS: Final = frozenset({"create_resource", "replace_resource", "delete_resource"})
_OF_TENANT: Final = "tenant:"
_NAMES: Final = uuid.UUID("6d1f3f0e-6f0b-5a3e-9d0a-2f6f3a1b8c11")


def metered(event: Event) -> Metered | None:
    """The usage that an event tells; None of most."""
    if event.operation not in _OPERATIONS or not event.scope.startswith(_OF_TENANT):
        return None
    tenant_id = event.scope.removeprefix(_OF_TENANT)
    identity = uuid.uuid5(_NAMES, f"{tenant_id}\x1f{event.event_id}\x1f{WRITES}")
    return Metered(tenant_id, UsageEvent(SOURCE, str(identity), WRITES, 1, None, event.occurred_at))


class OwnUsage:
    """Follows the events of tenancy and counts what they meter, until ``stop``."""

    def __init__(self, kafka: KafkaConnection, dsn: str, client_id: str) -> None:
        followed = Followed(
            follower=FOLLOWER,
            topic=SERVICE.events_topic,
            group="tenancy-metering-own",
            fetch_bytes_min=1,
            fetch_wait_ms=limits.WORKER_FETCH_WAIT_MS,
        )
        self._dsn = dsn
        self._client_id = client_id
        self._follower = Follower(kafka, dsn, followed, client_id, FollowerMetrics(FOLLOWER))
        self._connection: OwnerConnection | None = None
        self._stop = threading.Event()

    def run(self) -> None:
        """Counts until ``stop``; servers that are away are waited for."""
        try:
            while not self._stop.is_set():
                taken = self._follower.read(limits.WORKER_EVENTS_MAX, limits.WORKER_POLL_MS / 1_000)
                if taken:
                    self._count(taken)
        finally:
            self._follower.close()
            self._leave()

    def stop(self) -> None:
        """Ends ``run`` after the events under way."""
        self._stop.set()

    def why_not_ready(self) -> str | None:
        """None while every partition goes on."""
        return self._follower.why_not_ready()

    def _count(self, taken: Sequence[Taken]) -> None:
        try:
            connection = self._connected()
            with connection.transaction():
                told = {
                    USAGE_PARTITIONS + one.partition: [
                        found for accepted in one.events if (found := metered(accepted.event)) is not None
                    ]
                    for one in taken
                }
                if any(told.values()):
                    count_metrics(count(connection, told))
                self._follower.advance(connection, taken)
        except (psycopg.OperationalError, psycopg.InterfaceError, errors.Fenced) as error:
            self._leave()
            self._follower.begin_again(error)

    def _connected(self) -> OwnerConnection:
        if self._connection is None:
            self._connection = owner_connection.connect(self._dsn, f"{self._client_id}-own")
            every = {"partitions": list(range(counted_partitions(SERVICE.partitions)))}
            self._connection.execute(SQL["counted_begin"].encode(), every)
        return self._connection

    def _leave(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
