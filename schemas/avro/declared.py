"""Avro schemas from declarations: the commands of operations, the events of services, and the envelope of each, once.

A schema's version holds what came up to it (``since``); what came later is null in older records, so the newest reader
reads all of them. Schemas whose older versions had another shape lie in ``avro/`` as files.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct

from schemas.fields.column import Declared, Kind, declared
from schemas.fields.validation import Field
from schemas.operation import Operation
from schemas.service import EventType

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


_EVENT_ENVELOPE: Final = (
    ("event_id", "string", "immutable event identity"),
    ("aggregate_key", "string", "partition key"),
    ("event_type", "string", "what kind of event"),
    ("schema_version", "int", "version of this schema"),
    ("trace_id", "string", "trace identity"),
    ("seq", "long", "1, 2, 3 ... within its partition, without gap"),
    ("occurred_at", "long", "microseconds since the epoch"),
    ("version", "long", "of the aggregate"),
    ("scope", "string", "whose aggregate it is"),
    ("operation", "string", "what was done"),
)
_TYPES: Final[dict[Kind, AvroSchema | str]] = {
    "text": "string",
    "integer": "int",
    "bigint": "long",
    "time": "long",
    "boolean": "boolean",
    "texts": {"type": "map", "values": "string"},
}


def event(service: str, type_: EventType, version: int) -> AvroSchema:
    """The schema of an event, at this version. Raises ValueError for a type that does not say what is in it."""
    if type_.body is None:
        raise ValueError(f"{type_.record} declares no body")
    envelope = [{"name": name, "type": kind, "doc": doc} for name, kind, doc in _EVENT_ENVELOPE]
    inside = _record(type_.body, f"{type_.record}Body", version, set())
    return {
        "type": "record",
        "name": type_.record,
        "namespace": f"millrace.{service}",
        "doc": type_.doc,
        "fields": [*envelope, {"name": "body", "type": inside, "doc": "what it did"}],
    }


def newest_event_version(body: type[Struct]) -> int:
    """The version of an event's schema that holds all fields of its records."""
    inside = [field.record for field in declared(body) if field.record is not None]
    return max([1, *(f.column.since for f in declared(body)), *map(newest_event_version, inside)])


def _record(record: type[Struct], name: str, version: int, known: set[str]) -> AvroSchema | str:
    """A record where it is met first, its name from then on."""
    if name in known:
        return name
    known.add(name)
    fields = [field for field in declared(record) if field.column.since <= version]
    in_order = sorted(fields, key=lambda field: field.column.since)
    return {"type": "record", "name": name, "fields": [_column(field, version, known) for field in in_order]}


def _column(field: Declared, version: int, known: set[str]) -> AvroSchema:
    inside = field.record
    kind: Any = _TYPES[field.kind] if inside is None else _record(inside, inside.__name__, version, known)
    if field.kind == "records":
        kind = {"type": "array", "items": kind}
    kind = ["null", kind] if field.nullable else kind
    # What came later has to have one: older records are read with it.
    default = {"default": None if field.nullable else 0} if field.has_default else {}
    return {"name": field.name, "type": kind, "doc": field.column.doc, **default}
