"""Bytes written once mean the same for ever: golden files, the append-only table of ids, readers of newer versions."""

from __future__ import annotations

import copy
import io
import json
from typing import Any

import pytest
from fastavro import parse_schema, schemaless_reader
from fastavro.read import SchemaResolutionError

from schemas.avro import codec
from tests.contracts import golden
from tests.each import each

SCHEMAS = list(codec.schemas_by_id().values())
BY_STEM = {golden.stem(schema): schema for schema in SCHEMAS}
GOLDEN = sorted(p.stem for p in golden.FOLDER.glob("*.bin"))


def readable_by(newest: Any, oldest: Any, data: bytes) -> Any:
    """The record that a reader of the newest schema gets from bytes of an older one."""
    return schemaless_reader(io.BytesIO(data), oldest, newest)


def test_every_version_has_golden_bytes() -> None:
    """If one is missing: ``python -m tests.contracts.golden``."""
    missing = BY_STEM.keys() - set(GOLDEN)
    assert not missing


@each("stem", GOLDEN)
def test_golden_bytes_read_as_the_record_beside_them(stem: str) -> None:
    data = (golden.FOLDER / f"{stem}.bin").read_bytes()
    expected = golden.of_json(json.loads((golden.FOLDER / f"{stem}.json").read_text()))
    schema, fields = codec.decode(data)
    assert golden.stem(schema) == stem
    assert fields == expected


@each("stem", [stem for stem, schema in BY_STEM.items() if codec.schema_named(schema.name) is schema])
def test_the_newest_version_writes_its_golden_bytes(stem: str) -> None:
    expected = (golden.FOLDER / f"{stem}.bin").read_bytes()
    record = golden.of_json(json.loads((golden.FOLDER / f"{stem}.json").read_text()))
    assert codec.encode(BY_STEM[stem].name, record) == expected


def test_ids_only_grow() -> None:
    """An id, once given, names the same subject, version and schema for ever."""
    listed = json.loads(golden.IDS.read_text())
    current = {
        str(s.schema_id): {"subject": s.subject, "version": s.version, "sha256": golden.schema_hash(s)} for s in SCHEMAS
    }
    for schema_id, row in listed.items():
        assert current.get(schema_id) == row, f"schema id {schema_id} was changed or removed"
    assert current.keys() == listed.keys(), "enter new ids with python -m tests.contracts.golden"


def test_versions_have_no_gap() -> None:
    for subject in {s.subject for s in SCHEMAS}:
        versions = sorted(s.version for s in SCHEMAS if s.subject == subject)
        assert versions == list(range(1, len(versions) + 1)), subject


@each("stem", GOLDEN)
def test_every_older_version_is_readable_by_the_newest_reader(stem: str) -> None:
    data = (golden.FOLDER / f"{stem}.bin").read_bytes()
    schema, fields = codec.decode(data)
    newest = codec.schema_named(schema.name)
    read = readable_by(newest.parsed, schema.parsed, data[5:])
    assert as_written(read, fields) == fields


def as_written(read: Any, written: Any) -> Any:
    """What was read without the fields that the writer did not know, at any depth."""
    if isinstance(written, dict) and isinstance(read, dict):
        return {name: as_written(read[name], value) for name, value in written.items()}
    if isinstance(written, list):
        return [as_written(*pair) for pair in zip(read, written, strict=True)]
    return read


@each("stem", BY_STEM)
def test_the_compatibility_check_tells_a_safe_change_from_a_breaking_one(stem: str) -> None:
    """A field with a default may be added; one without, or another type, would make stored records unreadable."""
    data, schema = (golden.FOLDER / f"{stem}.bin").read_bytes()[5:], BY_STEM[stem]
    raw = json.loads(schema.text)
    grown, breaking, retyped = copy.deepcopy(raw), copy.deepcopy(raw), copy.deepcopy(raw)
    grown["fields"].append({"name": "added_later", "type": "string", "default": "x"})
    breaking["fields"].append({"name": "added_later", "type": "string"})
    retyped["fields"][0]["type"] = "boolean"
    assert readable_by(parse_schema(grown), schema.parsed, data)["added_later"] == "x"
    for broken in (breaking, retyped):
        with pytest.raises(SchemaResolutionError):
            readable_by(parse_schema(broken), schema.parsed, data)
