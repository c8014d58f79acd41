"""The compiled codec writes and reads what fastavro does, byte for byte, for any record of any of our schemas."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.avro import codec, decoder, encoder
from schemas.payments.records import Dispute, LedgerEntry, LedgerTxn, PaymentIntent, ProcessorAttempt, Refund
from tests.each import each

SCHEMAS = {schema.name: schema for schema in codec.schemas_by_id().values()}
LONGS = st.one_of(
    st.integers(-(2**63), 2**63 - 1),
    st.integers(-300, 300),
    st.sampled_from([2**n + d for n in (6, 7, 13, 14, 20, 27, 28, 41, 55, 62) for d in (-1, 0, 1)]),
)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=200)
NAMED: dict[str, Any] = {}


def values(kind: Any) -> st.SearchStrategy[Any]:
    """Any value of an Avro type."""
    if isinstance(kind, list):
        return st.one_of(*[values(branch) for branch in kind])
    if isinstance(kind, str):
        plain = {
            "null": st.none(),
            "long": LONGS,
            "int": st.integers(-(2**31), 2**31 - 1),
            "string": TEXTS,
            "boolean": st.booleans(),
            "bytes": st.binary(max_size=300),
        }
        return plain[kind] if kind in plain else values(NAMED[kind])
    if kind["type"] == "record":
        NAMED[kind["name"]] = kind
        return st.fixed_dictionaries({field["name"]: values(field["type"]) for field in kind["fields"]})
    return {
        "enum": lambda: st.sampled_from(kind["symbols"]),
        "fixed": lambda: st.binary(min_size=kind["size"], max_size=kind["size"]),
        "map": lambda: st.dictionaries(TEXTS, values(kind["values"]), max_size=5),
        "array": lambda: st.lists(values(kind["items"]), max_size=5),
    }[kind["type"]]()


RECORDS = {name: values(json.loads(schema.text)) for name, schema in SCHEMAS.items()}
any_record = st.sampled_from(sorted(SCHEMAS)).flatmap(lambda name: st.tuples(st.just(name), RECORDS[name]))


def by_fastavro(name: str, record: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, SCHEMAS[name].parsed, record)
    return out.getvalue()


@given(any_record)
def test_it_writes_and_reads_as_fastavro_does(example: tuple[str, dict[str, Any]]) -> None:
    name, record = example
    data = codec.encode(name, record)
    assert data[5:] == by_fastavro(name, record)
    assert data[:5] == b"\x00" + SCHEMAS[name].schema_id.to_bytes(4, "big")
    schema, read = codec.decode(data)
    assert (schema.name, read) == (name, record)


@given(any_record, st.data())
def test_what_it_reads_of_damaged_bytes_is_what_fastavro_reads(
    example: tuple[str, dict[str, Any]], data: st.DataObject
) -> None:
    """One byte changed: either it is refused, or the value is the one that fastavro reads there."""
    name, record = example
    damaged = bytearray(by_fastavro(name, record))
    place = data.draw(st.integers(0, len(damaged) - 1))
    damaged[place] = data.draw(st.integers(0, 255))
    try:
        value, end = SCHEMAS[name].decoder(bytes(damaged), 0)
    except (ValueError, IndexError, OverflowError):
        return
    if end > len(damaged):
        return  # the codec refuses it
    source = io.BytesIO(bytes(damaged))
    assert value == fastavro.schemaless_reader(source, SCHEMAS[name].parsed, None)
    assert end == source.tell()


def test_structs_are_written_as_the_dicts_of_their_fields() -> None:
    """Also when a Struct has its fields in another order than the schema."""

    class Reordered(msgspec.Struct):
        currency: str
        credit: int
        debit: int
        account_id: str

    entry = LedgerEntry("merchant_pending:m_1:USD", 5, 0, "USD")
    txn = LedgerTxn(txn_id=2**50, reference="op_1:capture", kind="capture", effective_at=7, entries=[entry])
    head: dict[str, Any] = {"id": "pi_1", "merchant_id": "m_1", "amount": 5, "currency": "USD", "state": "processing"}
    money = dict.fromkeys(("amount_capturable", "amount_received", "amount_refunded", "amount_disputed"), 0)
    none = dict.fromkeys(("payment_method", "last_payment_error", "cancellation_reason"))
    rest: dict[str, Any] = {"version": 2, "capture_method": "manual", "processor": "x", "latest_attempt": 1}
    times = {"created_at": 1, "updated_at": 2}
    intent = PaymentIntent(**head, **money, **none, **rest, **times, metadata={"k": "v"})
    attempt = ProcessorAttempt(
        intent_id="pi_1", attempt=1, kind="purchase", status="created", operation_id="op_1", processor="x", amount=5,
        currency="USD", payment_method="tok_1", parent_ref=None, final=True, provider_ref=None, error_code=None, **times,
    )  # fmt: skip
    event: dict[str, Any] = {
        "event_id": "evt_1", "aggregate_key": "pi_1", "event_type": "t", "schema_version": 1, "trace_id": "", "seq": 1,
        "occurred_at": 1, "version": 2, "scope": "m_1", "operation": "confirm_payment_intent",
    }  # fmt: skip
    refund = Refund(
        id="re_1_a", intent_id="pi_1", merchant_id="m_1", attempt=2, amount=5, currency="USD", state="pending", reason=None,
        failure_reason=None, from_pending=5, metadata={}, version=1, **times,
    )  # fmt: skip
    dispute = Dispute(
        id="dp_1_a", intent_id="pi_1", merchant_id="m_1", processor="x", provider_ref="d", amount=5, currency="USD", fee=1,
        reason="r", state="lost", funds="withdrawn", version=1, **times,
    )  # fmt: skip
    body = {
        "payment_intent": intent,
        "processor_attempt": attempt,
        "ledger_txns": [txn],
        "refund": refund,
        "dispute": dispute,
        "caused_by": attempt,
    }
    data = codec.encode("PaymentSystemCommitted", event | {"body": body})
    assert data[5:] == by_fastavro("PaymentSystemCommitted", event | {"body": msgspec.to_builtins(body)})

    body_fields = json.loads(SCHEMAS["PaymentSystemCommitted"].text)["fields"][-1]["type"]["fields"]
    line = next(field for field in body_fields if field["name"] == "ledger_txns")["type"]["items"]
    encode_entry = encoder.compiled(line["fields"][-1]["type"]["items"])
    assert encode_entry(Reordered("USD", 0, 5, entry.account_id)) == encode_entry(entry)


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1, 2**64, -(2**64), 2**80])
def test_a_number_of_more_than_64_bits_is_refused(value: int) -> None:
    with pytest.raises(OverflowError):
        encoder.long(value)


@pytest.mark.parametrize("data", [b"\xff" * 9 + b"\x02", b"\xff" * 11, b"\x80" * 10 + b"\x00"])
def test_a_number_of_too_many_bytes_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="a long of more than"):
        decoder.long_at(data, 0)


def test_the_smallest_and_the_largest_number_come_back() -> None:
    for value in (-(2**63), 2**63 - 1, 0, -1):
        data = encoder.long(value)
        assert decoder.long_at(data, 0) == (value, len(data))


def test_caches_are_bounded_and_a_full_one_still_answers_right() -> None:
    """More different texts and numbers than a cache holds."""
    record = {"reply_id": 1, "outcome": "committed", "replayed": False, "body": b"x"}
    for n in range(20_000):
        assert codec.encode("ResultBatch", {"results": [record | {"body": b"y" * (n % 900)}]})
        encoder._TEXTS[f"text {n}"]
        encoder._LONGS[n]
    assert max(len(encoder._TEXTS), len(encoder._LONGS), len(encoder._UPPER)) <= 4_096
    assert encoder._TEXTS["text 1"] == b"\x0ctext 1"


@each("kind", ["boolean", "long", {"type": "enum", "name": "E", "symbols": ["a", "b"]}])
@each("value", [None, 0, 1])
def test_other_types_that_may_be_null(kind: Any, value: int | None) -> None:
    """None of today's schemas has one of these."""
    schema = {"type": "record", "name": "R", "fields": [{"name": "f", "type": ["null", kind]}]}
    given = value if value is None or kind == "long" else bool(value) if kind == "boolean" else "ab"[value]
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), {"f": given})
    data = encoder.compiled(schema)({"f": given})
    assert data == out.getvalue()
    assert decoder.compiled(schema)(data, 0) == ({"f": given}, len(data))


@pytest.mark.parametrize("kind", ["double", ["string", "long"], {"type": "map", "values": "long"}])
def test_a_type_that_is_not_supported_is_refused_when_compiled(kind: Any) -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "f", "type": kind}]}
    with pytest.raises(ValueError, match="no encoder for"):
        encoder.compiled(schema)
    with pytest.raises(ValueError, match="no decoder for"):
        decoder.compiled(schema)


def test_a_record_without_fields_is_no_bytes() -> None:
    """An operation may have a payload of no fields."""
    empty = {"type": "record", "name": "Nothing", "fields": []}
    outer = {"type": "record", "name": "Outer", "fields": [{"name": "n", "type": "int"}, {"name": "of", "type": empty}]}
    for schema, value, written in ((empty, {}, b""), (outer, {"n": 3, "of": {}}, b"\x06")):
        assert encoder.compiled(schema)(value) == written
        assert decoder.compiled(schema)(written, 0) == (value, len(written))
