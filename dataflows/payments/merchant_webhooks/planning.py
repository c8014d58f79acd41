"""Which endpoints get which events, and the rows that this makes. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from schemas import identity, limits, rendering
from schemas.payments import rendering as payments_rendering
from schemas.payments.event_names import event_name, subject_of
from schemas.records import Event

EVERYTHING: Final = "*"
_SKEW_US: Final = limits.CLOCK_SKEW_MAX_S * 1_000_000
_encode: Final = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """What decides whether an endpoint gets an event."""

    id: str
    merchant_id: str
    events: Sequence[str]
    created_at: int  # microseconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """One event for one endpoint."""

    id: str
    endpoint_id: str
    event_id: str
    aggregate_key: str
    seq: int
    operation: str
    body: bytes


def plan(events: Iterable[Event], endpoints: Iterable[Endpoint]) -> list[Delivery]:
    """A delivery for every event and endpoint of its merchant that wants it, in the order of the events."""
    by_merchant: dict[str, list[Endpoint]] = defaultdict(list)
    for endpoint in endpoints:
        by_merchant[endpoint.merchant_id].append(endpoint)
    return [
        delivery
        for event in events
        for delivery in _of_event(event, [e for e in by_merchant.get(event.scope, ()) if _wants(e, event)])
    ]


def _wants(endpoint: Endpoint, event: Event) -> bool:
    """An event from before the endpoint was made is none of its; clocks may differ by a little."""
    named = {EVERYTHING, event.operation, event_name(event.operation, event.body)}
    is_asked_for = not named.isdisjoint(endpoint.events)
    return is_asked_for and event.occurred_at + _SKEW_US >= endpoint.created_at


def told(event: Event) -> dict[str, Any]:
    """What is posted: the event as /v1/events shows it, and the three members of Standard Webhooks beside it."""
    shown = rendering.event(event, payments_rendering.payment_event_body(event.body))
    return shown | {
        "type": event_name(event.operation, event.body),
        "timestamp": shown["occurred_at"],
        "data": shown["body"].get(subject_of(event.body)),
    }


def _of_event(event: Event, endpoints: Sequence[Endpoint]) -> list[Delivery]:
    if not endpoints:
        return []
    body = _encode(told(event))
    return [
        Delivery(
            id=identity.derived_id("wd", endpoint.id, "deliver", event.event_id),
            endpoint_id=endpoint.id,
            event_id=event.event_id,
            aggregate_key=event.aggregate_key,
            seq=event.seq,
            operation=event.operation,
            body=body,
        )
        for endpoint in endpoints
    ]
