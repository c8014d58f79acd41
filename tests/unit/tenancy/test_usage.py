"""Usage and its price without a server: which events are taken, what makes two of them one, what a line costs."""

from __future__ import annotations

import json
import math
from typing import Any, Final

import pytest
from msgspec import structs

from dataflows.tenancy.usage.counting import Metered, by_identity, contradictions
from dataflows.tenancy.usage.records import metered
from ingress.tenancy.usage.sums import Asked, bounds
from schemas import errors
from schemas.senders import INGRESS
from schemas.tenancy import attribute_names, limits, pricing
from schemas.tenancy.instants import instant, parsed
from schemas.tenancy.invoice import InvoicePlace, basis, made
from schemas.tenancy.usage_decoding import decoded
from schemas.tenancy.usage_event import UsageEvent, read, read_all, record_key, refuse_tenant
from schemas.tenancy.value_types import prices
from sinks import limits as sinks_limits
from sinks.clickhouse.placed_rows import look_again_in_s
from tests.each import each

NOW_US = 1_790_000_000_000_000
GOOD: dict[str, Any] = {
    "specversion": "1.0",
    "type": "millrace.usage",
    "id": "e1",
    "source": "/meter",
    "time": instant(NOW_US),
    "data": {"dimension": "tokens", "quantity": 3},
}


def test_an_event_is_read_as_its_instant_whatever_its_zone() -> None:
    found = read(GOOD | {"subject": "team"}, NOW_US)
    assert found == UsageEvent("/meter", "e1", "tokens", 3, "team", NOW_US)
    shifted = "2026-09-21T19:43:20+05:30"
    assert parsed(shifted) == parsed("2026-09-21T14:13:20Z")
    assert read(GOOD | {"time": shifted}, NOW_US) == read(GOOD | {"time": "2026-09-21T14:13:20.000000Z"}, NOW_US)


NOT_JSON: Final = [
    *("text/xml", "", 5, "application/json;", "application/jsonx", "application/json charset=utf-8"),
    *("application/json; charset=latin-1", "application/json; a=b c", "application/json; =b", "application/json; a="),
]


@each(
    ("field", "event"),
    [
        ("", 7),
        ("id", GOOD | {"id": ""}),
        ("id", GOOD | {"id": "a\0b"}),
        ("source", GOOD | {"source": None}),
        ("source", GOOD | {"source": "urn:millrace:resources"}),
        ("subject", GOOD | {"subject": 4}),
        ("type", GOOD | {"type": "other"}),
        ("specversion", GOOD | {"specversion": "0.3"}),
        *(("datacontenttype", GOOD | {"datacontenttype": t}) for t in NOT_JSON),
        ("data", GOOD | {"data": [1]}),
        ("data", GOOD | {"data": {"dimension": "a", "quantity": 1, "unit": "B"}}),
        ("data.dimension", GOOD | {"data": {"dimension": "a b", "quantity": 1}}),
        *(("data.quantity", GOOD | {"data": {"dimension": "a", "quantity": q}}) for q in (-1, 1.5, "3", True, 2**53)),
        *(("time", GOOD | {"time": t}) for t in (None, "2026-01-01T00:00:00", "2026-02-30T00:00:00Z", 7)),
        ("time", GOOD | {"time": instant(NOW_US + limits.USAGE_AHEAD_MAX_S * 1_000_000 + 1)}),
    ],
)
def test_what_is_wrong_is_named_by_its_field_and_nothing_of_the_batch_is_taken(field: str, event: object) -> None:
    found = read(event, NOW_US)
    assert isinstance(found, list)
    assert [one["field"] for one in found] == [field]
    with pytest.raises(errors.InvalidCommand) as raised:
        read_all([GOOD, event], NOW_US, is_batch=True)
    assert raised.value.errors[0]["field"] == (f"[1].{field}" if field else "[1]")
    assert raised.value.code == "invalid_command"


def test_age_alone_is_told_as_age_and_what_was_judged_before_has_slack() -> None:
    old = GOOD | {"time": instant(NOW_US - limits.USAGE_AGE_MAX_S * 1_000_000 - 1)}
    with pytest.raises(errors.EventTooOld):
        read_all([GOOD, old], NOW_US, is_batch=True)
    with pytest.raises(errors.InvalidCommand, match="wrong") as raised:
        read_all([old, GOOD | {"id": ""}], NOW_US, is_batch=True)
    assert raised.value.code == "invalid_command"
    assert isinstance(read(old, NOW_US, slack_us=1), UsageEvent)


@pytest.mark.parametrize("name", ["tenant", "tenant_id", "tenantid"])
def test_only_a_token_says_whose_usage_it_is(name: str) -> None:
    for event in (GOOD | {name: "tn_1"}, GOOD | {"data": GOOD["data"] | {name: "tn_1"}}):
        with pytest.raises(errors.MalformedRequest):
            refuse_tenant(event)


def test_a_record_counts_for_the_tenant_of_its_key_and_only_from_who_may_speak_for_it() -> None:
    key, value = record_key("tn_1", "/meter", "e1").encode(), json.dumps(GOOD).encode()
    counted = Metered("tn_1", UsageEvent("/meter", "e1", "tokens", 3, None, NOW_US))
    assert metered(key, value, NOW_US, INGRESS, None) == counted
    assert metered(key, value, NOW_US, "producer.a", ("tenant:tn_1",)) == counted
    assert metered(key, value, NOW_US, "producer.a", ("tenant:tn_2",)) == "scope_not_allowed"
    assert metered(key, value, NOW_US, "limiter_gateway", None) == "operation_not_allowed"
    assert metered(record_key("tn_1", "/meter", "e2").encode(), value, NOW_US, INGRESS, None) == "key_differs"
    assert metered(key, b"{", NOW_US, INGRESS, None) == "not_an_event"
    assert metered(key, json.dumps(GOOD | {"id": ""}).encode(), NOW_US, INGRESS, None) == "wrong_id"


@pytest.mark.parametrize(
    "value",
    [  # as the CloudEvents SDK for Python writes them: 1.x, and 2.x
        b'{"specversion": "1.0", "id": "e1", "source": "/meter", "type": "millrace.usage", "subject": "team", "time":'
        b' "2026-09-21T14:13:20.000000+00:00", "data": {"dimension": "tokens", "quantity": 3}}',
        b'{"type": "millrace.usage", "source": "/meter", "id": "e1", "specversion": "1.0", "time":'
        b' "2026-09-21T14:13:20.000000Z", "subject": "team", "datacontenttype": "application/json", "data":'
        b' {"dimension": "tokens", "quantity": 3}}',
    ],
)
def test_what_the_sdk_of_cloudevents_writes_counts_as_it_is(value: bytes) -> None:
    found = metered(record_key("tn_1", "/meter", "e1").encode(), value, NOW_US, "producer.a", ("tenant:tn_1",))
    assert found == Metered("tn_1", UsageEvent("/meter", "e1", "tokens", 3, "team", NOW_US))


ODD: Final = [
    {"id": 7},
    {"id": "\u00e9" * 255},
    {"id": "x" * 256},
    {"id": "a\u2028b"},
    {"id": "a\x7f"},
    {"source": "URN:Millrace:x"},
    {"subject": None},
    {"subject": ""},
    {"datacontenttype": None},
    {"datacontenttype": "text/plain"},
    {"datacontenttype": "application/json; charset=utf-8"},
    {"datacontenttype": 5},
    {"specversion": 1.0},
    {"extension": {"tenant": "tn_2"}},
    {"tenant": None},
    {"tenantid": "tn_1"},
    {"time": "2026-09-21t14:13:20z"},
    {"time": 1},
    {"time": instant(NOW_US - 36 * 86_400_000_000)},
    *(
        {"data": {"dimension": d, "quantity": q}}
        for d in ("tokens", "a b", "", "1a", 3)
        for q in (0, 2**53, -1, True, "1")
    ),
    *({"data": {"dimension": "tokens", "quantity": q}} for q in (3.0, 1e3, 2**70, 2**53 - 1, None)),
    {"data": {"dimension": "tokens", "quantity": 1, "tenant_id": "tn_1"}},
    {"data": None},
]


@each("said", [*ODD, *({name: ...} for name in GOOD)])
def test_the_short_way_takes_nothing_that_the_long_one_does_not_and_the_same_event(said: dict[str, Any]) -> None:
    event = {name: value for name, value in (GOOD | said).items() if value is not ...}
    found = decoded(json.dumps(event).encode(), NOW_US, 0)
    if found is not None:
        refuse_tenant(event)
        assert found == read(event, NOW_US)


def test_data_is_said_once() -> None:
    """Both forms at once may contradict each other; what an earlier release took of it counts all the same."""
    event = GOOD | {"data_base64": "eyJxdWFudGl0eSI6IDR9"}
    with pytest.raises(errors.InvalidCommand) as refused:
        read_all([GOOD, event], NOW_US, is_batch=True)
    assert [one["field"] for one in refused.value.errors] == ["[1].data_base64"]
    assert isinstance(read(event, NOW_US), UsageEvent)


def test_what_the_platform_meters_nobody_else_tells() -> None:
    """What an earlier release took of it counts all the same."""
    event = GOOD | {"data": {"dimension": "resource_writes", "quantity": 1_000}}
    with pytest.raises(errors.InvalidCommand) as refused:
        read_all([event, GOOD], NOW_US, is_batch=True)
    assert [one["field"] for one in refused.value.errors] == ["[0].data.dimension"]
    assert isinstance(read(event, NOW_US), UsageEvent)


WRONG_NAMES: Final = ["My-Ext", "trace_id", "Subject", "", "a b", "\u00e9", "\u0661", "trace.id", "data_", "x\n"]
RIGHT_NAMES: Final = ["traceparent", "a", "9", "x" * 21, "x" * 300]


@each("name", WRONG_NAMES)
def test_a_name_that_no_attribute_can_have_is_refused_with_it_and_never_left_out(name: str) -> None:
    event = GOOD | {name: "1"}
    for events, is_batch, place in (([event], False, name), ([GOOD, event], True, f"[1].{name}" if name else "[1]")):
        with pytest.raises(errors.InvalidCommand) as refused:
            read_all(events, NOW_US, is_batch=is_batch)
        assert (refused.value.code, [one["field"] for one in refused.value.errors]) == ("invalid_command", [place])
    key, value = record_key("tn_1", "/meter", "e1").encode(), json.dumps(event).encode()
    assert metered(key, value, NOW_US, "producer.a", ("tenant:tn_1",)) == "wrong_attribute_name"
    taken = Metered("tn_1", UsageEvent("/meter", "e1", "tokens", 3, None, NOW_US))
    assert metered(key, value, NOW_US, INGRESS, None) == taken, "it was answered with 202"


@pytest.mark.parametrize("name", RIGHT_NAMES)
def test_extensions_are_taken_whatever_the_length_of_their_names(name: str) -> None:
    assert read_all([GOOD | {name: "1"}], NOW_US, is_batch=True)
    key, value = record_key("tn_1", "/meter", "e1").encode(), json.dumps(GOOD | {name: "1"}).encode()
    headers = ["sender", "mac", "ce_id", f"ce_{name}", "ce"]
    assert isinstance(metered(key, value, NOW_US, "producer.a", ("tenant:tn_1",), headers), Metered)


@each("name", [*WRONG_NAMES, "data"])
def test_header_fields_name_attributes_by_the_same_rule(name: str) -> None:
    key, value = record_key("tn_1", "/meter", "e1").encode(), json.dumps(GOOD).encode()
    found = metered(key, value, NOW_US, "producer.a", ("tenant:tn_1",), ["sender", f"ce_{name}"])
    assert found == "wrong_attribute_name"
    (wrong,) = attribute_names.of_fields(["content-type", f"ce-{name}", "ce-id"], attribute_names.OF_HTTP)
    assert wrong["field"] == f"ce-{name}"


def test_an_event_that_is_too_old_and_named_wrongly_is_no_old_event() -> None:
    old = GOOD | {"time": instant(NOW_US - limits.USAGE_AGE_MAX_S * 1_000_000 - 1), "My-Ext": 1}
    with pytest.raises(errors.InvalidCommand) as refused:
        read_all([old], NOW_US, is_batch=False)
    assert [one["field"] for one in refused.value.errors] == ["My-Ext", "time"]


def test_the_usual_event_takes_the_short_way() -> None:
    for event in (GOOD, GOOD | {"subject": "t", "datacontenttype": "application/json", "extension": 1}):
        assert decoded(json.dumps(event).encode(), NOW_US, 0) == read(event, NOW_US)
    for value in (b"", b"[]", b"7", b'"\xff"', json.dumps([GOOD]).encode()):
        assert decoded(value, NOW_US, 0) is None


def test_the_first_content_of_an_identity_stays_and_each_other_is_told_once() -> None:
    first = Metered("tn_1", UsageEvent("/meter", "e1", "tokens", 3, None, NOW_US))
    other = Metered("tn_1", structs.replace(first.event, quantity=4))
    foreign = Metered("tn_2", other.event)
    batch = by_identity({3: [first, other, first, other], 5: [foreign, first]})
    assert (batch.firsts, batch.partitions) == ([first, foreign], [3, 5])
    assert contradictions(batch, {}) == [other]
    assert contradictions(batch, {foreign.identity: first.event.content}) == [foreign, other]
    assert contradictions(batch, {first.identity: other.event.content}) == [first]


@each(
    ("price", "quantity", "amount"),
    [
        ("0.25", 10, 2),  # 2.5: half to even
        ("0.25", 14, 4),  # 3.5
        ("1.5", 1, 2),
        ("0.5", 1, 0),
        ("0.0000001", 10**15 + 1, 100_000_000),
        ("0.000000000001", 2**38, 0),
        ("999999999999.999999999999", 2**62, 4611686018427387903999995388314),
        ("0", 10**18, 0),
    ],
)
def test_a_line_is_rounded_once_half_to_even_however_long_its_price(price: str, quantity: int, amount: int) -> None:
    assert pricing.is_price(price)
    assert pricing.amount(price, quantity) == amount


@each("text", ["", "-1", "1e3", ".5", "01", "1.", "1,NaN", 7, "0." + "1" * 13])
def test_what_is_no_price(text: object) -> None:
    assert not pricing.is_price(text)


GRADUATED = "graduated:100@0.25,1000@0.2,*@0.1"
VOLUME = "volume:100@0.25,1000@0.2,*@0.1"


@each(
    ("price", "before", "quantity", "amount"),
    [
        (GRADUATED, 0, 100, 25),
        (GRADUATED, 0, 101, 25),  # 25.2
        (GRADUATED, 0, 1_100, 25 + 180 + 10),
        (GRADUATED, 90, 20, 4),  # 2.5 + 2
        (GRADUATED, 1_000, 7, 1),  # 0.7
        (VOLUME, 0, 100, 25),
        (VOLUME, 0, 101, 20),  # 20.2: all of them cost less
        (VOLUME, 100, 1, -5),  # 20.2 - 25: what was billed before was too much
        (VOLUME, 0, 2_000, 200),
        ("0.5", 3, 4, 2),
    ],
)
def test_tiers_go_on_where_the_same_period_stood(price: str, before: int, quantity: int, amount: int) -> None:
    assert pricing.amount(price, quantity, before) == amount


TIERS: Final = {"mode": "volume", "tiers": [{"up_to": 10, "unit_price": "2"}, {"up_to": None, "unit_price": "1.5"}]}


def test_tiers_travel_as_text_and_look_as_they_were_given() -> None:
    assert pricing.text_of(TIERS) == "volume:10@2,*@1.5"
    assert pricing.text_of(pricing.text_of(TIERS)) == pricing.text_of(TIERS)
    assert pricing.shown(pricing.text_of(TIERS)) == TIERS
    assert pricing.shown("0.25") == "0.25"
    assert prices({"tokens": TIERS, "calls": "1"}) is None


@each(
    "said",
    [
        {},
        TIERS | {"mode": "other"},
        {"mode": "volume", "tiers": []},
        {"mode": "volume", "tiers": [{"up_to": 10, "unit_price": "2"}]},
        {"mode": "volume", "tiers": TIERS["tiers"][::-1]},
        {"mode": "volume", "tiers": [{"up_to": 10, "unit_price": "2"}, *TIERS["tiers"]]},
        {"mode": "volume", "tiers": [{"up_to": None, "unit_price": "-2"}]},
        {"mode": "volume", "tiers": [{"up_to": None, "unit_price": "2", "flat": "1"}]},
        {"mode": "volume", "tiers": [{"up_to": 10.5, "unit_price": "2"}, {"up_to": None, "unit_price": "1"}]},
        {"mode": "volume", "tiers": [{"up_to": "10", "unit_price": "2"}, {"up_to": None, "unit_price": "1"}]},
        {"mode": "volume", "tiers": [{"up_to": None, "unit_price": 0.5}]},
        TIERS | {"floor": "1"},
        0.25,  # a number has been rounded already
        1,
        None,
    ],
)
def test_what_are_no_tiers(said: object) -> None:
    assert prices({"tokens": said})


RUN: Final = ("br_1", "in_1", "tn_1", "EUR", {"tokens": "0.25", "calls": "1.5"}, 0, 86_400_000_000)
PLACE: Final = InvoicePlace("tn_1", 1, 1, [], [], 0, 0, 0)


def test_an_invoice_is_the_same_bytes_in_whatever_order_its_usage_is_read() -> None:
    own = [("tokens", 7, 1, 5, 6), ("calls", 3, 1, -1, 2**70)]
    late = [("tokens", -86_400_000_000, 0, 5, 2, 100, "0.25", 7, 8)]
    document = made(basis(PLACE, RUN, own, late, [])).document
    assert made(basis(PLACE, RUN, own[::-1], late, [])).document == document
    found = json.loads(document)
    assert [(line["kind"], line["dimension"], line["amount"]) for line in found["lines"]] == [
        ("usage", "calls", 4),  # 4.5
        ("usage", "tokens", 2),  # 1.75
        ("late_usage", "tokens", 1),
    ]
    assert [(line["meter_version"], line["digest"]) for line in found["lines"]] == [
        (1, "f" * 16 + "0" * 16),
        (1, f"{5:016x}{6:016x}"),
        (1, f"{7:016x}{8:016x}"),
    ]
    before = json.loads(made(basis(PLACE._replace(meter_version=None), RUN, own, late, [])).document)
    assert before["lines"] == [
        {name: said for name, said in line.items() if name not in ("meter_version", "digest")}
        for line in found["lines"]
    ]
    assert (found["total"], found["from"], found["to"]) == (7, "1970-01-01T00:00:00Z", "1970-01-02T00:00:00Z")


def test_corrections_are_lines_of_their_own_and_credit_goes_on_from_invoice_to_invoice() -> None:
    less = ("be_1", "adjustment", "tokens", -40, "0.25", -1, -86_400_000_000, 0, None, "metered twice")
    gift = ("be_2", "credit", None, None, None, None, None, None, 30, "an outage")
    owing = made(basis(PLACE, RUN, [("tokens", 8, 1, 0, 0)], [], [less]))
    lines = json.loads(owing.document)["lines"]
    assert [(line["kind"], line["amount"]) for line in lines] == [("usage", 2), ("adjustment", -10), ("credit", 8)]
    assert (lines[1]["quantity"], lines[1]["reason"], lines[1]["to"]) == (-40, "metered twice", "1970-01-01T00:00:00Z")
    assert (owing.total, owing.credit_left) == (0, 8)  # what we would owe is credit
    second = made(basis(PLACE._replace(credit_before=8), RUN, [("tokens", 100, 1, 0, 0)], [], [gift]))
    assert (second.total, second.credit_left) == (0, 8 + 30 - 25)
    third = made(basis(PLACE._replace(credit_before=13), RUN, [("tokens", 100, 1, 0, 0)], [], []))
    assert (third.total, third.credit_left) == (12, 0)
    assert json.loads(third.document)["lines"][-1] == {"kind": "credit", "amount": -13}
    assert [json.loads(one.document)["total"] for one in (owing, second, third)] == [0, 0, 12]


def test_late_usage_goes_on_in_the_tiers_of_its_period() -> None:
    late = [("tokens", -86_400_000_000, 0, 5, 2, 8, "graduated:10@2,*@1", 0, 0)]
    (line,) = json.loads(made(basis(PLACE, RUN, [], late, [])).document)["lines"]
    assert (line["amount"], line["unit_price"]["mode"]) == (2 * 2 + 3 * 1, "graduated")


def asked(begin: str, end: str, window: str, zone: str) -> list[str]:
    at, to = parsed(begin), parsed(end)
    assert at is not None
    assert to is not None
    return [instant(edge) for edge in bounds(Asked("tokens", at, to, window, None, zone))]  # type: ignore[arg-type]


def test_windows_are_those_of_the_zone_and_are_cut_to_the_span() -> None:
    assert asked("2026-03-28T12:00:00Z", "2026-03-30T12:00:00Z", "day", "Europe/Berlin") == [
        "2026-03-28T12:00:00Z",
        "2026-03-28T23:00:00Z",
        "2026-03-29T22:00:00Z",  # 23 hours: clocks went ahead
        "2026-03-30T12:00:00Z",
    ]
    assert asked("2026-01-31T00:00:00Z", "2026-02-02T00:00:00Z", "month", "Asia/Kolkata")[1:-1] == [
        "2026-01-31T18:30:00Z"
    ]
    assert asked("2026-01-01T00:00:30Z", "2026-01-01T00:02:00Z", "minute", "UTC")[1:-1] == ["2026-01-01T00:01:00Z"]
    with pytest.raises(errors.InvalidCommand):
        asked("2026-01-01T00:00:00Z", "2026-01-31T00:00:00Z", "minute", "UTC")


def test_a_feed_without_usage_looks_once_a_heartbeat_and_one_with_usage_soon() -> None:
    idle_after = sinks_limits.PLACED_ROWS_IDLE_AFTER_S
    assert [look_again_in_s(idle) for idle in (0, idle_after)] == [sinks_limits.PLACED_ROWS_POLL_S] * 2
    assert look_again_in_s(idle_after + 1) == look_again_in_s(math.inf) == sinks_limits.SINK_HEARTBEAT_MS / 1_000
