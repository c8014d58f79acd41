"""Retry identities: equal for a retry in any form, different for anything else."""

from __future__ import annotations

import base64
import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas import identity
from schemas.fields import validation
from schemas.payments import payloads

SCOPE, OPERATION, KEY = "m_1", "POST /v1/payment_intents", "order-1"
ID = identity.derived_id("pi", SCOPE, OPERATION, KEY)
texts = st.text(st.characters(min_codepoint=32, exclude_categories=["Cs"]))


def test_a_retried_create_makes_the_same_id_for_ever() -> None:
    """A change here would let yesterday's retry create a second payment: the value is written down."""
    assert ID == "pi_ybkw3hpzcfhetlmy46cofeq7lr"
    assert identity.derived_id("pi", SCOPE, OPERATION, KEY) == ID


@given(texts)
def test_an_id_is_base32_as_the_standard_library_writes_it(key: str) -> None:
    digest = hashlib.sha256(f"{SCOPE}\x1f{OPERATION}\x1f{key}".encode()).digest()
    written = base64.b32encode(digest)[:26].decode().lower()
    assert identity.derived_id("pi", SCOPE, OPERATION, key) == f"pi_{written}"


def test_an_id_is_readable_and_fits_its_field() -> None:
    prefix, _, rest = ID.partition("_")
    assert prefix == "pi"
    assert len(rest) == 26
    assert rest.isascii()
    assert rest.isalnum()
    assert rest == rest.lower()


@pytest.mark.parametrize(
    "other",
    [
        ("pi", "m_2", OPERATION, KEY),
        ("pi", SCOPE, "POST /v1/refunds", KEY),
        ("pi", SCOPE, OPERATION, "order-2"),
        ("pi", SCOPE, OPERATION, KEY + " "),
        ("pi", SCOPE + "o", OPERATION, KEY[1:]),
    ],
)
def test_another_caller_operation_or_key_makes_another_id(other: tuple[str, str, str, str]) -> None:
    assert identity.derived_id(*other) != ID


@given(texts, texts, texts, texts)
def test_parts_do_not_run_into_one_another(scope: str, key: str, scope_2: str, key_2: str) -> None:
    same = (scope, key) == (scope_2, key_2)
    ids = {identity.derived_id("pi", s, OPERATION, k) for s, k in ((scope, key), (scope_2, key_2))}
    assert (len(ids) == 1) == same


PAYLOAD = {"amount": 1_099, "currency": "USD"}


def hashed(payload: dict[str, object], operation: str = OPERATION, key: str = ID) -> bytes:
    normal, errors = validation.normalize(payloads.CREATE_INTENT, payload)
    assert not errors
    return identity.request_hash(operation, key, normal)


def test_defaults_left_out_hash_like_defaults_given() -> None:
    given_all = PAYLOAD | {"payment_method": None, "capture_method": "automatic", "metadata": {}}
    assert hashed(PAYLOAD) == hashed(given_all)
    assert len(hashed(PAYLOAD)) == 32


def test_requests_hash_as_they_did_before_fields_were_added() -> None:
    """Computed by the build before risk: an upgrade in place must not turn a retry into key_reused."""
    known = {
        ("payment_method", None): "263e6531fa4da04bf81bb69c9aed361ea93359af9b4bf07a9e46a78271baadc9",
        ("payment_method", "tok_a"): "8d725d05df4542bf275179efba5af00916935d2f2bb74a35c59cbba2f152b6ad",
    }
    for (name, value), digest in known.items():
        for later in ({}, {"customer_ip": None, "customer_country": None, "card_country": None}):
            normal, errors = validation.normalize(payloads.CONFIRM, {name: value, **later})
            assert not errors
            payload = validation.hashed(payloads.CONFIRM, normal)
            made = identity.request_hash("POST /v1/payment_intents/{id}/confirm", "pi_1", payload)
            assert made.hex() == digest
    said, _ = validation.normalize(payloads.CONFIRM, {"customer_ip": "203.0.113.7"})
    other = validation.hashed(payloads.CONFIRM, said)
    assert other == {"payment_method": None, "customer_ip": "203.0.113.7"}, "what is said is part of the request"


def test_a_request_without_a_reference_hashes_as_before_there_was_one() -> None:
    """Computed by the build before it."""
    for template, table, said, digest in (
        (
            "POST /v1/payment_intents",
            payloads.CREATE_INTENT,
            {"amount": 1_099, "currency": "USD"},
            "0af46b038ad1eba445ff7e572c049410f60c95b37a59ec01b777e1239c1c1b1c",
        ),
        (
            "POST /v1/payment_intents/{id}",
            payloads.UPDATE_INTENT,
            {"amount": 5},
            "ae2696fb521518d612ed12ef1087dbc698aaa12ca13842f714cb5d1791ae2b4a",
        ),
    ):
        for without in ({}, {"reference": None}):
            normal, errors = validation.normalize(table, said | without)
            assert not errors
            assert identity.request_hash(template, "pi_1", validation.hashed(table, normal)).hex() == digest


def test_the_order_of_fields_does_not_matter() -> None:
    one = PAYLOAD | {"metadata": {"a": "1", "b": "2"}}
    other = {"metadata": {"b": "2", "a": "1"}, "currency": "USD", "amount": 1_099}
    assert hashed(one) == hashed(other)


@pytest.mark.parametrize(
    "changed",
    [
        {"amount": 1_098},
        {"currency": "EUR"},
        {"payment_method": "tok_a"},
        {"capture_method": "manual"},
        {"metadata": {"a": ""}},
        {"metadata": {"b": "a"}},
    ],
)
def test_another_value_is_another_request(changed: dict[str, object]) -> None:
    assert hashed(PAYLOAD | changed) != hashed(PAYLOAD)


def test_another_operation_or_aggregate_is_another_request() -> None:
    assert hashed(PAYLOAD, operation="POST /v1/payment_intents/{id}/confirm") != hashed(PAYLOAD)
    assert hashed(PAYLOAD, key="pi_other") != hashed(PAYLOAD)


def test_every_attempt_of_an_intent_has_an_identity_of_its_own_at_the_processor() -> None:
    ids = [identity.operation_id(i, n) for i in ("pi_a", "pi_b", "pi_a_1") for n in (1, 2, 11)]
    assert len(set(ids)) == len(ids)
    assert identity.operation_id("pi_a", 1) == "op_a_1"


def test_event_ids_sort_as_their_stream() -> None:
    places = [(0, 1), (0, 15), (0, 16), (0, 2**40), (1, 1), (255, 3)]
    ids = [identity.event_id("p", *place) for place in places]
    assert ids == sorted(ids)
    assert len(set(ids)) == len(ids)
    assert ids[0] == "evt_p0000000000000001"
