"""Free text that holds a card number is refused at every door; order numbers, hashes and UUIDs are not."""

from __future__ import annotations

import json
import uuid
from textwrap import wrap
from typing import TYPE_CHECKING

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from starlette.datastructures import Headers

from ingress.commands import envelope, envelope_fields
from ingress.payments.merchants.endpoint_values import _why_not_description, _why_not_url
from schemas import errors, identity
from schemas.fields import validation
from schemas.fields.card_networks import network_of, passes_luhn
from schemas.fields.card_number import REFUSED, holds_card_number, url_holds_card_number
from schemas.operators import decision_note
from schemas.payments import payloads, value_types
from schemas.services import OPERATIONS
from tests.each import each
from tests.unit.vault.test_vault_card import PUBLISHED, check_digit

if TYPE_CHECKING:
    from collections.abc import Callable

VISA = "4242424242424242"
REAL = sorted(number for number, network in PUBLISHED.items() if network != "unknown")
#: how people set apart the digits of a number
SEPARATORS = ("", " ", "-", "  ", " - "[:2], "\u00a0", "\u2013")


@each("number", REAL)
@each("around", ["{}", "card {} exp 12/30", "pan={},", "x{}y", "\n{}\n", "_{}_", "4711 {}", "{} 123"])
def test_published_numbers_are_found(number: str, around: str) -> None:
    assert holds_card_number(around.format(number))


@given(st.sampled_from(REAL), st.data())
def test_separators_hide_nothing(number: str, data: st.DataObject) -> None:
    pieces = [data.draw(st.sampled_from(SEPARATORS)) for _ in number[1:]]
    assert holds_card_number(number[0] + "".join(s + d for s, d in zip(pieces, number[1:], strict=True)))


@each(
    "text",
    [
        "４２４２４２４２４２４２４２４２",
        "٤٢٤٢٤٢٤٢٤٢٤٢٤٢٤٢",
        "４２４２ 4242 ٤٢٤٢ 4242",
        "⁴²" * 8,
        "④②④② " * 4,
        "➃➁" * 8,
        "₄₂" * 8,
    ]
    + ["4\ufe0f\u20e32\ufe0f\u20e3" * 8, "\U0001d7d2\U0001d7d0" * 8],
)
def test_digits_of_other_scripts_are_digits(text: str) -> None:
    assert holds_card_number(text)


@each(
    "mark", [*"./\\,:;_|*+~=&'!?<>", " / ", ", ", "\u00b7", "\u200b", "\u2060-\u200d", "\u0336", *"‹›→", ") (", "..."]
)
def test_no_mark_between_groups_hides_a_number(mark: str) -> None:
    for number in ("4242 4242 4242 4242", "3782 822463 10005", "3056 930902 5904", "42 42 42 42 42 42 42 42"):
        assert holds_card_number(f"order {number.replace(' ', mark)} paid")
    assert holds_card_number(mark.join(VISA))


@each("mark", [*"x#€%", " x ", " $", "und", "%20", "%C2%A0"])
def test_letters_and_signs_between_groups_of_four_hide_nothing(mark: str) -> None:
    for number in ("4242 4242 4242 4242", "3782 822463 10005", "3056 930902 5904"):
        assert holds_card_number(f"order {number.replace(' ', mark)} paid")


@pytest.mark.parametrize(
    "text",
    [
        f"cc{VISA}",
        f"card{VISA}abcdabcd",
        f"{VISA}a",
        f"deadbeef{VISA}"[2:],
        f"+{VISA}",
        f"+1 {VISA}",
        f"(4242)(4242)(4242)(4242), {VISA[:8]}",
    ],
)
def test_what_stands_beside_a_number_hides_nothing(text: str) -> None:
    assert holds_card_number(text)


@pytest.mark.parametrize(
    "text",
    ["4242%204242%204242%204242", "4242+4242+4242+4242", "%34242424242424242", "4242%25204242%25204242%25204242"],
)
def test_escapes_of_an_address_hide_nothing(text: str) -> None:
    assert url_holds_card_number(f"https://shop.example/hooks?of={text}")
    assert webhook_url_refused(f"https://shop.example/hooks/{text}")
    assert validation.visible(f"q={text}") == "(a card number)"


def test_who_is_refused_for_a_setting_is_told_its_name() -> None:
    for url in ("http://127.0.0.1:8000/told", "https://localhost:8000/told"):
        assert "MILLRACE_MERCHANT_WEBHOOKS_LOOPBACK" in str(_why_not_url(url, loopback=False))
    for url in ("http://10.0.0.1/told", "https://intranet/told", "ftp://localhost/"):
        assert "MILLRACE" not in str(_why_not_url(url, loopback=False))


def webhook_url_refused(url: str) -> bool:
    return _why_not_url(url, loopback=False) == REFUSED


@each(
    "texts",
    [
        {"a": "4242", "b": "4242", "c": "4242", "d": "4242"},
        {"w": "order 7", "d": "4242", "c": " 4242", "b": "4242", "a": "4242 "},
        {"one": "4242", "two": "4242", "three": "4242", "four": "4242"},
        {"x": "3782", "yes": "822463", "zero": "10005"},
        {"pan_1": "42424242", "pan_2": "42424242"},
        {"pan2": "4242", "pan1": "424242424242"},
        {"pan 9": "4242", "pan 10": "424242424242"},
        {"42424242": "42424242"},
        {"pan_1": "４２４２４２４２", "pan_2": "⁴²⁴²⁴²⁴²"},
    ],
)
def test_a_number_in_pieces_is_found(texts: dict[str, str]) -> None:
    for reason in (validation.metadata(texts), value_types.EVIDENCE.check(texts)):
        assert reason is not None
        assert reason.endswith(REFUSED)
        assert "42" not in reason


@pytest.mark.parametrize(
    "texts",
    [
        {"reference": "42424242", "description": "42424242"},
        {"reference": "4242-4242", "description": "4242.4242"},
        {"reference": "4242", "description": "4242", "metadata": {"a": "4242", "b": "4242"}},
        {"description": "4242", "metadata": {"a": "4242", "b": "4242", "c": "4242"}},
    ],
)
def test_a_number_in_pieces_over_one_command_is_found(texts: dict[str, object]) -> None:
    _, (error,) = validation.normalize(payloads.CREATE_INTENT, CREATE | texts)
    assert error == {"field": "payload", "reason": f"taken together {REFUSED}"}


@pytest.mark.parametrize(
    "texts",
    [
        {"reference": "42424242", "description": "424242424242"},
        {"reference": "42424242", "metadata": {"customer": "42424242"}},
        {"reference": "42424242", "description": "order 42424242"},
        {"reference": "42424242", "description": "42424243"},
    ],
)
def test_numbers_of_one_command_are_no_card(texts: dict[str, object]) -> None:
    assert validation.normalize(payloads.CREATE_INTENT, CREATE | texts)[1] == []


@pytest.mark.parametrize(
    "texts",
    [
        {"order": "42424242", "customer": "42424242"},  # two numbers of their own
        {"order": "4242424242", "lines": "424242"},
        {"line_1": "42424242", "line_2": "42424243"},
        {"order_id": "42424242", "order_ip": "42424242"},
        {"a": "4242", "b": "4242", "c": "4242"},
        {"at": "2026-06-15", "from": "12:00", "to": "13:00", "table": "4242"},
        {},
    ],
)
def test_numbers_beside_each_other_are_no_card(texts: dict[str, str]) -> None:
    assert validation.metadata(texts) is None


@given(st.text("0123456789", min_size=1, max_size=19), st.text("#/ abcxyz", max_size=10))
def test_a_number_that_fails_luhn_is_an_order_number(number: str, before: str) -> None:
    assume(not passes_luhn(number))
    assert not holds_card_number(f"{before}{number}")


@given(st.text("0123456789", min_size=12, max_size=18))
def test_a_number_of_no_network_is_no_card(body: str) -> None:
    number = body + check_digit(body)
    assume(network_of(number) == "unknown")
    assert not holds_card_number(number)


@given(st.uuids(), st.binary(min_size=12, max_size=32))
def test_uuids_and_hashes_are_no_cards(one: uuid.UUID, digest: bytes) -> None:
    assert not holds_card_number(str(one))
    assume(not digest.hex().isdecimal())
    assert not holds_card_number(digest.hex())


@each(
    "text",
    [
        "42424242-4242-4424-8242-424242424242",  # a UUID, whatever its digits
        "0" * 8 + "ab" + VISA,  # a piece of a hash
        "+4915112345670",  # a telephone number of thirteen digits that Luhn likes
        "+49 151 1234 5670",
        "https://shop.example/r?tel=%2B4915112345670",
        "GB68 NWBK 6016 1331 9200 06",  # the account's digits are a number of Maestro
        "GB68NWBK60161331920006",
        "00-0af7651916cd43dd8448eb211c80319c-4242424242424242-01",  # a traceparent
        "$34 $36 $33 $59 $30 $96 $31 $62 $1",
        "4111 x 1111 a 1111 x 1111",
        "100% of 424242, 42% of 424242",
        "2026-06-15T12:00:00.123456Z",
        "41.40338, 2.17403",  # a place, whose digits Luhn likes
        "4,242,424,242,424,242",  # an amount
        "4.242424242424242",
        "41.20.30.40, 41.20.30.44",
        "1800000000000",
        "1800000000000000",
        "9999999999999995",
        "",
        "4" * 12,
        "42424242424242421",  # no visa number has seventeen digits
    ],
)
def test_what_only_looks_like_one(text: str) -> None:
    assert not holds_card_number(text)


@given(st.text(max_size=80))
def test_any_text_is_judged(text: str) -> None:
    assert holds_card_number(text) in (True, False)


def iban_of(account: str) -> str:
    check = 98 - int("".join(str(int(c, 36)) for c in f"{account}DE00")) % 97
    return f"DE{check:02d}{account}"


#: what callers write every day, of drawn digits
EVERY_DAY: dict[str, Callable[[str], str]] = {
    "id": lambda d: identity.derived_id("pi", "m_1", "POST /v1/x", d),
    "iban": lambda d: iban_of(d[:18]),
    "printed iban": lambda d: " ".join(wrap(iban_of(d[:18]), 4)),
    "telephone": lambda d: f"+49 {d[:3]} {d[3:6]} {d[6:10]}",
    "telephones": lambda d: f"({d[:3]}) {d[3:6]}-{d[6:10]} or ({d[10:13]}) {d[13:16]}-{d[16:20]}",
    "time": lambda d: f"2026-1{d[0]}-2{d[1]}T1{d[2]}:4{d[3]}:3{d[4]}.{d[5:11]}Z",
    "time in a name": lambda d: f"202611{d[:2]}T{d[2:8]}Z-{d[8:12]}",
    "traceparent": lambda d: f"00-{d}4bf92f3577b4-{d[:16]}-01",
    "trace": lambda d: f"{d}a3ce929d0e0e",
    "prices": lambda d: ", ".join(f"${d[n : n + 2]}.{d[n + 2 : n + 4]}" for n in range(0, 20, 4)),
    "shares": lambda d: "% ".join(wrap(d, 2)) + "%",
    "sizes": lambda d: f"{d[:4]}x{d[4:8]}x{d[8:12]}",
    "number": lambda d: f"order {d[:11]} of {d[11:19]}",
    "place": lambda d: f"4{d[0]}.{d[1:7]}, 1{d[7]}.{d[8:14]}",
    "address": lambda d: f"https://shop.example/back?at=17{d[:8]}&order={d[8:16]}&next=%2Fcart%3Fn%3D{d[16:20]}",
}


@each("kind", EVERY_DAY)
def test_what_callers_write_every_day_is_no_card(kind: str) -> None:
    for n in range(400):
        text = EVERY_DAY[kind](f"{identity.lot(kind, str(n)) % 10**20:020d}")
        assert not holds_card_number(text), text


CREATE = {"amount": 1, "currency": "USD"}
REFUND = {"payment_intent": "pi_a"}


@each(
    ("table", "payload", "field"),
    [
        (payloads.CREATE_INTENT, CREATE | {"metadata": {"note": VISA}}, "payload.metadata"),
        (payloads.CREATE_INTENT, CREATE | {"metadata": {VISA: "note"}}, "payload.metadata"),
        (payloads.CREATE_INTENT, CREATE | {"payment_method": f"tok_{VISA}"}, "payload.payment_method"),
        (payloads.CREATE_REFUND, REFUND | {"metadata": {"a": "4242 4242 4242 4242"}}, "payload.metadata"),
        (payloads.CREATE_REFUND, {"payment_intent": VISA}, "payload.payment_intent"),
        (decision_note.OPTIONAL, {"note": f"refund to {VISA}"}, "payload.note"),
        (payloads.CONFIRM, {VISA: "x"}, "payload.(a card number)"),
        (payloads.CREATE_INTENT, CREATE | {"return_url": f"https://shop.example/?pan={VISA}"}, "payload.return_url"),
        (payloads.UPDATE_INTENT, {"return_url": f"https://shop.example/{VISA[:8]}%2D{VISA[8:]}"}, "payload.return_url"),
        (payloads.CONFIRM, {"return_url": "https://shop.example/4242+4242+4242+4242"}, "payload.return_url"),
        (payloads.DISPUTE_EVIDENCE, {"dispute": "dp_1", "evidence": {"receipt": VISA}}, "payload.evidence"),
    ],
)
def test_fields_that_callers_write_freely(table: validation.Fields, payload: dict[str, object], field: str) -> None:
    _, (error,) = validation.normalize(table, payload)
    assert error["field"] == field
    assert "4242" not in json.dumps(error)


def test_an_endpoints_description() -> None:
    assert _why_not_description(f"shop {VISA}") == REFUSED
    assert _why_not_description("shop 4711") is None


def _call(body: dict[str, object], headers: dict[str, str] | None = None, path_id: str | None = None) -> None:
    operation = OPERATIONS["confirm_payment_intent" if path_id else "create_payment_intent"]
    fields = envelope_fields.header_fields(Headers(headers or {}))
    envelope.read_call(operation, path_id, json.dumps(body).encode(), fields, "m_1")


def test_an_idempotency_key_is_refused_before_anything_else() -> None:
    with pytest.raises(errors.MalformedRequest, match="never send card numbers here") as refused:
        _call({"idempotency_key": f"order {VISA}", "payload": {"amount": "wrong"}})
    assert "4242" not in refused.value.public
    with pytest.raises(errors.MalformedRequest, match="never send card numbers here"):
        _call(CREATE, {"Idempotency-Key": VISA})
    for key in (f"+{VISA}", f"cc{VISA}", "4242#4242#4242#4242", "4242%204242%204242%204242"):
        with pytest.raises(errors.MalformedRequest, match="never send card numbers here"):
            _call(CREATE, {"Idempotency-Key": key})


def test_a_request_id_and_a_route() -> None:
    with pytest.raises(errors.InvalidCommand) as refused:
        _call({"idempotency_key": "k", "payload": CREATE}, {"X-Request-Id": VISA})
    assert refused.value.errors == [{"field": "request_id", "reason": REFUSED}]
    for path_id in (VISA, f"pi_c{VISA}", "pi_4242x4242x4242x4242"):
        with pytest.raises(errors.NotFound):
            _call({"idempotency_key": "k"}, path_id=path_id)


def test_identities_of_facts_are_the_processors_own() -> None:
    """Adyen's references have sixteen digits: what a processor calls a payment is not the caller's free text."""
    outcome = {"operation_id": "op_a_1", "attempt": 1, "status": "captured", "provider_ref": VISA}
    outcome["redirect_url"] = f"https://bank.example/challenge/{VISA}"
    assert validation.normalize(payloads.ATTEMPT_OUTCOME, outcome)[1] == []
