"""Renders an event as public JSON; its service renders the body. Times are RFC 3339 in UTC."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from schemas.renderer import timestamp, timestamps

if TYPE_CHECKING:
    from schemas.records import Event

__all__ = ["event", "timestamp", "timestamps"]


def event(committed: Event, body: dict[str, Any]) -> dict[str, Any]:
    """The public envelope of an event around its rendered body. Cursors tell its place."""
    return {
        "event_id": committed.event_id,
        "aggregate_key": committed.aggregate_key,
        "event_type": committed.event_type,
        "schema_version": committed.schema_version,
        "trace_id": committed.trace_id,
        "occurred_at": timestamp(committed.occurred_at),
        "version": committed.version,
        "operation": committed.operation,
        "body": body,
    }
