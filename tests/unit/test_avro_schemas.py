"""The schemas of commands come from the operations: each version has its id, and no field is without a description."""

from __future__ import annotations

from dataclasses import replace

from fastavro import parse_schema

from schemas.avro import codec, declared
from schemas.fields.validation import Field
from schemas.fields.value_types import TEXT
from schemas.operation import Operation
from schemas.services import OPERATIONS
from tests.each import each

ALL = list(OPERATIONS.values())


@each("operation", ALL)
def test_what_an_operation_declares_has_an_id(operation: Operation) -> None:
    """A field that came later makes a version: without a row for it in ids.json, nobody could be told of the field."""
    assert codec.schema_named(operation.record).version == declared.newest_version(operation)


@each("operation", ALL)
def test_every_field_says_what_it_is(operation: Operation) -> None:
    assert all(field.doc for field in operation.payload.values())


@each("operation", ALL)
def test_what_came_later_may_be_left_out(operation: Operation) -> None:
    """Its hash is the older one then, and an older record reads as one without it."""
    later = [field for field in operation.payload.values() if field.since > 1]
    assert all(field.nullable and field.default is None for field in later)


def test_a_later_field_is_behind_all_earlier_ones_and_null_in_older_records() -> None:
    operation = OPERATIONS["cancel_refund"]
    grown = replace(
        operation, payload={"came": Field(TEXT, "later", None, nullable=True, since=2), **operation.payload}
    )
    assert declared.command(grown, 1) == declared.command(operation, 1)
    payload = next(f for f in declared.command(grown, 2)["fields"] if f["name"] == "payload")["type"]["fields"]
    assert [field["name"] for field in payload] == ["refund", "came"]
    assert payload[-1] == {"name": "came", "type": ["null", "string"], "doc": "later", "default": None}
    parse_schema(declared.command(grown, 2))
