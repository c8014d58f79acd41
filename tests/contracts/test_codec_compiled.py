"""Our compiled codec and fastavro are one codec: equal bytes for every value, equal values for every bytes."""

from __future__ import annotations

import functools
import io
import json
from typing import Any

import pytest
from fastavro import parse_schema, schemaless_reader, schemaless_writer
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas import errors
from schemas.avro import codec, decoder, encoder
from tests.contracts import golden
from tests.each import each
from tests.gate import examples

SCHEMAS = {golden.stem(s): json.loads(s.text) for s in codec.schemas_by_id().values()}
# Every type that the compilers take, also those that no record of today uses.
SCHEMAS["every type"] = {
    "type": "record",
    "name": "EveryType",
    "fields": [
        {"name": "plain", "type": "string"},
        {"name": "state", "type": "string"},
        {"name": "number", "type": "long"},
        {"name": "yes", "type": "boolean"},
        {"name": "blob", "type": "bytes"},
        {"name": "maybe_yes", "type": ["null", "boolean"]},
        {"name": "maybe_number", "type": ["null", "long"]},
        {"name": "maybe_text", "type": ["null", "string"]},
        {"name": "kind", "type": ["null", "string"]},
        {"name": "hash", "type": {"type": "fixed", "name": "Four", "size": 4}},
        {"name": "choice", "type": {"type": "enum", "name": "Choice", "symbols": ["A", "B", "C"]}},
        {"name": "labels", "type": {"type": "map", "values": "string"}},
        {
            "name": "items",
            "type": {
                "type": "array",
                "items": {"type": "record", "name": "Item", "fields": [{"name": "n", "type": "long"}]},
            },
        },
    ],
}
PARSED = {stem: parse_schema(schema) for stem, schema in SCHEMAS.items()}
ENCODE = {stem: encoder.compiled(schema) for stem, schema in SCHEMAS.items()}
DECODE = {stem: decoder.compiled(schema) for stem, schema in SCHEMAS.items()}
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=300)
PLAIN: dict[str, st.SearchStrategy[Any]] = {
    "string": texts,
    "bytes": st.binary(max_size=300),
    "boolean": st.booleans(),
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1) | st.integers(-70, 70),
}


def values_of(kind: Any, named: dict[str, Any]) -> st.SearchStrategy[Any]:  # noqa: PLR0911 - one per Avro type
    """Values of an Avro type."""
    if isinstance(kind, list):
        return st.none() | values_of(kind[1], named)
    if isinstance(kind, str):
        return PLAIN[kind] if kind in PLAIN else values_of(named[kind], named)
    if kind["type"] == "record":
        named[kind["name"]] = kind
        return st.fixed_dictionaries({f["name"]: values_of(f["type"], named) for f in kind["fields"]})
    if kind["type"] == "array":
        return st.lists(values_of(kind["items"], named), max_size=4)
    if kind["type"] == "map":
        return st.dictionaries(texts, values_of(kind["values"], named), max_size=4)
    if kind["type"] == "enum":
        return st.sampled_from(kind["symbols"])
    return st.binary(min_size=kind["size"], max_size=kind["size"])


@functools.cache
def values(stem: str) -> st.SearchStrategy[Any]:
    """Values of a record; the same object for all examples, because Hypothesis looks through each one that it meets."""
    return values_of(SCHEMAS[stem], {})


def by_fastavro(stem: str, value: Any) -> bytes:
    out = io.BytesIO()
    schemaless_writer(out, PARSED[stem], value)
    return out.getvalue()


@each("stem", SCHEMAS)
@settings(max_examples=examples(3, 60), deadline=None)
@given(data=st.data())
def test_both_write_the_same_bytes_and_read_the_same_value(stem: str, data: st.DataObject) -> None:
    value = data.draw(values(stem))
    expected = by_fastavro(stem, value)
    assert ENCODE[stem](value) == expected
    assert DECODE[stem](b"12345" + expected, 5) == (value, 5 + len(expected))


@each("stem", SCHEMAS)
@settings(max_examples=examples(3, 60), deadline=None)
@given(data=st.data())
def test_what_we_take_of_damaged_bytes_fastavro_takes_alike(stem: str, data: st.DataObject) -> None:
    """We may be stricter than fastavro; where we take bytes, it reads the same value from them."""
    damaged = bytearray(by_fastavro(stem, data.draw(values(stem))))
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    try:
        value, end = DECODE[stem](bytes(damaged), 0)
    except Exception:  # noqa: BLE001 - refused, in whatever way; the codec turns all of them into one error
        return
    if end == len(damaged):
        source = io.BytesIO(damaged)
        assert schemaless_reader(source, PARSED[stem], None) == value
        assert source.tell() == end


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1, 10**40])
def test_a_number_beyond_a_long_is_not_written(value: int) -> None:
    with pytest.raises(OverflowError):
        encoder.long(value)


@pytest.mark.parametrize("length", [-1, -64, -(2**63), 12, 2**62])
def test_a_length_is_within_the_record(length: int) -> None:
    """A negative one would send the reader backwards, a huge one would ask for memory."""
    data = encoder.long(length).ljust(11, b"x")
    with pytest.raises(ValueError, match="beyond the record"):
        decoder.length_at(data, 0)


@pytest.mark.parametrize("wrong", [None, 7, "text", {}, {"payment_method": 1}])
def test_a_value_that_is_not_of_the_schema_is_not_written(wrong: Any) -> None:
    with pytest.raises((KeyError, TypeError, ValueError, AttributeError)):
        codec.encode("ConfirmPaymentIntent", wrong)


def test_a_type_that_the_compilers_do_not_know_is_refused_at_start() -> None:
    for kind in ("double", ["string", "null"], {"type": "map", "values": "long"}):
        schema = {"type": "record", "name": "R", "fields": [{"name": "f", "type": kind}]}
        for compiled in (encoder.compiled, decoder.compiled):
            with pytest.raises((ValueError, KeyError)):
                compiled(schema)


def test_caches_are_bounded() -> None:
    """Texts of a merchant's choosing must not fill the memory of an owner."""
    record = golden.RECORDS["ConfirmPaymentIntent"]
    for n in range(20_000):
        codec.encode("ConfirmPaymentIntent", record | {"scope": f"m_{n}", "issued_at": n})
    assert len(encoder._TEXTS) <= encoder._TEXTS_MAX
    assert len(encoder._LONGS) <= encoder._LONGS_MAX


@pytest.mark.parametrize("bomb", [b"\x02" * 10_000, b"\xfe\xff\xff\xff\x0f" * 2_000, b"\x00" * 10_000])
def test_hostile_bytes_of_any_size_end_soon(bomb: bytes) -> None:
    for schema_id in codec.schemas_by_id():
        with pytest.raises(errors.UndecodableRecord):
            codec.decode(b"\x00" + schema_id.to_bytes(4, "big") + bomb)
