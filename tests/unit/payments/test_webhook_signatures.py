"""Signatures of webhooks: published vectors, rotation, time, and every way in which bytes can be another's."""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingress.payments.webhooks import signatures
from ingress.payments.webhooks.signatures import (
    InvalidSignature,
    check_standard,
    check_stripe,
    is_adyen_item,
    read_secrets,
)
from schemas.payments import limits
from tests.each import each

# Standard Webhooks, libraries/python/tests/test_webhooks.py.
STANDARD_ID = "msg_p5jXN8AQM9LWM0D4loKWxJek"
STANDARD_AT = 1_614_265_330
STANDARD_BODY = b'{"test": 2432232314}'
STANDARD_SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
STANDARD_SIGNATURE = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
STANDARD_KEYS = read_secrets("standard", [STANDARD_SECRET])

STRIPE_SECRET = "whsec_test_secret_of_stripe"
STRIPE_KEYS = read_secrets("stripe", [STRIPE_SECRET])
STRIPE_BODY = b'{"id": "evt_1", "type": "payment_intent.succeeded", "data": {"object": {}}}'
NOW = 1_700_000_000

# Adyen, adyen-python-api-library test/UtilTest.py.
ADYEN_KEY = "44782DEF547AAA06C910C43932B1EB0C71FC68D9D0C057550C48EC2ACF6BA056"
ADYEN_KEYS = read_secrets("adyen", [ADYEN_KEY])
ADYEN_SIGNATURE = "coqCmt/IZ4E3CzPvMY8zTjQVL5hYJUiBRg8UU+iCWo0="


def adyen_item(**changes: Any) -> dict[str, Any]:
    return {
        "pspReference": "7914073381342284",
        "originalReference": "",
        "merchantAccountCode": "TestMerchant",
        "merchantReference": "TestPayment-1407325143704",
        "amount": {"value": 1130, "currency": "EUR"},
        "eventCode": "AUTHORISATION",
        "success": "true",
        "additionalData": {"hmacSignature": ADYEN_SIGNATURE},
    } | changes


def stripe_header(body: bytes = STRIPE_BODY, secret: str = STRIPE_SECRET, at: int = NOW) -> str:
    mac = hmac.new(secret.encode(), f"{at}.".encode() + body, hashlib.sha256).hexdigest()
    return f"t={at},v1={mac}"


def standard_mac(body: bytes, message_id: str, at: int, secret: str = STANDARD_SECRET) -> str:
    key = base64.b64decode(secret.removeprefix("whsec_"))
    mac = hmac.new(key, f"{message_id}.{at}.".encode() + body, hashlib.sha256).digest()
    return f"v1,{base64.b64encode(mac).decode()}"


def refused(check: Any, *arguments: Any) -> None:
    with pytest.raises(InvalidSignature):
        check(*arguments)


# --- Standard Webhooks ----------------------------------------------------------------------------------------


def test_the_published_vector_of_standard_webhooks() -> None:
    check_standard(STANDARD_BODY, STANDARD_ID, str(STANDARD_AT), STANDARD_SIGNATURE, STANDARD_KEYS, STANDARD_AT)


def test_one_of_several_signatures_is_enough_and_foreign_versions_are_none() -> None:
    several = f"v1,AAAA v2,{STANDARD_SIGNATURE[3:]} v1,{'A' * 43}= {STANDARD_SIGNATURE}"
    check_standard(STANDARD_BODY, STANDARD_ID, str(STANDARD_AT), several, STANDARD_KEYS, STANDARD_AT)
    other = f"v1a,{STANDARD_SIGNATURE[3:]} v2,{STANDARD_SIGNATURE[3:]}"
    refused(check_standard, STANDARD_BODY, STANDARD_ID, str(STANDARD_AT), other, STANDARD_KEYS, STANDARD_AT)


@each(
    "change",
    [
        {"raw": STANDARD_BODY + b" "},
        {"raw": STANDARD_BODY[:-1]},
        {"raw": STANDARD_BODY.replace(b"4", b"5", 1)},
        {"raw": b""},
        {"message_id": "msg_other"},
        {"message_id": ""},
        {"timestamp": str(STANDARD_AT + 1)},
        {"timestamp": ""},
        {"timestamp": "now"},
        {"timestamp": f" {STANDARD_AT}"},
        {"timestamp": "١٦١٤٢٦٥٣٣٠"},
        {"signatures": ""},
        {"signatures": STANDARD_SIGNATURE[:-4]},
        {"signatures": STANDARD_SIGNATURE.removeprefix("v1,")},
        {"signatures": "v1,"},
        {"signatures": "v1,ü=="},
        {"keys": read_secrets("standard", ["whsec_" + base64.b64encode(b"k" * 24).decode()])},
    ],
)
def test_anything_else_is_refused(change: dict[str, Any]) -> None:
    genuine = {
        "raw": STANDARD_BODY,
        "message_id": STANDARD_ID,
        "timestamp": str(STANDARD_AT),
        "signatures": STANDARD_SIGNATURE,
        "keys": STANDARD_KEYS,
        "now": STANDARD_AT,
    }
    check_standard(**genuine)
    with pytest.raises(InvalidSignature):
        check_standard(**(genuine | change))


def test_an_id_with_a_full_stop_could_be_cut_in_two_ways() -> None:
    """``a.1.{body}`` signed as id "a", time 1 must not verify as id "a.1" of anything; so such ids are no ids."""
    message_id = f"a.{STANDARD_AT}"
    mac = standard_mac(STANDARD_BODY, message_id, STANDARD_AT)
    refused(check_standard, STANDARD_BODY, message_id, str(STANDARD_AT), mac, STANDARD_KEYS, STANDARD_AT)


# --- Stripe ---------------------------------------------------------------------------------------------------


def test_stripes_scheme_and_its_rotation() -> None:
    """While a secret is rolled Stripe signs with both; we may know the old one, the new one, or both."""
    old, new = "whsec_old_secret_16_bytes", "whsec_new_secret_16_bytes"
    header = stripe_header(secret=old) + "," + stripe_header(secret=new).partition(",")[2]
    for known in ([old], [new], [new, old]):
        check_stripe(STRIPE_BODY, header, read_secrets("stripe", known), NOW)
    check_stripe(STRIPE_BODY, stripe_header(secret=old), read_secrets("stripe", [new, old]), NOW)
    refused(check_stripe, STRIPE_BODY, stripe_header(secret=old), read_secrets("stripe", [new]), NOW)


@pytest.mark.parametrize("offset_s", [0, limits.WEBHOOK_TOLERANCE_S, -limits.WEBHOOK_TOLERANCE_S])
def test_within_five_minutes(offset_s: int) -> None:
    check_stripe(STRIPE_BODY, stripe_header(), STRIPE_KEYS, NOW + offset_s)


@pytest.mark.parametrize("offset_s", [limits.WEBHOOK_TOLERANCE_S + 1, -limits.WEBHOOK_TOLERANCE_S - 1, 86_400])
def test_a_replay_and_a_signature_of_tomorrow_are_refused(offset_s: int) -> None:
    refused(check_stripe, STRIPE_BODY, stripe_header(), STRIPE_KEYS, NOW + offset_s)


def test_every_single_byte_counts() -> None:
    header = stripe_header()
    for place in range(len(STRIPE_BODY)):
        tampered = bytearray(STRIPE_BODY)
        tampered[place] ^= 1
        refused(check_stripe, bytes(tampered), header, STRIPE_KEYS, NOW)


@each(
    "header",
    [
        "",
        "t=x,v1=zz",
        f"t={NOW}",
        stripe_header().partition(",")[2],
        f"t={NOW}," + stripe_header(),
        stripe_header().replace("v1=", "v0="),
        stripe_header().replace("v1=", "v1= "),
        stripe_header().upper(),
        stripe_header()[:-1],
        stripe_header() + "0",
        f"t=+{NOW}," + stripe_header().partition(",")[2],
        f"t={NOW}.0," + stripe_header().partition(",")[2],
        f"t={'9' * 400}," + stripe_header().partition(",")[2],
        "v1=a," * limits.WEBHOOK_SIGNATURES_MAX + stripe_header(),
        "x" * limits.WEBHOOK_HEADER_BYTES_MAX + "," + stripe_header(),
        "t=\x00,v1=\r\nSet-Cookie: a=b",
        "t=é,v1=é",
    ],
)
def test_headers_that_no_sender_of_ours_writes(header: str) -> None:
    refused(check_stripe, STRIPE_BODY, header, STRIPE_KEYS, NOW)


@given(st.text(alphabet=st.characters(codec="latin-1")), st.text(alphabet=st.characters(codec="latin-1")), st.binary())
def test_any_header_is_refused_without_another_error(one: str, other: str, body: bytes) -> None:
    refused(check_stripe, body, one, STRIPE_KEYS, NOW)
    refused(check_stripe, body, f"t={NOW},v1={one}", STRIPE_KEYS, NOW)
    refused(check_standard, body, one, other, f"v1,{one}", STANDARD_KEYS, NOW)
    refused(check_standard, body, "msg_1", str(NOW), f"{one} v1,{other}", STANDARD_KEYS, NOW)


@given(
    st.binary(),
    st.lists(st.sampled_from(["v0=aa", "v1=zz", "scheme=1", "", "=", "v1", "t1=3"]), max_size=6),
    st.integers(-300, 300),
)
def test_a_genuine_signature_is_found_among_others(body: bytes, others: list[str], skew_s: int) -> None:
    genuine = stripe_header(body).split(",")
    check_stripe(body, ",".join([*others, *genuine, *others]), STRIPE_KEYS, NOW + skew_s)


# --- Adyen ----------------------------------------------------------------------------------------------------


def test_the_published_vector_of_adyen() -> None:
    item = adyen_item()
    assert (
        signatures.adyen_signed_text(item)
        == "7914073381342284::TestMerchant:TestPayment-1407325143704:1130:EUR:AUTHORISATION:true"
    )
    assert is_adyen_item(item, ADYEN_KEYS)
    assert is_adyen_item(item, read_secrets("adyen", ["00" * 32, ADYEN_KEY]))
    assert not is_adyen_item(item, read_secrets("adyen", ["00" * 32]))


@each(
    "change",
    [
        {"pspReference": "7914073381342285"},
        {"amount": {"value": 1131, "currency": "EUR"}},
        {"amount": {"value": 1130, "currency": "USD"}},
        {"amount": {"value": True, "currency": "EUR"}},
        {"amount": {"value": 1130.0, "currency": "EUR"}},
        {"amount": None},
        {"success": "false"},
        {"success": True},
        {"eventCode": "REFUND"},
        {"merchantReference": ["TestPayment-1407325143704"]},
        {"additionalData": None},
        {"additionalData": {}},
        {"additionalData": {"hmacSignature": None}},
        {"additionalData": {"hmacSignature": ADYEN_SIGNATURE[:-4]}},
        {"additionalData": {"hmacSignature": "ü"}},
    ],
)
def test_an_item_that_was_changed_is_forged(change: dict[str, Any]) -> None:
    assert not is_adyen_item(adyen_item(**change), ADYEN_KEYS)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda s: st.lists(s) | st.dictionaries(st.text(), s),
    )
)
def test_any_item_is_forged_without_an_error(value: Any) -> None:
    for name in adyen_item():
        assert not is_adyen_item(adyen_item(**{name: value}), read_secrets("adyen", ["00" * 32]))


def test_an_item_with_a_colon_in_a_field_could_be_cut_in_two_ways() -> None:
    """Signed as account "a", reference "b:c", it must not pass as account "a:b", reference "c": neither passes."""
    text = "7914073381342284::a:b:c:1130:EUR:AUTHORISATION:true"
    mac = base64.b64encode(hmac.digest(bytes.fromhex(ADYEN_KEY), text.encode(), "sha256")).decode()
    signed = {"additionalData": {"hmacSignature": mac}}
    for account, reference in (("a", "b:c"), ("a:b", "c")):
        item = adyen_item(merchantAccountCode=account, merchantReference=reference, **signed)
        assert not is_adyen_item(item, ADYEN_KEYS)


# --- secrets --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("processor", "secrets"),
    [
        ("adyen", ["not hexadecimal"]),
        ("adyen", ["AB"]),
        ("standard", ["whsec_not base64!"]),
        ("standard", ["whsec_"]),
        ("simulator", ["whsec_AAAA"]),
        ("stripe", ["short"]),
        ("stripe", []),
    ],
)
def test_a_secret_of_a_wrong_form_is_refused_and_not_repeated(processor: str, secrets: list[str]) -> None:
    with pytest.raises(ValueError) as error:  # noqa: PT011 - its text is asserted on below
        read_secrets(processor, secrets)
    assert not any(secret in str(error.value) for secret in secrets if len(secret) > 6)
