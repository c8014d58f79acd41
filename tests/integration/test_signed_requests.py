"""Signed requests over HTTP: what is refused before anything is written, what a replay hears, and what proves who asked."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import time
import uuid
from typing import TYPE_CHECKING, Any

import httpx
import psycopg
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from ingress.app import API_ROUTERS
from ingress.client import MillraceClient, SignatureRefused
from ingress.client.signing import RequestSigner
from ingress.issuer import SCOPES_DEFAULT
from ingress.signing_key_routes import MANAGE
from reconciliation.audit.signatures import signatures
from schemas import limits
from tests.eventually import eventually
from tests.integration.operator_shell import Operator
from tests.public_system import Merchant, public, stranger

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.public_system import PublicSystem

__all__ = ["public", "stranger"]  # the fixtures of this module
pytestmark = [pytest.mark.servers, pytest.mark.timeout(240)]  # the first test starts the system
SCOPES = (*SCOPES_DEFAULT, MANAGE, "limits:write")
INTENTS, KEYS, REQUIREMENT = "/v1/payment_intents", "/v1/signing_keys", "/v1/signature_requirement"
PAST_S = limits.SIGNATURE_AGE_MAX_S + 60


class Signing:
    """A merchant with a key: registered, and used for all that ``http`` sends."""

    def __init__(self, system: PublicSystem) -> None:
        self.merchant = system.merchant(scopes=SCOPES)
        self.name, self.http = self.merchant.name, self.merchant.http
        self.private = Ed25519PrivateKey.generate()
        answer = self.http.post(KEYS, json={"public_key": pem(self.private), "description": "tills"})
        assert answer.status_code == 201, answer.text
        self.key_id = answer.json()["result"]["id"]
        self.http.auth = self.signer()

    def signer(
        self, age_s: float = 0, key: Ed25519PrivateKey | None = None, key_id: str | None = None
    ) -> RequestSigner:
        return RequestSigner(key_id or self.key_id, private_pem(key or self.private), lambda: time.time() - age_s)

    def require(self, requirement: str) -> None:
        assert self.http.post(REQUIREMENT, json={"requirement": requirement}).status_code == 200

    def create(self, auth: Any = None, **changes: Any) -> httpx.Response:
        body = Merchant.envelope(**changes)
        return self.http.post(INTENTS, json=body, **({} if auth is None else {"auth": auth}))


def pem(key: Ed25519PrivateKey) -> str:
    encoding, form = serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    return key.public_key().public_bytes(encoding, form).decode()


def private_pem(key: Ed25519PrivateKey) -> bytes:
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    return key.private_bytes(encoding, form, serialization.NoEncryption())


@pytest.fixture
def signing(public: PublicSystem) -> Iterator[Signing]:
    made = Signing(public)
    yield made
    made.http.close()


@pytest.fixture
def join(public: PublicSystem) -> Iterator[Callable[..., Merchant]]:
    """Makes further callers."""
    with contextlib.ExitStack() as all_of_them:

        def joined(name: str | None = None, scopes: tuple[str, ...] = SCOPES_DEFAULT) -> Merchant:
            caller = public.merchant(name, scopes)
            all_of_them.enter_context(caller.http)
            return caller

        yield joined


@pytest.fixture(scope="module")
def strict(public: PublicSystem) -> Iterator[Signing]:
    """A merchant that requires signatures, known as such to every ingress process."""
    made = Signing(public)
    made.require("required")

    def refused_by_all() -> bool:
        unsigned = {"headers": {"Connection": "close"}, "json": Merchant.envelope()}
        return all(made.http.post(INTENTS, auth=NO_AUTH, **unsigned).status_code == 401 for _ in range(6))

    eventually(refused_by_all, 60)
    yield made
    made.http.close()


class _NoAuth(httpx.Auth):
    """Sends the request as it is."""


NO_AUTH = _NoAuth()


def code(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json().get("code", "")


def captured(caller: Signing, method: str, path: str, **given: Any) -> httpx.Request:
    """A signed request as it would lie on the wire; ``replayed`` sends these very bytes."""
    request = caller.http.build_request(method, path, **given)
    next(caller.signer().auth_flow(request))
    return request


def replayed(caller: Signing, request: httpx.Request, **changed: str) -> httpx.Response:
    again = httpx.Request(request.method, request.url, headers=request.headers, content=request.content)
    again.headers.update(changed)
    return caller.http.send(again, auth=NO_AUTH)


def signed_commands(system: PublicSystem, aggregate: str) -> list[dict[str, Any]]:
    """What an operator is shown."""
    with psycopg.connect(system.settings.addresses().postgres_dsns["millrace_operator"]) as connection:
        return signatures(connection, aggregate)


def evidence(system: PublicSystem, merchant: str) -> int:
    ((count,),) = system.rows("select count(*) from signed_request where merchant_id = %s", merchant)
    return int(count)


def decided(system: PublicSystem, merchant: str) -> int:
    ((count,),) = system.rows("select count(*) from idempotency where merchant_id = %s", merchant)
    return int(count)


def test_who_signed_is_proved_with_nothing_of_ours(public: PublicSystem, signing: Signing) -> None:
    answer = signing.create()
    assert answer.status_code == 201, answer.text
    intent = answer.json()["result"]["id"]
    shown = Operator(public.settings.the_home().path).run("audit", "signatures", intent, "--json")
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
    exempt = (*operators, "/v1/webhooks/", "/v1/dead_letters")
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
    assert code(answer) == (401, "signature_invalid")
    assert evidence(public, strict.name) == before


def test_keys_beget_keys_and_are_revoked_everywhere_soon(public: PublicSystem, signing: Signing) -> None:
    second = Ed25519PrivateKey.generate()
    body = {"public_key": pem(second)}
    assert code(signing.http.post(KEYS, json=body, auth=NO_AUTH)) == (401, "signature_required")  # a stolen token
    second_id = signing.http.post(KEYS, json=body).json()["result"]["id"]
    again = signing.http.post(KEYS, json=body)
    assert (again.json()["result"]["id"], again.headers["Idempotency-Replayed"]) == (second_id, "true")
    signing.require("required")
    assert signing.create(signing.signer(key=second, key_id=second_id)).status_code == 201
    assert signing.http.post(f"{KEYS}/{second_id}/revoke").json()["result"]["state"] == "revoked"
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
    assert operator.http.post(f"{account}/signature_requirement", json=body).status_code == 200
    revoked = operator.http.post(f"{account}/signing_keys/{signing.key_id}/revoke", json=reason)
    assert revoked.json()["result"]["revoked_by"] == f"merchant:{operator.name}"
    fresh = {"public_key": pem(Ed25519PrivateKey.generate())}
    eventually(lambda: signing.http.post(KEYS, json=fresh, auth=NO_AUTH).status_code == 201, 60)
    assert operator.http.get(f"{account}/signing_keys").json()["data"][1]["state"] == "revoked"


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
