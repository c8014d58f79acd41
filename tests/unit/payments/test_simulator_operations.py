"""Reading a request: strict, and the same request is recognised however it is written."""

from __future__ import annotations

import json
from typing import Any

import pytest

from compose.simulator import errors
from compose.simulator.operations.nouns import operation_read, provider_ref_for
from schemas import limits
from tests.each import each

GOOD = {"kind": "purchase", "reference": "pi_1", "amount": 5, "currency": "USD", "token": "tok_sim_approve"}

VISA = {"number": "4242424242424242", "exp_month": 12, "exp_year": 2035, "cvc": "123"}


def read(content: dict[str, Any], key: str | None = "op_1") -> Any:
    return operation_read(key, json.dumps(content).encode())


def test_the_same_request_has_one_fingerprint() -> None:
    """Order of fields, blanks and spelled-out defaults are not another request; any value is."""
    first = read(GOOD).fingerprint
    reordered = json.dumps(dict(reversed(GOOD.items())) | {"parent": None, "final": True}, indent=3)
    assert operation_read("op_2", reordered.encode()).fingerprint == first
    changes: list[dict[str, Any]] = [
        {"amount": 6},
        {"currency": "EUR"},
        {"reference": "pi_2"},
        {"token": "x"},
        {"final": False},
        {"kind": "authorize"},
    ]
    assert len({first, *(read(GOOD | change).fingerprint for change in changes)}) == 1 + len(changes)


@pytest.mark.parametrize("key", [None, "", "a b", "op/1", "op\n", "é", "x" * 256])
def test_an_identity_is_demanded(key: str | None) -> None:
    with pytest.raises(errors.IdempotencyKeyRequired):
        read(GOOD, key)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b'{"kind": "purchase", "reference": "\xff"}',
        b"[" * 10_000,
        b'{"a":' * 2_000 + b"1" + b"}" * 2_000,
    ],
)
def test_what_is_no_json_is_malformed_or_invalid(content: bytes) -> None:
    with pytest.raises((errors.MalformedRequest, errors.InvalidOperation)):
        operation_read("op_1", content)


@each(
    ("change", "field"),
    [
        ({"amount": 0}, "amount"),
        ({"amount": -1}, "amount"),
        ({"amount": 1.0}, "amount"),
        ({"amount": "1"}, "amount"),
        ({"amount": True}, "amount"),
        ({"amount": limits.AMOUNT_MINOR_MAX + 1}, "amount"),
        ({"amount": 10**30}, "amount"),
        ({"amount": None}, "amount"),
        ({"currency": "usd"}, "currency"),
        ({"currency": "USDX"}, "currency"),
        ({"currency": "USD\n"}, "currency"),
        ({"kind": "gift"}, "kind"),
        ({"kind": "refund", "token": None}, "parent"),
        ({"card": VISA}, "token"),
        ({"card": VISA, "kind": "capture", "parent": "sim_1"}, "card"),
        ({"card": VISA | {"number": "4242424242424241"}, "token": None}, "card.number"),
        ({"card": VISA | {"number": "4242 4242 4242 4242"}, "token": None}, "card.number"),
        ({"card": VISA | {"exp_month": 13}, "token": None}, "card.exp_month"),
        ({"card": VISA | {"pin": "1"}, "token": None}, "card"),
        ({"reference": ""}, "reference"),
        ({"reference": "pi_1\n"}, "reference"),
        ({"reference": "pi\u0000"}, "reference"),
        ({"reference": "x" * 256}, "reference"),
        ({"token": None}, "token"),
        ({"parent": "sim_1"}, "parent"),
        ({"kind": "capture"}, "parent"),
        ({"kind": "void", "token": None}, "parent"),
        ({"kind": "capture", "parent": "sim_1", "amount": 0}, "amount"),
        ({"final": "yes"}, "final"),
        ({"colour": "red"}, "body"),
    ],
)
def test_wrong_values_are_named(change: dict[str, Any], field: str) -> None:
    with pytest.raises(errors.InvalidOperation) as caught:
        read(GOOD | change)
    assert [error["field"] for error in caught.value.errors or []] == [field]


def test_a_provider_ref_is_a_function_of_the_identity() -> None:
    assert provider_ref_for("op_1") == provider_ref_for("op_1") != provider_ref_for("op_2")


def test_a_card_number_ends_where_it_is_read() -> None:
    """What goes on holds the network and the last four digits, and errors quote no value."""
    operation = read({**GOOD, "token": None, "card": VISA})
    assert operation.body.token == "card visa 4242 approves"
    assert VISA["number"] not in repr(operation)
    with pytest.raises(errors.InvalidOperation) as caught:
        read({**GOOD, "token": None, "card": VISA | {"number": "4242424242424241"}})
    assert "424242424242" not in f"{caught.value!r} {caught.value.errors}"
