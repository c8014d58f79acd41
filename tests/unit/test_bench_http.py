"""The load generator's own HTTP: answers in any pieces, latencies from the due time."""

from __future__ import annotations

import pytest

from compose.proof.bench.http.connection import Answer, parse_answer
from compose.proof.bench.http.latency import Latencies
from compose.proof.bench.http.metrics import batches
from compose.proof.bench.http.report import by_service
from compose.proof.bench.http.requests import Requests, confirm_line, create_line, created_id, read_lines

PLAIN = b'HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: 13\r\n\r\n{"status":201}'[:-1]
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\n6\r\n world\r\n0\r\n\r\n"


@pytest.mark.parametrize(
    ("raw", "answer"), [(PLAIN, Answer(201, b'{"status":201')), (CHUNKED, Answer(200, b"hello world"))]
)
def test_an_answer_is_whole_at_its_last_byte_and_not_before(raw: bytes, answer: Answer):
    for length in range(len(raw)):
        assert parse_answer(bytearray(raw[:length])) is None
    assert parse_answer(bytearray(raw)) == answer


def test_an_answer_without_a_body():
    assert parse_answer(bytearray(b"HTTP/1.1 204 No Content\r\n\r\n")) == Answer(204, b"")


def test_requests_name_their_length():
    raw = Requests("h", 1, "t").create("k", 7)
    head, _, body = raw.partition(b"\r\n\r\n")
    assert f"Content-Length: {len(body)}".encode() in head
    assert head.startswith(b"POST /v1/payment_intents HTTP/1.1\r\n")
    assert b"\r\nIdempotency-Key: k\r\n" in head
    lines = Requests("h", 1, "t").lines([create_line("a", 1), confirm_line("b", "pi_1")])
    assert lines.partition(b"\r\n\r\n")[2].count(b"\n") == 1


def test_ids_are_read_from_answers():
    assert created_id(b'{"result":{"id":"pi_1","amount":5},"event":{}}') == "pi_1"
    body = b'{"status":201,"result":{"id":"pi_1"},"event":{}}\n{"status":422,"problem":{"code":"x"}}\n'
    assert read_lines(body) == [(201, "pi_1"), (422, "")]


def test_percentiles_are_of_all_that_was_recorded():
    latencies = Latencies()
    assert latencies.summary() == {}
    for n in range(1, 1_001):
        latencies.record(n / 1_000)
    found = latencies.summary()
    assert found["p50_ms"] == pytest.approx(500, rel=0.002)
    assert found["p99_ms"] == pytest.approx(990, rel=0.002)
    assert found["max_ms"] == pytest.approx(1_000, rel=0.002)


def test_an_endless_latency_is_counted_as_the_bound():
    latencies = Latencies()
    latencies.record(10_000)
    assert latencies.count == 1
    assert latencies.summary()["max_ms"] == pytest.approx(120_000, rel=0.002)


def test_batches_are_means_between_two_looks():
    name = "millrace_owner_batch_commands"
    before = {f"{name}_count": 2.0, f"{name}_sum": 10.0}
    after = {f"{name}_count": 4.0, f"{name}_sum": 40.0}
    assert batches(before, after) == {"owner_batch_commands_mean": 15.0, "owner_batches": 2}
    assert batches(after, after) == {}


def test_processes_are_added_up_to_their_services():
    spent = {"owner-0": 500.0, "owner-1": 250.0, "kafka": 900.0, "load_generator": 50.0}
    assert list(by_service(spent, 1_000).items()) == [
        ("total", 1.7),
        ("kafka", 0.9),
        ("owner", 0.75),
        ("load_generator", 0.05),
    ]
