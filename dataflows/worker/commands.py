"""Commands that workers send. Their identity is what they are about: each is carried out once, however often sent."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Final

from confluent_kafka import Producer

from dataflows.owner import fail_points
from dataflows.worker.contract import WorkerPlace
from schemas.operation import Operation
from schemas.records import Command, Event
from schemas.senders import WORKER_SCOPE
from schemas.services import OPERATIONS
from schemas.unattended_command import unattended_command
from sinks.kafka.delivery import command_letter, why_not_delivered

_NO_TRACE: Final = "0" * 32


def command_of(event: Event, operation: Operation, worker: str, payload: dict[str, Any]) -> Command:
    """A command to the event's own aggregate. Its identity is the event's."""
    return unattended_command(
        operation,
        event.aggregate_key,
        payload,
        scope=f"{WORKER_SCOPE}{worker}",
        request_id=f"{worker}:{event.event_id}",
        idempotency_key=f"{operation.name}:{event.event_id}",
        trace_id=event.trace_id,
        issued_at=event.occurred_at,
    )


def command_about(worker: str, operation: str, about: str, aggregate_key: str, payload: dict[str, Any]) -> Command:
    """A command that no event asks for. ``about`` with the operation is its identity."""
    return unattended_command(
        OPERATIONS[operation],
        aggregate_key,
        payload,
        scope=f"{WORKER_SCOPE}{worker}",
        request_id=f"{operation}:{about}",
        idempotency_key=f"{operation}:{about}",
        trace_id=_NO_TRACE,
        issued_at=time.time_ns() // 1_000,
    )


class CommandSender:
    """The producer of one worker's process."""

    def __init__(self, place: WorkerPlace) -> None:
        self._kafka = place.kafka
        self._producer = Producer(place.kafka.producer(place.client_id))

    def why_not_sent(self, commands: Sequence[Command]) -> str | None:
        """None once all of them are on all in-sync replicas; else why that is not known: send them again later."""
        if not commands:
            return None
        letters = [command_letter(self._kafka, command) for command in commands]
        reason = why_not_delivered(self._kafka, self._producer, letters)
        if reason is None:
            fail_points.reach("worker_after_send")
        return reason
