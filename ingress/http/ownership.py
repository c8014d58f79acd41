"""Partitions without an owner (by Kafka's consumer groups), or halted (by their owners).

Commands of such a partition wait, those of all others are served: it is said by ``/readyz``, and no reason to be taken
out of service. What Kafka does not answer is not known, and nothing is said of it.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final

from confluent_kafka import KafkaException

from ingress import limits
from ingress.http import metrics
from schemas import errors
from schemas.services import SERVICES
from sinks.kafka.admin import KafkaAdmin

if TYPE_CHECKING:
    from concurrent.futures import Future

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
        self._admin: KafkaAdmin | None = None
        self._asked: dict[str, Future[ConsumerGroupDescription]] = {}  # by group; some may be open still
        self._known: dict[str, Partitions] = {}
        self._give_up_at = self._look_again_at = float("-inf")

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
            self._admin = KafkaAdmin(self._connection.admin())
        groups = {self._connection.prefix + service.owner_group: service for service in SERVICES}
        found: Partitions = {}
        if not self._ask(self._admin, list(groups)):
            return found
        for name, future in self._asked.items():
            try:
                described = future.result(limits.OWNERSHIP_WAIT_S)
            except (KafkaException, TimeoutError):
                continue
            service = groups[name]
            nobodys = set(range(service.partitions)) - self._assigned(service, described)
            if nobodys:
                found[service.name] = sorted(nobodys)
        return found

    def _ask(self, admin: KafkaAdmin, groups: list[str]) -> bool:
        """Asks anew unless the last question is open. False when Kafka does not answer at all: then nothing is asked.

        librdkafka ends the process (an assertion) when it hears who coordinates a group after it gave up on that: so
        it never gives up. A question, one at a time and put to a Kafka that is there, is answered, or fails with its
        connection, or ends with its client, which is harmless.
        """
        if not all(future.done() for future in self._asked.values()):
            if time.monotonic() < self._give_up_at:
                return True
            self._admin, self._asked = None, {}  # it is gone when this look is over
            return False
        try:
            admin.list_topics(self._connection.topic(SERVICES[0].commands_topic), limits.OWNERSHIP_WAIT_S)
        except KafkaException:
            return False
        self._give_up_at = time.monotonic() + limits.OWNERSHIP_GIVEN_UP_S
        self._asked = admin.describe_consumer_groups(groups, request_timeout=limits.OWNERSHIP_NEVER_S)
        return True

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
