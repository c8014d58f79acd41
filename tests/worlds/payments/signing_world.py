"""Merchants that sign: keys, requests as they lie on the wire, and what is kept of them."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Any

import httpx
import psycopg
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ingress import limits
from ingress.client.signing import RequestSigner
from ingress.identity.issuer import SCOPES_DEFAULT
from ingress.payments.merchants.signing_key_routes import MANAGE
from reconciliation.audit.signatures import signatures
from tests.eventually import eventually
from tests.worlds.public_system import Merchant

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.worlds.public_system import PublicSystem

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
