"""Avro schemas from declarations: the command of an operation, and the envelope that all commands have, once.

A schema's version holds what came up to it (``since``); what came later is null in older records, so the newest reader
reads all of them. Schemas whose older versions had another shape lie in ``avro/`` as files.
"""

from __future__ import annotations

from typing import Any, Final

from schemas.operation import Operation
from schemas.validation import Field

AvroSchema = dict[str, Any]

_ENVELOPE: Final[tuple[AvroSchema, ...]] = (
    {"name": "request_id", "type": "string", "doc": "identity of this request"},
    {"name": "idempotency_key", "type": "string", "doc": "retry identity, unique per scope"},
    {"name": "aggregate_key", "type": "string", "doc": "partition key of the target aggregate"},
    {
        "name": "expected_version",
        "type": ["null", "long"],
        "doc": "version the caller expects; null = does not care",
    },
    {
        "name": "scope",
        "type": "string",
        "doc": "merchant or tenant that asks; processor:<name> for a fact of a processor",
    },
    {
        "name": "request_hash",
        "type": {"type": "fixed", "name": "Sha256", "size": 32},
        "doc": "SHA-256 of operation, aggregate and canonical payload",
    },
    {"name": "trace_id", "type": "string", "doc": "trace identity, 32 hex digits"},
    {"name": "issued_at", "type": "long", "doc": "when the ingress took it, microseconds since the epoch"},
    {"name": "deadline_at", "type": "long", "doc": "not started after this, microseconds since the epoch; 0 = none"},
    {"name": "reply_to", "type": "int", "doc": "partition of results.v1 that waits; -1 = none"},
    {"name": "reply_id", "type": "long", "doc": "correlation of the waiting call"},
)


def newest_version(operation: Operation) -> int:
    """The version of a command's schema that holds all of its fields."""
    fields = [*operation.payload.values(), *([operation.signals] if operation.signals else [])]
    return max((field.since for field in fields), default=1)


def command(operation: Operation, version: int) -> AvroSchema:
    """The schema of an operation's command, at this version."""
    payload = {
        "type": "record",
        "name": f"{operation.record}Payload",
        "fields": _fields(operation.payload, version),
    }
    signals = _fields({"signals": operation.signals}, version) if operation.signals else []
    return {
        "type": "record",
        "name": operation.record,
        "namespace": f"millrace.{operation.service}",
        "doc": operation.template if operation.method == "POST" else operation.summary,
        "fields": [*_ENVELOPE, {"name": "payload", "type": payload, "doc": "the operation's own fields"}, *signals],
    }


def _fields(fields: dict[str, Field], version: int) -> list[AvroSchema]:
    """In the order in which they came: an older record is a beginning of a newer one."""
    known = [(name, field) for name, field in fields.items() if field.since <= version]
    return [_field(name, field) for name, field in sorted(known, key=lambda item: item[1].since)]


def _field(name: str, field: Field) -> AvroSchema:
    kind = ["null", field.type.avro] if field.nullable else field.type.avro
    came_later = {"default": None} if field.since > 1 else {}
    return {"name": name, "type": kind, "doc": field.doc, **came_later}
