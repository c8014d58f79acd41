"""Query values have one meaning or are refused; none of them reaches the database unread."""

from __future__ import annotations

import time

import pytest
from starlette.requests import Request

from ingress.http.requests import reading
from schemas import errors
from tests.each import each


def request(text: str) -> Request:
    return Request({"type": "http", "query_string": text.encode(), "headers": []})


@pytest.mark.parametrize(
    ("text", "time_us"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("2026-01-02T03:04:05Z", 1_767_323_045_000_000),
        ("2026-01-02t03:04:05.5z", 1_767_323_045_500_000),
        ("2026-01-02T05:04:05.000006%2B02:00", 1_767_323_045_000_006),
        ("2026-01-02T03:04:05.123456789Z", 1_767_323_045_123_456),
        ("0001-01-01T00:00:00%2B23:59", -62_135_683_140_000_000),
    ],
)
def test_a_time_is_exact_to_the_microsecond(text: str, time_us: int) -> None:
    assert reading.past_time(request(f"at={text}"), "at") == time_us


def test_no_time_is_now() -> None:
    assert reading.past_time(request(""), "at") is None


@each(
    "text",
    [
        "",
        "now",
        "0",
        "2026-01-02",
        "2026-01-02 03:04:05Z",
        "2026-01-02T03:04:05",
        "2026-01-02T03:04:05+02:00",  # a plus in a query is a space
        "2026-02-30T03:04:05Z",
        "2026-01-02T24:04:05Z",
        "2026-01-02T03:04:60Z",
        "20260102T030405Z",
        "2026-W01-1T03:04:05Z",
        "0000-01-01T00:00:00Z",
        "٢٠٢٦-01-02T03:04:05Z",
        "2026-01-02T03:04:05Z%00",
        "2026-01-02T03:04:05Z%0A",
        "9999-12-31T23:59:59Z",
        "2026-01-02T03:04:05." + "1" * 400 + "Z",
    ],
)
def test_what_is_no_past_time_is_refused(text: str) -> None:
    with pytest.raises(errors.InvalidCommand) as caught:
        reading.past_time(request(f"at={text}"), "at")
    assert caught.value.errors[0]["field"] == "at"


def test_a_clock_that_is_a_little_ahead_asks_for_now() -> None:
    def text(second: int) -> str:
        return "at=" + time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(second))

    now_s = int(time.time())  # here: between the collection of a long run and this test lie hours
    assert reading.past_time(request(text(now_s + 5)), "at") == (now_s + 5) * 1_000_000
    with pytest.raises(errors.InvalidCommand, match="future"):
        reading.past_time(request(text(now_s + 3_600)), "at")


@each("text", ["", "pi 1", "pi%00", "a:b", "a" * 65, "pi_%C3%A9", "%25", "pi-1"])
def test_filters_are_ids_and_words_without_a_colon(text: str) -> None:
    """A cursor is bound to its filters joined by colons: no two of them may read alike."""
    for read in (reading.identity, reading.word):
        with pytest.raises(errors.InvalidCommand):
            read(request(f"f={text}"), "f")
    with pytest.raises(errors.InvalidCommand):
        reading.choice(request(f"f={text}"), "f", ("open", "resolved"))


def test_filters_are_read_as_given_and_given_once() -> None:
    assert reading.identity(request("f=pi_Ab1"), "f") == "pi_Ab1"
    assert reading.word(request("f=unknown_reference"), "f") == "unknown_reference"
    assert reading.choice(request("f=open"), "f", ("open", "resolved")) == "open"
    assert reading.identity(request("g=1"), "f") is None
    with pytest.raises(errors.MalformedRequest):
        reading.identity(request("f=a&f=a"), "f")
