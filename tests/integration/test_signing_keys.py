"""Merchants' signing keys over HTTP: keys beget keys, revocation, requirement, and the operators' way back in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tests.eventually import eventually
from tests.worlds.payments.signing_world import (
    INTENTS,
    KEYS,
    NO_AUTH,
    PAST_S,
    REQUIREMENT,
    SCOPES,
    code,
    join,
    pem,
    private_pem,
    signing,
)
from tests.worlds.public_system import Merchant, public, stranger

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.worlds.payments.signing_world import Signing
    from tests.worlds.public_system import PublicSystem

__all__ = ["join", "public", "signing", "stranger"]  # the fixtures of this module
pytestmark = pytest.mark.servers


def test_keys_beget_keys_and_are_revoked_everywhere_soon(public: PublicSystem, signing: Signing) -> None:
    second = Ed25519PrivateKey.generate()
    body = {"public_key": pem(second)}
    assert code(signing.http.post(KEYS, json=body, auth=NO_AUTH)) == (401, "signature_required")  # a stolen token
    second_id = signing.http.post(KEYS, json=body).json()["result"]["id"]
    again = signing.http.post(KEYS, json=body)
    assert (again.json()["result"]["id"], again.headers["Idempotency-Replayed"]) == (second_id, "true")
    signing.require("required")
    assert signing.create(signing.signer(key=second, key_id=second_id)).status_code == 201
    revoked, said_again = (signing.http.post(f"{KEYS}/{second_id}/revoke") for _ in range(2))
    assert revoked.json()["result"]["state"] == "revoked"
    assert said_again.json() == revoked.json()
    assert ("Idempotency-Replayed" in revoked.headers, said_again.headers["Idempotency-Replayed"]) == (False, "true")
    assert code(signing.http.post(KEYS, json=body)) == (409, "state_conflict")  # for good
    assert code(signing.http.post(f"{KEYS}/{signing.key_id}/revoke")) == (409, "state_conflict")  # the last one

    def refused_by_all() -> bool:
        by_revoked = {"auth": signing.signer(key=second, key_id=second_id), "headers": {"Connection": "close"}}
        answers = [signing.http.post(INTENTS, json=Merchant.envelope(), **by_revoked) for _ in range(6)]
        return all(code(answer) == (401, "signature_invalid") for answer in answers)

    eventually(refused_by_all, 60)
    shown = {key["id"]: key["state"] for key in signing.http.get(KEYS).json()["data"]}
    assert shown == {second_id: "revoked", signing.key_id: "active"}
    done = (
        "select action, details ->> 'signed_by' from audit_log where object = any(%s) and outcome = 'done' order by seq"
    )
    refused = "select details ->> 'code' from audit_log where actor = %s and outcome = 'refused' order by seq limit 1"
    with psycopg.connect(public.settings.addresses().postgres_dsns["millrace_operator"]) as audit:
        assert audit.execute(done, [[signing.key_id, second_id, signing.name]]).fetchall() == [
            ("signing_key.register", None),
            ("signing_key.register", signing.key_id),
            ("signature_requirement.set", signing.key_id),
            ("signing_key.revoke", signing.key_id),
        ]
        assert audit.execute(refused, [f"merchant:{signing.name}"]).fetchall() == [("signature_required",)]


def test_an_operator_lets_a_merchant_back_in(
    join: Callable[..., Merchant], signing: Signing, stranger: Merchant
) -> None:
    signing.require("required")
    operator = join(scopes=("operator",))
    account = f"/v1/accounts/{signing.name}"
    reason = {"reason": "the laptop with the key is gone"}
    assert code(stranger.http.post(f"{account}/signature_requirement", json=reason)) == (403, "forbidden")
    body = {"requirement": "optional"} | reason
    for path, said in (
        (f"{account}/signature_requirement", body),
        (f"{account}/signing_keys/{signing.key_id}/revoke", reason),
    ):
        first, again = (operator.http.post(path, json=said) for _ in range(2))
        assert (first.status_code, again.status_code, again.json()) == (200, 200, first.json())
        assert ("Idempotency-Replayed" in first.headers, again.headers["Idempotency-Replayed"]) == (False, "true")
    assert first.json()["result"]["revoked_by"] == operator.name
    fresh = {"public_key": pem(Ed25519PrivateKey.generate())}
    eventually(lambda: signing.http.post(KEYS, json=fresh, auth=NO_AUTH).status_code == 201, 60)
    assert operator.http.get(f"{account}/signing_keys").json()["data"][1]["state"] == "revoked"


def test_keys_are_read_with_the_scope_that_reads_payments(join: Callable[..., Merchant]) -> None:
    """A token for another service of the same merchant does not show them."""
    caller = join(scopes=("limits:read", "limits:write"))
    for path in ("/v1/signing_keys", "/v1/signing_keys/sk_1", "/v1/signature_requirement"):
        assert caller.http.get(path).json()["code"] == "forbidden", path


def test_nobody_sees_or_revokes_anothers_key(signing: Signing, join: Callable[..., Merchant]) -> None:
    other = join(scopes=SCOPES)
    assert code(other.http.get(f"{KEYS}/{signing.key_id}")) == (404, "not_found")
    assert code(other.http.post(f"{KEYS}/{signing.key_id}/revoke")) == (404, "not_found")
    assert other.http.get(KEYS).json()["data"] == []
    daily = join(signing.name)
    assert code(daily.http.post(REQUIREMENT, json={"requirement": "off"})) == (403, "forbidden")


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"public_key": "no key"},
        {"public_key": "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"},
        {"public_key": private_pem(Ed25519PrivateKey.generate()).decode()},
        {"public_key": pem(Ed25519PrivateKey.generate()), "algorithm": "hmac-sha256"},
        {"public_key": pem(Ed25519PrivateKey.generate()), "description": "x" * 10_000},
    ],
    ids=["nothing", "no PEM", "no key", "a private key", "a field too many", "a long text"],
)
def test_what_is_no_key_is_not_registered(join: Callable[..., Merchant], body: dict[str, Any]) -> None:
    caller = join(scopes=SCOPES)
    assert code(caller.http.post(KEYS, json=body)) == (422, "invalid_command")
    assert caller.http.get(KEYS).json()["data"] == []


def test_off_looks_at_no_signature(signing: Signing) -> None:
    signing.require("off")
    assert signing.create(signing.signer(age_s=PAST_S)).status_code == 201
    assert code(signing.http.post(REQUIREMENT, json={"requirement": "required"}, auth=NO_AUTH)) == (
        401,
        "signature_required",
    )
    assert signing.http.get(REQUIREMENT).json()["requirement"] == "off"
