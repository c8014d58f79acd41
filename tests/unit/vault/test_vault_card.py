"""Which text is a card: check digits, networks, lengths, expiry; and that no refusal tells what was typed."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.fields.card_networks import NETWORKS, network_of, passes_luhn
from tests.each import each
from vault.card import Card, read_card

NOW = datetime(2026, 6, 15, tzinfo=UTC)

#: test numbers as networks and processors publish them
PUBLISHED = {
    "4242424242424242": "visa", "4000000000000002": "visa", "4222222222222": "visa", "4000056655665556": "visa",
    "5555555555554444": "mastercard", "2223003122003222": "mastercard", "5105105105105100": "mastercard", "2720999999999996": "mastercard",
    "378282246310005": "amex", "371449635398431": "amex", "341111111111111": "amex",
    "6011111111111117": "discover", "6011000990139424": "discover", "6445644564456445": "discover", "6500000000000002": "discover",
    "3566002020360505": "jcb", "3530111333300000": "jcb",
    "3056930009020004": "diners", "36227206271667": "diners", "30569309025904": "diners", "38520000023237": "diners",
    "6200000000000005": "unionpay", "6200000000000047": "unionpay", "6205500000000000004": "unionpay",
    "6759649826438453": "maestro", "5018000000000009": "maestro", "6304000000000000": "maestro",
    "9999999999999995": "unknown",
}  # fmt: skip

digits = st.text("0123456789", min_size=1, max_size=30)


def payload(**changes: Any) -> dict[str, Any]:
    return {"number": "4242424242424242", "exp_month": 6, "exp_year": 2026} | changes


def check_digit(body: str) -> str:
    return next(d for d in "0123456789" if luhn_by_the_book(body + d))


def luhn_by_the_book(number: str) -> bool:
    """As the standard's annex tells it, written another way: from the right, every second digit doubled and its digits added."""
    total = 0
    for n, d in enumerate(map(int, number[::-1])):
        total += sum(map(int, str(2 * d))) if n % 2 else d
    return total % 10 == 0


@given(digits)
def test_luhn_is_the_books(number: str) -> None:
    assert passes_luhn(number) is luhn_by_the_book(number)


@given(digits, st.data())
def test_luhn_finds_a_wrong_digit_and_a_swap(body: str, data: st.DataObject) -> None:
    """Every single wrong digit, and every swap of neighbours but 09 and 90."""
    number = body + check_digit(body)
    place = data.draw(st.integers(0, len(number) - 1))
    other = data.draw(st.sampled_from([d for d in "0123456789" if d != number[place]]))
    assert not passes_luhn(number[:place] + other + number[place + 1 :])
    if place and number[place - 1] != number[place] and {number[place - 1], number[place]} != {"0", "9"}:
        assert not passes_luhn(number[: place - 1] + number[place] + number[place - 1] + number[place + 1 :])


@each(("number", "network"), PUBLISHED.items())
def test_published_numbers_have_their_network(number: str, network: str) -> None:
    card, wrong = read_card(payload(number=number), NOW)
    assert wrong == []
    assert card is not None
    assert (card.network, card.last4) == (network, number[-4:])


@each(
    ("prefix", "network"),
    [("2220", "unknown"), ("2221", "mastercard"), ("2720", "mastercard"), ("2721", "unknown"), ("50", "maestro"), ("51", "mastercard"),
     ("55", "mastercard"), ("56", "maestro"), ("34", "amex"), ("35280", "jcb"), ("3527", "unknown"), ("3589", "jcb"), ("3590", "unknown"),
     ("644", "discover"), ("643", "maestro"), ("306", "unknown"), ("305", "diners"), ("3095", "diners"), ("62", "unionpay"), ("6011", "discover")],
)  # fmt: skip
def test_ranges_end_where_they_end(prefix: str, network: str) -> None:
    assert network_of(prefix.ljust(16, "0")) == network


@given(digits)
def test_every_number_has_one_network(number: str) -> None:
    assert network_of(number) in NETWORKS


@given(st.sampled_from(sorted(PUBLISHED)), st.data())
def test_separators_change_nothing(number: str, data: st.DataObject) -> None:
    gaps = [data.draw(st.sampled_from(["", " ", "-"])) for _ in number]
    card, _ = read_card(payload(number="".join(d + gap for d, gap in zip(number, gaps, strict=True))), NOW)
    assert card is not None
    assert card.number == number


@each(
    ("number", "reason"),
    [("4242424242424241", "check digit"), ("424242424242424", "wrong number of digits for visa"), ("42424242424", "12 to 19"), ("4" * 20, "12 to 19"),
     ("0000000000000000", "check digit"), ("٤٢٤٢٤٢٤٢٤٢٤٢٤٢٤٢", "12 to 19"), ("４２４２４２４２４２４２４２４２", "12 to 19"), ("4242.4242.4242.4242", "12 to 19"), ("", "12 to 19"),
     (" " * 30, "12 to 19"), (4242424242424242, "string"), (None, "required"), (["4242424242424242"], "string"), ("4242424242424242\n", "12 to 19"),
     ("5555555555554444000", "wrong number of digits|check digit"), ("37828224631000005", "wrong number of digits|check digit"), ("4000000000000", "check digit"),
     ("42 42" * 20, "12 to 19")],
)  # fmt: skip
def test_what_is_no_number(number: object, reason: str) -> None:
    card, wrong = read_card(payload(number=number), NOW)
    assert card is None
    assert [w["field"] for w in wrong] == ["payload.number"]
    assert any(part in wrong[0]["reason"] for part in reason.split("|"))


@pytest.mark.parametrize(("network", "length"), [("5555", 17), ("37", 16), ("4", 14), ("3566", 15), ("3056", 15)])
def test_a_network_has_its_lengths(network: str, length: int) -> None:
    body = network.ljust(length - 1, "0")
    card, wrong = read_card(payload(number=body + check_digit(body)), NOW)
    assert card is None
    assert "wrong number of digits" in wrong[0]["reason"]


@each(
    ("now", "month", "year", "is_good"),
    [("2026-06-30T23:59", 6, 2026, True), ("2026-07-01T11:59", 6, 2026, True), ("2026-07-01T12:00", 6, 2026, False), ("2027-01-01T11:00", 12, 2026, True),
     ("2027-01-01T12:00", 12, 2026, False), ("2026-06-15T00:00", 5, 2026, False), ("2026-06-15T00:00", 12, 2025, False), ("2026-06-15T00:00", 1, 2001, False),
     ("2026-06-15T00:00", 6, 2076, True), ("2026-06-15T00:00", 6, 2077, False), ("2026-06-15T00:00", 6, 26, False)],
)  # fmt: skip
def test_a_month_is_over_when_it_is_over_everywhere(now: str, month: int, year: int, is_good: bool) -> None:
    card, wrong = read_card(payload(exp_month=month, exp_year=year), datetime.fromisoformat(now).replace(tzinfo=UTC))
    assert (card is not None, wrong == []) == (is_good, is_good)


@each(
    "change",
    [{"exp_month": v} for v in (0, 13, -1, True, "6", 6.0, None, [])]
    + [{"exp_year": v} for v in (True, "2030", 2030.0, None, 10**30)],
)
def test_what_is_no_expiry(change: dict[str, Any]) -> None:
    card, wrong = read_card(payload(**change), NOW)
    assert card is None
    assert [w["field"] for w in wrong] == [f"payload.{name}" for name in change]


@each("cvc", ["12", "12345", "12a", "١٢٣", 123, "", " 123", "123\n", {}])
def test_what_is_no_cvc(cvc: object) -> None:
    card, wrong = read_card(payload(cvc=cvc), NOW)
    assert (card, [w["field"] for w in wrong]) == (None, ["payload.cvc"])


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@given(
    st.dictionaries(st.sampled_from(["number", "exp_month", "exp_year", "cvc", "x", "4242424242424242"]), json_values),
    st.sampled_from(["number", "exp_month", "exp_year", "cvc"]),
)
def test_no_refusal_tells_what_was_typed(given_payload: dict[str, Any], place: str) -> None:
    """Any JSON is a card or refused with reasons that stand in this module's source, whatever was typed where."""
    typed = given_payload | {place: "4242 4242 4242 4241"}
    card, wrong = read_card(typed, NOW)
    assert (card is None) is bool(wrong)
    told = json.dumps(wrong)
    assert "4242" not in told
    assert {w["field"] for w in wrong} <= {
        "payload",
        "payload.number",
        "payload.exp_month",
        "payload.exp_year",
        "payload.cvc",
    }


def test_a_card_does_not_show_its_number() -> None:
    card = Card(number="4242424242424242", network="visa", exp_month=1, exp_year=2030)
    assert "4242424242424242" not in f"{card} {card!r} {[card]}"
