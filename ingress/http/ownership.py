"""Which partitions nobody decides: without an owner as Kafka's groups say it, or halted as the owners do.

Commands of such a partition wait, those of all others are served: it is said by ``/readyz``, and no reason to be taken
out of service. What Kafka does not answer is not known, and nothing is said of it.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from ingress import limits
from ingress.http import metrics
from schemas import errors
from schemas.services import SERVICES

if TYPE_CHECKING:
    from confluent_kafka.admin._group import ConsumerGroupDescription

    from ingress.http.store import Store
    from schemas.service import Service
    from sinks.kafka.connection import KafkaConnection

Partitions = dict[str, list[int]]  # by service
WITHOUT_OWNER: Final = "without_owner"
HALTED: Final = "halted"


class Ownership:
    """Looks now and then; an answer holds for OWNERSHIP_LOOK_INTERVAL_S."""

    def __init__(self, connection: KafkaConnection, store: Store) -> None:
        self._connection = connection
        self._store = store
        self._admin: AdminClient | None = None
        self._known: dict[str, Partitions] = {}
        self._look_again_at = float("-inf")

    async def missing(self) -> dict[str, Partitions]:
        """What stands still, by why; empty when every partition is decided by somebody."""
        if time.monotonic() >= self._look_again_at:
            self._look_again_at = time.monotonic() + limits.OWNERSHIP_LOOK_INTERVAL_S
            found = {WITHOUT_OWNER: await asyncio.to_thread(self._without_owner), HALTED: await self._halted()}
            self._known = {why: partitions for why, partitions in found.items() if partitions}
            for why, partitions in found.items():
                for service in SERVICES:
                    metrics.STANDING_STILL.labels(service.name, why).set(len(partitions.get(service.name, ())))
        return self._known

    def _without_owner(self) -> Partitions:
        if self._admin is None:
            self._admin = AdminClient(self._connection.admin())
        groups = {self._connection.prefix + service.owner_group: service for service in SERVICES}
        asked = self._admin.describe_consumer_groups(list(groups), request_timeout=limits.OWNERSHIP_WAIT_S)
        found: Partitions = {}
        for name, future in asked.items():
            try:
                described = future.result(limits.OWNERSHIP_WAIT_S)
            except (KafkaException, TimeoutError):
                continue
            service = groups[name]
            nobodys = set(range(service.partitions)) - self._assigned(service, described)
            if nobodys:
                found[service.name] = sorted(nobodys)
        return found

    def _assigned(self, service: Service, described: ConsumerGroupDescription) -> set[int]:
        topic = self._connection.topic(service.commands_topic)
        places = [place for member in described.members for place in member.assignment.topic_partitions]
        return {place.partition for place in places if place.topic == topic}

    async def _halted(self) -> Partitions:
        try:
            rows = await self._store.rows("partitions_halted", {})
        except errors.Unavailable:
            return {}
        service_of = {service.commands_topic: service.name for service in SERVICES}
        found: Partitions = {}
        for topic, partition in rows:
            found.setdefault(service_of.get(topic, topic), []).append(partition)
        return found
