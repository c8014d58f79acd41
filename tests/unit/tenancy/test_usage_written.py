"""One event however it is written: media types with parameters, seconds with as many digits as a clock has."""

from __future__ import annotations

import json
from decimal import Decimal
from itertools import pairwise

from dataflows.tenancy.usage.counting import Metered
from dataflows.tenancy.usage.records import metered
from ingress.tenancy.usage.sums import Asked, average, bounds
from schemas.senders import INGRESS
from schemas.tenancy.instants import parsed
from schemas.tenancy.usage_event import UsageEvent, read, record_key
from tests.each import each
from tests.unit.tenancy.test_usage import GOOD, NOW_US


@each(
    "said",
    ["application/json; charset=utf-8", 'Application/JSON;charset="UTF-8"', 'application/json ; a=b; c="d \\" e"'],
)
def test_json_is_json_whatever_parameters_its_media_type_has(said: str) -> None:
    """RFC 2045, 5.1: names have no case, parameters may follow, and a value may be quoted."""
    value = json.dumps(GOOD | {"datacontenttype": said}).encode()
    found = metered(record_key("tn_1", "/meter", "e1").encode(), value, NOW_US, INGRESS, None)
    assert found == Metered("tn_1", UsageEvent("/meter", "e1", "tokens", 3, None, NOW_US))


@each("digits", range(1, 10))
def test_as_fine_a_time_is_asked_for_as_is_metered(digits: int) -> None:
    """Events say nine digits of a second where clocks do; from and to are read as they are, to the microsecond."""
    text = f"2026-09-21T14:13:19.{'123456789'[:digits]}Z"
    found = read(GOOD | {"time": text}, NOW_US)
    assert isinstance(found, UsageEvent)
    assert found.occurred_at == parsed(text) == NOW_US - 1_000_000 + int("123456789"[:digits].ljust(6, "0")[:6])


@each("depth", [900, *range(940, 1_010, 3), 5_000, 200_000])
def test_json_that_nobody_decodes_is_no_event_however_deep(depth: int) -> None:
    """Raised here, it would end whoever meters, and whoever reads on from the same record after that."""
    key = record_key("tn_1", "/meter", "e1").encode()
    for opens, closes in ((b"[", b"]"), (b'{"a":', b"}")):
        nested = opens * depth + b"1" + closes * depth
        value = json.dumps(GOOD | {"extension": 0}).encode().replace(b'"extension": 0', b'"extension": ' + nested)
        found = metered(key, value, NOW_US, "producer.a", ("tenant:tn_1",))
        assert found == "not_an_event" or isinstance(found, Metered)
        if depth >= 5_000:
            assert found == "not_an_event"


def test_attributes_in_header_fields_alone_are_refused_as_the_mode_that_no_mac_covers() -> None:
    key, data = record_key("tn_1", "/meter", "e1").encode(), json.dumps(GOOD["data"]).encode()
    fields = ["sender", "mac", "content-type", *(f"ce_{name}" for name in ("specversion", "id", "source", "type"))]
    outside = "producer.a", ("tenant:tn_1",)
    assert metered(key, data, NOW_US, *outside, fields) == "binary_mode"
    assert metered(key, data, NOW_US, *outside, ["sender", "mac"]) == "wrong_time"
    assert isinstance(metered(key, json.dumps(GOOD).encode(), NOW_US, *outside, fields), Metered)
    early = json.dumps(GOOD | {"time": "1999-01-01T00:00:00Z"}).encode()
    assert metered(key, early, NOW_US, *outside, fields) == "wrong_time"


@each("value", ["0E-20", "0", "1E-8", "1.6666666666666667", "3.0000000000000000", "6004799503160661.6667"])
def test_an_average_is_written_with_digits_alone(value: str) -> None:
    """As Postgres gives it; many parsers of decimals know no exponent."""
    text = average(Decimal(value))
    assert set(text) <= set("0123456789.")
    assert Decimal(text) == Decimal(value)


@each(
    ("text", "is_leap"),
    [
        ("2016-12-31T23:59:60Z", True),
        ("2016-12-31t23:59:60.5z", True),
        ("2017-01-01T05:29:60+05:30", True),
        ("2016-12-31T23:59:61Z", False),
        ("2016-12-31T23:58:60Z", False),
        ("2016-12-30T23:59:60Z", False),
        ("2016-02-30T23:59:60Z", False),
        ("9999-12-31T23:59:60Z", True),
        ("23:59:60Z", False),
    ],
)
def test_a_leap_second_is_refused_as_what_it_is(text: str, is_leap: bool) -> None:
    """RFC 3339, 5.6 has it, so to call it no RFC 3339 time would be untrue; of another second it is true."""
    found = read(GOOD | {"time": text}, NOW_US)
    assert isinstance(found, list)
    assert found[0]["field"] == "time"
    assert ("leap second" in found[0]["reason"]) == is_leap
    assert ("must be an RFC 3339 time" in found[0]["reason"]) != is_leap


@each(
    ("zone", "night", "minutes"),
    [
        ("Europe/Berlin", "2026-10-24T23:00:00Z", [60, 120, 60]),
        ("Antarctica/Troll", "2026-10-24T22:00:00Z", [60, 60, 180, 60]),
        ("Australia/Lord_Howe", "2026-04-04T13:00:00Z", [60, 90, 60]),
        ("Pacific/Chatham", "2026-04-04T12:15:00Z", [60, 120, 60]),
    ],
)
def test_what_clocks_show_again_belongs_to_the_window_under_way(zone: str, night: str, minutes: list[int]) -> None:
    """As docs/tenants.md tells of each of these zones."""
    begins = parsed(night)
    assert begins is not None
    ends = begins + sum(minutes) * 60_000_000
    edges = bounds(Asked("tokens", begins, ends, "hour", None, zone))
    assert [(b - a) // 60_000_000 for a, b in pairwise(edges)] == minutes
