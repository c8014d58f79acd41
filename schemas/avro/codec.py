"""Avro with Confluent's wire prefix: a zero byte, the schema id (4 bytes, big-endian), the body.

Ids come from the append-only table ``avro/ids.json``. If two processes disagreed on an id, records would be misread:
golden bytes of every version are checked in and read by a test.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any, Final

import msgspec
from fastavro import parse_schema

from schemas import errors, records, services
from schemas.avro import declared
from schemas.avro import decoder as decoders
from schemas.avro import encoder as encoders

_PREFIX_BYTES: Final = 5


@dataclass(frozen=True)
class Schema:
    """One version of one record schema, with its id in the registry.

    What it is compiled to is made when it is first asked for: a process reads and writes few of all records.
    """

    schema_id: int
    subject: str
    version: int
    name: str  # the record's short name
    text: str  # as the registry gives it

    @cached_property
    def parsed(self) -> Any:
        """As fastavro takes it, for schema resolution."""
        return parse_schema(json.loads(self.text))

    @cached_property
    def encoder(self) -> encoders.Encode:
        """Of the whole record with its prefix."""
        return encoders.compiled(json.loads(self.text), b"\x00" + self.schema_id.to_bytes(4, "big"))

    @cached_property
    def decoder(self) -> decoders.Decode:
        """Of what follows the prefix."""
        return decoders.compiled(json.loads(self.text))

    @cached_property
    def command_decoder(self) -> decoders.Decode | None:
        """Straight into a Command; None when the record is none."""
        operation = services.BY_RECORD.get(self.name)
        if operation is None:
            return None
        return decoders.compiled(json.loads(self.text), records.Command, operation=operation.name)

    def compile(self) -> None:
        """Makes now all that a process reads and writes by."""
        _ = self.encoder, self.decoder, self.command_decoder


@cache
def schemas_by_id() -> dict[int, Schema]:
    """Every schema of ids.json, and of those of services in packages of their own; read once per process."""
    found: dict[int, Schema] = {}
    for package in ("schemas", *(service.home for service in services.FURTHER)):
        folder = resources.files(package) / "avro"
        for key, row in json.loads((folder / "ids.json").read_text()).items():
            if int(key) in found:
                raise ValueError(f"{package} names schema {key} again")
            found[int(key)] = _load(int(key), row, _text(folder, row))
    return found


def _text(folder: Traversable, row: dict[str, Any]) -> str:
    """The schema of a row: its file, or what the operation or the event type of its record declares."""
    if "file" in row:
        return (folder / str(row["file"])).read_text()
    name = row["subject"].rpartition("-")[2]
    if name in services.BY_RECORD:
        made = declared.command(services.BY_RECORD[name], row["version"])
    else:
        service, event_type = services.EVENT_BY_RECORD[name]
        made = declared.event(service.name, event_type, row["version"])
    return json.dumps(made, indent=2, ensure_ascii=False) + "\n"


def _load(schema_id: int, row: dict[str, Any], text: str) -> Schema:
    name = json.loads(text)["name"]
    return Schema(schema_id=schema_id, subject=row["subject"], version=row["version"], name=name, text=text)


def versions(name: str) -> list[Schema]:
    """The versions of a record's schema, oldest first."""
    return sorted((s for s in schemas_by_id().values() if s.name == name), key=lambda s: s.version)


@cache
def _pinned() -> dict[str, Schema]:
    """What is written of some records instead of the newest version. Raises ValueError on what cannot be pinned.

    Only the version before the newest one is: it is what readers of the release before ours know.
    """
    found = {}
    for text in os.environ.get("MILLRACE_WRITTEN_SCHEMAS", "").split():
        name, _, version = text.partition("=")
        allowed = {str(schema.version): schema for schema in versions(name)[-2:]}
        if version not in allowed:
            known = " or ".join(f"{name}={number}" for number in allowed) or "no record of that name"
            raise ValueError(f"MILLRACE_WRITTEN_SCHEMAS: {text!r} cannot be written; there is {known}")
        found[name] = allowed[version]
    return found


@cache
def schema_named(name: str) -> Schema:
    """The version of a record's schema that is written: the newest one, unless another is pinned."""
    return _pinned().get(name) or versions(name)[-1]


def encode(name: str, record: object) -> bytes:
    """The record as prefixed Avro of the schema that is written of that name; a dict, or a Struct with its fields."""
    return schema_named(name).encoder(record)


def decode(data: bytes) -> tuple[Schema, dict[str, Any]]:
    """The schema and the fields of a prefixed record. Raises UnknownSchema or UndecodableRecord, nothing else."""
    schema = _schema_of(data)
    return schema, _decoded(data, schema, schema.decoder)


def _schema_of(data: bytes) -> Schema:
    if len(data) < _PREFIX_BYTES or data[0] != 0:
        raise errors.UndecodableRecord(length=len(data))
    schema_id = int.from_bytes(data[1:_PREFIX_BYTES], "big")
    schema = schemas_by_id().get(schema_id)
    if schema is None:
        raise errors.UnknownSchema(schema_id=schema_id)
    return schema


def _decoded(data: bytes, schema: Schema, decoder: decoders.Decode) -> Any:
    try:
        value, end = decoder(data, _PREFIX_BYTES)
    except Exception as error:
        raise errors.UndecodableRecord(schema_id=schema.schema_id, cause=type(error).__name__) from error
    if end > len(data):
        raise errors.UndecodableRecord(schema_id=schema.schema_id, cause="EOFError")
    if end < len(data):
        raise errors.UndecodableRecord("The record has bytes after its end.", schema_id=schema.schema_id)
    return value


def encode_command(command: records.Command) -> bytes:
    """A command as its operation's Avro record."""
    fields = msgspec.structs.asdict(command)
    return encode(services.OPERATIONS[fields.pop("operation")].record, fields)


def decode_command(data: bytes) -> records.Command:
    """A command from its bytes. Raises UnknownSchema or UndecodableRecord."""
    schema = _schema_of(data)
    if schema.command_decoder is None:
        raise errors.UndecodableRecord("The record is not a command.", schema=schema.name)
    command: records.Command = _decoded(data, schema, schema.command_decoder)
    return command


def decode_event(data: bytes) -> records.Event:
    """An event from its bytes. Raises UnknownSchema or UndecodableRecord."""
    schema, fields = decode(data)
    if not schema.subject.startswith("events."):
        raise errors.UndecodableRecord("The record is not an event.", schema=schema.name)
    return records.Event(**fields)


def decode_results(data: bytes) -> list[records.Result]:
    """The results of one record of results.v1. Raises UnknownSchema or UndecodableRecord."""
    schema, fields = decode(data)
    if schema.name != "ResultBatch":
        raise errors.UndecodableRecord("The record is not a batch of results.", schema=schema.name)
    return [records.Result(**r) for r in fields["results"]]


if "MILLRACE_WRITTEN_SCHEMAS" in os.environ:
    try:
        _pinned()
    except ValueError as error:  # ends the process at its start, not at its first command
        sys.exit(str(error))
