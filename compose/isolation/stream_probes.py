"""Probes of Kafka: no record has under one tenant's key what is another's, and nobody may do more than was declared.

Records are read as this process may: usage and events of tenants, of each partition the newest since the round before.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from compose import limits
from compose.isolation.found import Found
from compose.settings.kafka_access import ACCESS, written_outside
from schemas.services import TOPICS
from schemas.tenancy.service import MONITOR, SERVICE
from schemas.tenancy.usage_topic import USAGE, USAGE_PARTITIONS
from sinks.kafka.access import rules_beyond
from sinks.kafka.appended import AppendedRecords

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from compose.isolation.canaries import Canary
    from sinks.kafka.connection import KafkaConnection

READ: Final = {SERVICE.events_topic: SERVICE.partitions, USAGE: USAGE_PARTITIONS}
_NAME_LENGTH: Final = 64  # of a tenant as evidence shows it: who writes to Kafka names it as it likes


class StreamProbes:
    """Those of one monitor: it knows how far it has read."""

    def __init__(self, kafka: KafkaConnection, client_id: str, *, has_rules: bool) -> None:
        """``has_rules``: the broker is the embedded one, which takes of each process what is declared alone."""
        self._kafka = kafka
        self._has_rules = has_rules
        self._topics_at = 0.0  # what the broker shows is asked for once a minute, as its rules are
        (group,) = ACCESS[MONITOR.name].groups
        self._appended = AppendedRecords(kafka, READ, client_id, group, limits.ISOLATION_RECORDS_MAX)

    def rules_beyond(self) -> list[str] | None:
        """What anybody may do at the broker and should not; None where the rules are not ours. Raises Unavailable."""
        if not self._has_rules:
            return None
        prefix = self._kafka.prefix
        users = [access.user(name, "", prefix) for name, access in ACCESS.items()]
        return rules_beyond(self._kafka.admin(), users, {prefix + name for name in written_outside()})

    def probes(self, canaries: Sequence[Canary]) -> Generator[Found]:
        """All of them. Raises Unavailable."""
        if self._has_rules and time.monotonic() >= self._topics_at:
            yield self._topics()
            self._topics_at = time.monotonic() + limits.ISOLATION_REMEMBERED_S
        found = {
            evidence
            for topic, message in self._appended.read()
            if (evidence := misplaced(topic, message.key() or b"", message.value() or b"", canaries))
        }
        for evidence in sorted(found, key=lambda one: not one.is_leak)[: limits.ISOLATION_NAMED_MAX]:
            yield evidence
        if not found:
            yield Found(_RECORDS)

    def _topics(self) -> Found:
        """A broker that shows a topic of others lets this process read or write it."""
        seen = self._appended.seen() & {topic.name for topic in TOPICS}
        foreign = sorted(seen.difference(ACCESS[MONITOR.name].reads, ACCESS[MONITOR.name].writes))
        named = ", ".join(foreign[: limits.ISOLATION_NAMED_MAX])
        return Found("topics of others", f"this process may use {named}" if foreign else None)


_RECORDS: Final = "records in Kafka"


def misplaced(topic: str, key: bytes, value: bytes, canaries: Sequence[Canary]) -> Found | None:
    """What a record shows of a canary that it should not.

    A payload proves that it is not sealed, an event that names another's resource that its owner took one for the
    other. Usage with another's subject proves it between canaries, for whom nobody else can send any; under any other
    tenant's key it may be one who has read that subject in ClickHouse.
    """
    tenant_id = key.partition(b":")[0].decode(errors="replace")
    is_canary = any(canary.tenant_id == tenant_id for canary in canaries)
    for canary in canaries:
        if canary.marker.encode() in value or canary.marker.encode() in key:
            return Found(_RECORDS, f"a canary's payload is in {topic}, unsealed", is_leak=True)
        if canary.tenant_id == tenant_id:
            continue
        is_named = canary.resource_id.encode() in value
        if is_named or canary.subject.encode() in value:
            evidence = f"what is {canary.tenant_id}'s is in {topic} under the key of {tenant_id[:_NAME_LENGTH]}"
            return Found(_RECORDS, evidence, is_leak=is_canary or (is_named and topic != USAGE))
    return None
