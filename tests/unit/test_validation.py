"""Values of payloads, field by field: what is taken, what is refused and why. Rule: nothing malformed reaches Kafka."""

from __future__ import annotations

from itertools import repeat
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas import limits
from schemas.fields import card_number, currency, validation
from schemas.payments import limits as payments_limits
from schemas.payments import payloads
from schemas.services import OPERATIONS
from tests.each import each

CREATE: dict[str, Any] = {"amount": 1_099, "currency": "USD"}
HUGE = 10**400


def errors_of(table: validation.Fields, payload: dict[str, Any]) -> list[str]:
    return [e["field"].removeprefix("payload.") for e in validation.normalize(table, payload)[1]]


def taken(field: str, value: object) -> bool:
    return errors_of(payloads.CREATE_INTENT, CREATE | {field: value}) == []


@pytest.mark.parametrize("amount", [1, 2, 999, 2**31, 2**53 - 1])
def test_amounts_that_are_taken(amount: int) -> None:
    assert taken("amount", amount)


@each(
    "amount",
    [0, -1, -(2**53), 2**53, 2**63, HUGE, 1.0, 10.5, float("nan"), float("inf"), True, False, "1", None, [], {}],
)
def test_amounts_that_are_refused(amount: object) -> None:
    assert errors_of(payloads.CREATE_INTENT, CREATE | {"amount": amount}) == ["amount"]


@each("code", sorted(currency.EXPONENTS))
def test_every_currency_with_a_minor_unit_is_taken(code: str) -> None:
    assert taken("currency", code)


@each("code", ["XAU", "XTS", "XXX", "usd", "Usd", "US", "", "USD ", "€", None, 840, ["USD"]])
def test_currencies_that_are_refused(code: object) -> None:
    assert errors_of(payloads.CREATE_INTENT, CREATE | {"currency": code}) == ["currency"]


@pytest.mark.parametrize("token", [None, "tok_a", "pm_a", "tok_" + "x" * (payments_limits.TOKEN_LENGTH_MAX - 4)])
def test_payment_methods_that_are_taken(token: str | None) -> None:
    assert taken("payment_method", token)


@each(
    "token",
    [
        "",
        "4242424242424242",
        "TOK_a",
        " tok_a",
        "tok_é",
        "tok_\x00",
        "tok_\n",
        "tok_" + "x" * (payments_limits.TOKEN_LENGTH_MAX - 3),
        7,
        True,
        ["tok_a"],
        {},
    ],
)
def test_payment_methods_that_are_refused(token: object) -> None:
    assert errors_of(payloads.CREATE_INTENT, CREATE | {"payment_method": token}) == ["payment_method"]


def test_a_card_number_is_told_to_go_elsewhere() -> None:
    _, (error,) = validation.normalize(payloads.CREATE_INTENT, CREATE | {"payment_method": "4242424242424242"})
    assert "never send card numbers" in error["reason"]
    assert "4242" not in error["reason"]


def test_metadata_up_to_its_bounds() -> None:
    full = {
        f"{n:0{limits.METADATA_KEY_LENGTH_MAX}d}": "\U0001f4b3" * limits.METADATA_VALUE_LENGTH_MAX
        for n in range(limits.METADATA_KEYS_MAX)
    }
    assert taken("metadata", full)
    assert taken("metadata", {})
    assert taken("metadata", {"empty": "", "Ünïcode ✓": "quote \" slash \\ brace {} comma, 'x'"})


@each(
    "metadata",
    [
        None,
        [],
        "a",
        1,
        {"a": 1},
        {"a": None},
        {"a": {"b": "c"}},
        {"": "a"},
        {"k" * (limits.METADATA_KEY_LENGTH_MAX + 1): "a"},
        {"a": "v" * (limits.METADATA_VALUE_LENGTH_MAX + 1)},
        {str(n): "a" for n in range(limits.METADATA_KEYS_MAX + 1)},
        {"a": "\x00"},
        {"a": "\x1f"},
        {"a": "\x7f"},
        {"a": "\n"},
        {"a\t": "b"},
        {"a": "\ud800"},
        {"\udfff": "a"},
    ],
)
def test_metadata_that_is_refused(metadata: object) -> None:
    assert errors_of(payloads.CREATE_INTENT, CREATE | {"metadata": metadata}) == ["metadata"]


@given(
    st.dictionaries(
        st.text(max_size=3) | st.sampled_from(["pan_1", "pan_2", "4242"]),
        st.sampled_from(["4242 4242 4242 4242", "42424242", "4242 4242 4242", "a\x7f", "x" * 501])
        | st.text(max_size=9),
        max_size=3,
    )
)
def test_what_is_seen_at_a_glance_is_what_every_text_says_alone(texts: dict[str, str]) -> None:
    """Most metadata is taken without a look at each text; by none of these looks would it be refused."""
    if validation._says_nothing_refused(texts):
        assert not any(map(validation.free_text, texts, repeat(limits.METADATA_KEY_LENGTH_MAX)))
        assert not any(map(validation.free_text, texts.values(), repeat(limits.METADATA_VALUE_LENGTH_MAX), repeat(0)))
        assert not card_number.is_split_over(texts)


@pytest.mark.parametrize(
    ("table", "field", "good", "bad"),
    [
        ("create_payment_intent", "capture_method", ["automatic", "manual"], ["", "auto", "MANUAL", None, True, 1]),
        ("capture_payment_intent", "amount", [None, 1, 2**53 - 1], [0, -1, 2**53, 1.0, True, "1"]),
        ("capture_payment_intent", "final", [True, False], [None, 0, 1, "true", ""]),
        ("confirm_payment_intent", "payment_method", [None, "tok_b"], ["", "b", 1, False]),
        (
            "cancel_payment_intent",
            "cancellation_reason",
            [None, "duplicate", "fraudulent", "requested_by_customer", "abandoned"],
            ["", "expired", "Duplicate", 1, []],
        ),
    ],
)
def test_the_other_fields(table: str, field: str, good: list[object], bad: list[object]) -> None:
    fields = OPERATIONS[table].payload
    base = CREATE if table == "create_payment_intent" else {}
    for value in good:
        assert errors_of(fields, base | {field: value}) == [], value
    for value in bad:
        assert errors_of(fields, base | {field: value}) == [field], value


FACT: dict[str, Any] = {"operation_id": "op_1", "attempt": 1, "status": "captured"}


@pytest.mark.parametrize(
    ("field", "good", "bad"),
    [
        (
            "operation_id",
            ["op_1", "x" * limits.TEXT_LENGTH_MAX],
            ["", None, "x" * (limits.TEXT_LENGTH_MAX + 1), "\x00"],
        ),
        ("attempt", [0, 1, 2**31 - 1], [-1, 2**31, 1.0, True, None]),
        ("status", ["pending", "unknown", "declined", "manual_review"], ["created", "succeeded", "", None]),
        ("amount", [None, 0, 1, 2**53 - 1], [-1, 2**53, 1.5, False]),
        ("currency", [None, "USD", "whatever the processor said"], ["", 1, "\ud800"]),
        ("provider_ref", [None, "pr_1"], ["", 1, "\x1b[31m"]),
        ("error_code", [None, "insufficient_funds"], ["", 1]),
    ],
)
def test_facts(field: str, good: list[object], bad: list[object]) -> None:
    """A processor's echo is taken as it came, within what can be stored: the owner judges it."""
    for value in good:
        assert errors_of(payloads.ATTEMPT_OUTCOME, FACT | {field: value}) == [], value
    for value in bad:
        assert errors_of(payloads.ATTEMPT_OUTCOME, FACT | {field: value}) == [field], value


def test_required_fields_and_defaults() -> None:
    payload, errors = validation.normalize(payloads.CREATE_INTENT, {})
    assert [e["reason"] for e in errors] == ["is required", "is required"]
    payload, errors = validation.normalize(payloads.CREATE_INTENT, dict(CREATE))
    assert errors == []
    defaults = {"payment_method": None, "capture_method": "automatic", "metadata": {}, "reference": None}
    defaults |= dict.fromkeys(("description", "receipt_email", "statement_descriptor", "return_url"))
    assert payload == CREATE | defaults


def test_every_error_is_told_at_once() -> None:
    wrong = {"amount": 0, "currency": "?", "capture_method": "x", "extra": 1}
    assert errors_of(payloads.CREATE_INTENT, wrong) == ["amount", "currency", "capture_method", "extra"]


def test_unknown_fields_are_refused_even_beside_a_missing_one() -> None:
    assert errors_of(payloads.CREATE_INTENT, CREATE | {"ammount": 1}) == ["ammount"]
    assert errors_of(payloads.CONFIRM, {"x": None}) == ["x"]


@pytest.mark.parametrize("name", ["\ud800", "\x00" * 50, "x" * 10_000])
def test_hostile_field_names_are_reported_in_a_form_that_can_be_sent(name: str) -> None:
    _, errors = validation.normalize(payloads.CONFIRM, {name: 1})
    assert len(msgspec.json.encode(errors)) < 500


@pytest.mark.parametrize("name", ["merchant", "merchant_id", "tenant", "tenant_id", "scope"])
def test_only_a_token_says_who_the_caller_is(name: str) -> None:
    assert validation.names_its_caller({"amount": 1, name: "m_2"}, payloads.CREATE_INTENT) == name
    assert validation.names_its_caller({"amount": 1, name.upper(): "m_2"}, payloads.CREATE_INTENT) is None


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(st.characters()), inner, max_size=3),
    max_leaves=8,
)


@given(st.sampled_from(sorted(OPERATIONS)), st.data())
def test_any_json_value_is_taken_or_refused_and_never_raises(operation: str, data: st.DataObject) -> None:
    """What is taken can be stored and hashed; what is refused can be told."""
    fields = OPERATIONS[operation].payload
    names = st.sampled_from([*sorted(fields), "other"]) | st.text(st.characters())
    payload = data.draw(st.dictionaries(names, json_values, max_size=6))
    normal, errors = validation.normalize(fields, payload)
    assert msgspec.json.encode(errors)
    if not errors:
        assert normal.keys() == fields.keys()
        assert "\\u0000" not in msgspec.json.encode(normal).decode()


@pytest.mark.parametrize(
    ("value", "ok"),
    [
        ("a", True),
        ("", False),
        ("é✓\U0001f4b3", True),
        ("a\x00b", False),
        ("\ud83d", False),
        (7, False),
        ("aaaa", False),
    ],
)
def test_clean_text(value: object, ok: bool) -> None:
    assert (validation.clean_text(value, 3) is None) == ok


def test_what_the_payer_is_told() -> None:
    for field, good, bad in (
        (
            "receipt_email",
            ["ada@example.org", "a+b@ex.co.uk"],
            ["ada", "a@b", "a b@example.org", "<a@b.co>", "a@b.co,c@d.co", 5],
        ),
        ("statement_descriptor", ["ORDER 7", "A"], ["", "7", "A*B", '"A"', "É", "A" * 23]),
        ("return_url", ["https://shop.example/back?a=1"], ["shop.example", "javascript:alert(1)", "https://a\nb"]),
        ("description", ["Zwölf Gläser"], ["", "x" * 501, "4242 4242 4242 4242"]),
    ):
        assert [errors_of(payloads.CREATE_INTENT, CREATE | {field: value}) for value in good] == [[]] * len(good)
        assert [errors_of(payloads.CREATE_INTENT, CREATE | {field: value}) for value in bad] == [[field]] * len(bad)
