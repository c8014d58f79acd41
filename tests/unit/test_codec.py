"""The codec on hostile bytes: a record, or one of two errors. An owner parks such a record; any other error would stop it."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas import errors, records
from schemas.avro import codec
from schemas.services import OPERATIONS
from tests.contracts import golden
from tests.each import each
from tests.worlds.payments import payment_cases as cases

if TYPE_CHECKING:
    from collections.abc import Iterator

IDS = sorted(codec.schemas_by_id())
GOLDEN = {s.schema_id: (golden.FOLDER / f"{golden.stem(s)}.bin").read_bytes() for s in codec.schemas_by_id().values()}
DECODERS = (codec.decode, codec.decode_command, codec.decode_event, codec.decode_results)


def readable(data: bytes) -> bool:
    """True when it decodes; the only errors let through are the two that mean "park it"."""
    for decoder in DECODERS:
        try:
            decoder(data)
        except (errors.UnknownSchema, errors.UndecodableRecord):
            continue
        return True
    return False


def test_the_prefix_is_confluents() -> None:
    data = codec.encode_command(cases.confirm())
    assert data[:5] == b"\x00" + codec.schema_named("ConfirmPaymentIntent").schema_id.to_bytes(4, "big")


@pytest.mark.parametrize("step", [cases.create(), cases.confirm(), cases.capture(), cases.cancel()])
def test_a_command_comes_back_as_it_was(step: records.Command) -> None:
    step.expected_version = 7
    assert codec.decode_command(codec.encode_command(step)) == step


def test_a_fact_comes_back_as_it_was() -> None:
    payment = cases.after(cases.after(None, cases.create()), cases.confirm())
    told = cases.fact(payment, "captured")
    assert codec.decode_command(codec.encode_command(told)) == told


def test_every_operation_has_a_schema_that_leads_back_to_it() -> None:
    for operation in OPERATIONS.values():
        assert codec.schema_named(operation.record).subject.startswith(operation.topic)


@pytest.mark.parametrize(
    "data",
    [b"", b"\x00", b"\x00\x00\x00\x00", b"{}", b"\x01\x00\x00\x00\x01", b"\x00\x00\x00\x00\x01", b"\xff" * 20],
)
def test_what_is_no_record(data: bytes) -> None:
    with pytest.raises(errors.UndecodableRecord):
        codec.decode(data)


@pytest.mark.parametrize("schema_id", [0, max(IDS) + 1, 2**31, 2**32 - 1])
def test_an_id_that_is_not_in_the_table(schema_id: int) -> None:
    with pytest.raises(errors.UnknownSchema) as caught:
        codec.decode(b"\x00" + schema_id.to_bytes(4, "big") + b"rest")
    assert caught.value.context == {"schema_id": schema_id}


@each("schema_id", IDS)
def test_a_record_cut_short_or_with_more_behind_it(schema_id: int) -> None:
    data = GOLDEN[schema_id]
    for length in range(5, len(data)):
        with pytest.raises(errors.UndecodableRecord):
            codec.decode(data[:length])
    with pytest.raises(errors.UndecodableRecord, match="after its end"):
        codec.decode(data + b"\x00")


def test_a_record_of_another_kind_is_not_taken_for_a_command_event_or_result() -> None:
    command, event, results = GOLDEN[2], GOLDEN[6], GOLDEN[7]
    for decoder, wrong in (
        (codec.decode_command, (event, results)),
        (codec.decode_event, (command, results)),
        (codec.decode_results, (command, event)),
    ):
        for data in wrong:
            with pytest.raises(errors.UndecodableRecord):
                decoder(data)


@given(st.binary(max_size=200))
def test_any_bytes(data: bytes) -> None:
    readable(data)


@given(st.sampled_from(IDS), st.binary(max_size=300))
def test_any_bytes_behind_a_true_prefix(schema_id: int, data: bytes) -> None:
    readable(b"\x00" + schema_id.to_bytes(4, "big") + data)


@given(st.sampled_from(IDS), st.data())
def test_a_golden_record_with_damaged_bytes(schema_id: int, data: st.DataObject) -> None:
    """Lengths turned negative or huge, unions out of range, broken UTF-8: all of it is one error."""
    damaged = bytearray(GOLDEN[schema_id])
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(5, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    readable(bytes(damaged))


@pytest.mark.parametrize("size", [2**31, 2**40, 2**62, -1, -(2**40)])
def test_a_length_out_of_all_bounds_costs_nothing(size: int) -> None:
    """The first field of a command is a string: its length says petabytes, or less than nothing."""
    zigzag, body = (size << 1) ^ (size >> 63), bytearray()
    while zigzag > 0x7F:
        body.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    body.append(zigzag)
    with pytest.raises(errors.UndecodableRecord):
        codec.decode(b"\x00\x00\x00\x00\x01" + bytes(body) + b"abc")


def test_results_come_back_in_order() -> None:
    batch = {"results": [{"reply_id": n, "outcome": "committed", "replayed": False, "body": b"x"} for n in range(9)]}
    found = codec.decode_results(codec.encode("ResultBatch", batch))
    assert [r.reply_id for r in found] == list(range(9))
    assert msgspec.structs.asdict(found[0]) == batch["results"][0]


def test_a_pinned_version_is_written_until_readers_are_upgraded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule: readers first, then writers. A reader of the release before knows every version but the newest."""
    *_, before, newest = codec.versions("PaymentSystemCommitted")
    event = codec.decode((golden.FOLDER / f"PaymentSystemCommitted.v{newest.version}.bin").read_bytes())[1]
    with _pinned(monkeypatch, f"PaymentSystemCommitted={before.version}"):
        written = codec.encode("PaymentSystemCommitted", event)
        assert codec.schema_named("PaymentSystemCommitted") is before
        assert codec.schema_named("RateLimiterCommitted") is codec.versions("RateLimiterCommitted")[-1]
    assert codec.schema_named("PaymentSystemCommitted") is newest
    monkeypatch.delitem(codec.schemas_by_id(), newest.schema_id)
    assert codec.decode_event(written).seq == event["seq"]


@pytest.mark.parametrize("pin", ["PaymentSystemCommitted=1", "PaymentSystemCommitted", "Nobody=1"])
def test_what_no_reader_of_the_release_before_would_need_is_not_pinned(
    monkeypatch: pytest.MonkeyPatch, pin: str
) -> None:
    with _pinned(monkeypatch, pin), pytest.raises(ValueError, match="MILLRACE_WRITTEN_SCHEMAS"):
        codec.schema_named("PaymentSystemCommitted")


@contextmanager
def _pinned(monkeypatch: pytest.MonkeyPatch, pin: str) -> Iterator[None]:
    with monkeypatch.context() as patched:
        patched.setenv("MILLRACE_WRITTEN_SCHEMAS", pin)
        for cached in (codec._pinned, codec.schema_named):
            cached.cache_clear()
        yield
    for cached in (codec._pinned, codec.schema_named):
        cached.cache_clear()
