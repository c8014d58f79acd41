"""Closes counters that are full, by a command of the platform's own; once, whenever it is killed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dataflows.worker.commands import command_of
from dataflows.worker.contract import WorkerPlace
from dataflows.worker.event_worker import EventWorker
from dataflows.worker.reactor import reactor
from schemas.records import Command, Event
from tests.services.counter.domain import FULL
from tests.services.counter.service import SERVICE

CLOSE_FULL = SERVICE.operation_by_name["close_full_counter"]


def react(event: Event) -> Sequence[Command]:
    """The add that filled it, and no later event, closes it."""
    body: dict[str, Any] = event.body
    is_filled = body["value"] >= FULL > body["value"] - body["added"]
    return [command_of(event, CLOSE_FULL, "counter_closer", {})] if is_filled and body["added"] else []


def build(place: WorkerPlace) -> EventWorker:
    """One process of it."""
    return reactor(place, SERVICE, react)
