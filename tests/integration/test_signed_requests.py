"""Signed requests over HTTP: what is refused before anything is written, what a replay hears, and what proves who asked."""

from __future__ import annotations

import base64
import hashlib
import json
import uuid
from typing import TYPE_CHECKING

import httpx
import psycopg
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from ingress.app import API_ROUTERS
from ingress.client import MillraceClient, SignatureRefused
from tests.integration.operator_shell import Operator
from tests.worlds.payments.signing_world import (
    INTENTS,
    NO_AUTH,
    PAST_S,
    captured,
    code,
    decided,
    evidence,
    join,
    replayed,
    signed_commands,
    signing,
    strict,
)
from tests.worlds.public_system import Merchant, public

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.worlds.payments.signing_world import Signing
    from tests.worlds.public_system import PublicSystem

__all__ = ["join", "public", "signing", "strict"]  # the fixtures of this module
pytestmark = pytest.mark.servers


def test_who_signed_is_proved_with_nothing_of_ours(public: PublicSystem, signing: Signing) -> None:
    answer = signing.create()
    assert answer.status_code == 201, answer.text
    intent = answer.json()["result"]["id"]
    shown = Operator.of(public.settings).run("audit", "signatures", intent, "--json")
    (row,) = json.loads(shown.stdout)["data"]
    assert (row["key_id"], row["verified"], row["operation"]) == (signing.key_id, True, "create_payment_intent")
    # as a third party: the registered key, the base as text, the body's digest
    key = serialization.load_pem_public_key(row["public_key"].encode())
    assert isinstance(key, Ed25519PublicKey)
    base, body = base64.b64decode(row["base"]), base64.b64decode(row["body"])
    key.verify(base64.b64decode(row["signature"]), base)
    assert base64.b64encode(hashlib.sha256(body).digest()).decode() in base.decode()
    assert b'"@method": POST\n' in base
    assert json.loads(body)["payload"]["amount"] == answer.json()["result"]["amount"]
    assert row["event_id"] == answer.json()["event"]["event_id"]


def test_an_unsigned_caller_stands_in_no_evidence(public: PublicSystem, join: Callable[..., Merchant]) -> None:
    caller = join()
    intent = caller.create().json()["result"]["id"]
    assert signed_commands(public, intent) == []
    assert evidence(public, caller.name) == 0


def test_a_replayed_request_is_a_replayed_command(public: PublicSystem, signing: Signing) -> None:
    """Rule: no list of nonces is needed, because what is signed names the identity of the command."""
    request = captured(signing, "POST", INTENTS, json=Merchant.envelope())
    first, again = replayed(signing, request), replayed(signing, request)
    assert (first.status_code, again.status_code) == (201, 201)
    assert again.content == first.content
    assert (first.headers.get("Idempotency-Replayed"), again.headers["Idempotency-Replayed"]) == (None, "true")
    assert decided(public, signing.name) == 1
    ((commands,),) = public.rows("select count(*) from signed_command where merchant_id = %s", signing.name)
    assert commands == 1


def test_the_identity_in_the_header_is_bound_too(public: PublicSystem, signing: Signing) -> None:
    payload = Merchant.envelope()["payload"]
    request = captured(signing, "POST", INTENTS, json=payload, headers={"Idempotency-Key": uuid.uuid4().hex})
    assert code(replayed(signing, request, **{"Idempotency-Key": "another"})) == (401, "signature_invalid")
    without = captured(signing, "POST", INTENTS, json=Merchant.envelope())
    assert code(replayed(signing, without, **{"Idempotency-Key": "added"})) == (401, "signature_invalid")
    assert code(replayed(signing, without, **{"If-Match": '"3"'})) == (401, "signature_invalid")
    assert decided(public, signing.name) == 0
    assert replayed(signing, request).status_code == 201


def test_a_call_without_identity_is_carried_out_once_for_each_signature(signing: Signing) -> None:
    endpoint = signing.http.post("/v1/webhook_endpoints", json={"url": "https://shop.example/x"})
    path = f"/v1/webhook_endpoints/{endpoint.json()['result']['id']}/rotate_secret"
    request = captured(signing, "POST", path)
    first, again = replayed(signing, request), replayed(signing, request)
    assert "secret" in first.json()["result"]
    assert code(again) == (401, "signature_expired")
    assert "secret" in signing.http.post(path).json()["result"]  # signed again


def mutations() -> list[tuple[str, str]]:
    """Every route that changes something for a merchant: what stands below is an operator's, or proves itself otherwise."""
    found = [(m, r.path) for router in API_ROUTERS for r in router.routes for m in getattr(r, "methods", ())]  # type: ignore[attr-defined]
    operators = ("/v1/accounts/", "/v1/cases/", "/v1/repairs/", "/v1/risk/", "/v1/routing/", "/v1/fees/", "/v1/parked")
    operators += (
        "/v1/maintenance/",
        "/v1/processor_attempts/",
        "/v1/bank_rules/",
        "/v1/processor_fees/",
        "/v1/money_proposals/",
        "/v1/access_denials/",
        "/v1/reference_rates/",
        "/v1/isolation/",
        "/v1/placements/",
    )
    others = (
        "/v1/tenants",
        "/v1/resources",
        "/v1/usage/",
        "/v1/invoices/",
        "/v1/posts",
        "/v1/me",
        "/v1/media/",
        "/v1/moderation/",
    )
    others += ("/v1/follows", "/v1/blocks", "/v1/mutes", "/subjects")  # no merchant calls these, or they change nothing
    exempt = (*operators, *others, "/v1/webhooks/", "/v1/dead_letters")
    persons = ("/review", "/outcome")
    return sorted(
        (m, p) for m, p in found if m not in ("GET", "HEAD") and not p.startswith(exempt) and not p.endswith(persons)
    )


@pytest.mark.parametrize(("method", "path"), mutations(), ids=lambda part: part)
def test_whoever_requires_signatures_is_asked_for_one_everywhere(strict: Signing, method: str, path: str) -> None:
    """A route that is added and forgets to ask fails here."""
    place = "/".join("pi_1" if part.startswith("{") else part for part in path.split("/"))
    answer = strict.http.request(method, place, auth=NO_AUTH)
    assert code(answer) == (401, "signature_required"), path
    assert "ed25519" in answer.headers["Accept-Signature"]


def test_nothing_is_written_for_what_is_refused(public: PublicSystem, strict: Signing, signing: Signing) -> None:
    before = decided(public, strict.name), evidence(public, strict.name)
    body = Merchant.envelope()
    key = Ed25519PrivateKey.generate()
    good = captured(strict, "POST", INTENTS, json=body)
    given = {name: good.headers[name] for name in ("Signature-Input", "Signature", "Content-Digest")}

    def sent(**changed: str) -> tuple[int, str]:
        return code(replayed(strict, good, **changed))

    assert code(strict.create(NO_AUTH)) == (401, "signature_required")
    assert code(strict.create(strict.signer(age_s=PAST_S))) == (401, "signature_expired")
    assert code(strict.create(strict.signer(age_s=-PAST_S))) == (401, "signature_expired")
    assert code(strict.create(strict.signer(key=key))) == (401, "signature_invalid")
    unknown = strict.create(strict.signer(key=key, key_id="msk_nobody"))
    foreign = strict.create(signing.signer())
    assert code(unknown) == code(foreign) == (401, "signature_invalid")
    assert unknown.content == foreign.content  # another merchant's key is as none
    assert sent(**{"Content-Digest": f"sha-256=:{base64.b64encode(bytes(32)).decode()}:"}) == (401, "signature_invalid")
    assert sent(**{"Signature-Input": "millrace=("}) == (401, "signature_invalid")
    assert sent(Signature="millrace=:AAAA:") == (401, "signature_invalid")
    assert sent(Signature="x" * 10_000) == (401, "signature_invalid")
    twice = {name: f"{given[name]}, {given[name]}" for name in ("Signature-Input", "Signature")}
    assert sent(**twice) == (401, "signature_invalid")
    tampered = httpx.Request("POST", good.url, headers=good.headers, content=good.content.replace(b"1099", b"1098"))
    assert code(strict.http.send(tampered, auth=NO_AUTH)) == (401, "signature_invalid")
    elsewhere = httpx.Request("POST", f"{good.url}?dry_run=true", headers=good.headers, content=good.content)
    assert code(strict.http.send(elsewhere, auth=NO_AUTH)) == (401, "signature_invalid")
    assert (decided(public, strict.name), evidence(public, strict.name)) == before
    assert replayed(strict, good).status_code == 201


def test_a_list_is_signed_as_a_whole_and_taken_as_a_whole(public: PublicSystem, strict: Signing) -> None:
    lines = [{"operation": "POST /v1/payment_intents"} | Merchant.envelope() for _ in range(3)]
    text = "\n".join(json.dumps(line) for line in lines)
    headers = {"Content-Type": "application/x-ndjson"}
    answer = strict.http.post("/v1/commands", content=text, headers=headers)
    made = [json.loads(line) for line in answer.text.splitlines()]
    assert [line["status"] for line in made] == [201] * 3
    (row,) = signed_commands(public, made[1]["result"]["id"])
    assert (row["verified"], base64.b64decode(row["body"]).decode()) == (True, text)
    # A refused line may hold a card number, and the body of what is signed is kept: so nothing of it is.
    before = evidence(public, strict.name), decided(public, strict.name)
    lines[2]["payload"] = lines[2]["payload"] | {"metadata": {"card": "4242424242424242"}}  # type: ignore[operator]
    bad = "\n".join(json.dumps(line | {"idempotency_key": uuid.uuid4().hex}) for line in lines)
    assert code(strict.http.post("/v1/commands", content=bad, headers=headers)) == (400, "malformed_request")
    assert (evidence(public, strict.name), decided(public, strict.name)) == before


def test_what_is_kept_holds_no_secret(public: PublicSystem, strict: Signing) -> None:
    before = evidence(public, strict.name)
    body = {"url": "https://shop.example/y", "description": "4242 4242 4242 4242"}
    assert code(strict.http.post("/v1/webhook_endpoints", json=body)) == (400, "malformed_request")
    answer = strict.http.post(f"{INTENTS}?note=4242424242424242", json=Merchant.envelope())
    assert code(answer) == (400, "malformed_request")
    assert evidence(public, strict.name) == before


def test_the_client_signs_each_try(public: PublicSystem, strict: Signing) -> None:
    token = public.token(strict.name)
    with MillraceClient(public.base_url, token, signer=strict.signer()) as client:
        intent = client.create(amount=1_099, currency="USD", payment_method="tok_sim_approve").result
        client.confirm(intent["id"])
        assert client.wait(intent["id"], "succeeded")["amount_received"] == 1_099
    with MillraceClient(public.base_url, token) as unsigned, pytest.raises(SignatureRefused) as refused:
        unsigned.cancel(intent["id"])
    assert refused.value.code == "signature_required"


def test_evidence_cannot_be_changed(public: PublicSystem, strict: Signing) -> None:
    """Who runs the database's own role meets the triggers; who runs a service's has no right at all."""
    for statement in (
        "update signed_request set body = ''",
        "delete from signed_command",
        "truncate merchant_signing_key cascade",
        f"update merchant_signing_key set public_key = '\\x{'11' * 32}' where id = '{strict.key_id}'",
    ):
        with (
            psycopg.connect(public.settings.addresses().postgres_superuser_dsn) as owner,
            pytest.raises(psycopg.Error) as refused,
        ):
            owner.execute(statement.encode())
        assert refused.value.sqlstate == "LE001", statement
