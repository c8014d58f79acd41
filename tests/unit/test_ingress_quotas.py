"""Whom a request of our own API counts for."""

from __future__ import annotations

import asyncio
import json
import time
from typing import TYPE_CHECKING, Any

import pytest
from joserfc import jwk, jwt

from ingress.app import ROUTERS
from ingress.auth import Authenticator
from ingress.issuer import AUDIENCE, ISSUER, KeyFolder, issue_token
from ingress.jwks import KeySource
from ingress.quotas import EXEMPT, Askers, is_for_our_api
from limiter import keys as limit_keys
from limiter.asgi import Asker
from tests.counter_server import policies, policy

if TYPE_CHECKING:
    from pathlib import Path

ROUTES = [route for router in ROUTERS for route in router.routes]
CREATED = "/v1/payment_intents"


@pytest.fixture
def keys(tmp_path: Path) -> KeyFolder:
    folder = KeyFolder(tmp_path / "keys")
    folder.ensure()
    return folder


def asker(keys: KeyFolder, path: str, token: str | None, method: str = "GET") -> Asker | None:
    authenticator = Authenticator(KeySource(str(keys.jwks)), ISSUER, AUDIENCE)
    headers = [] if token is None else [(b"authorization", f"Bearer {token}".encode())]
    scope: dict[str, Any] = {"type": "http", "method": method, "path": path, "root_path": "", "headers": headers}
    return asyncio.run(Askers(authenticator, ROUTES)(scope))


@pytest.mark.parametrize(
    ("method", "path", "route"),
    [
        ("GET", "/v1/payment_intents/pi_1", "/v1/payment_intents/{intent_id}"),
        ("POST", "/v1/payment_intents", "/v1/payment_intents"),
        ("DELETE", "/v1/payment_intents", "/v1/payment_intents"),  # answered with 405, and counted
        ("GET", "/v1/usage/t:u:/r/s", "/v1/usage/{key}"),
        ("GET", "/v1/nothing", "-"),
    ],
)
def test_the_merchant_counts_by_the_template_of_the_route(keys: KeyFolder, method: str, path: str, route: str) -> None:
    token = issue_token(keys, "m_1")
    assert asker(keys, path, token, method) == Asker("m_1", "merchant:m_1", route)


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/.well-known/jwks.json", "/v1/policies", "/v1/policies/pl_1"])
def test_probes_and_policies_are_exempt(keys: KeyFolder, path: str) -> None:
    assert asker(keys, path, issue_token(keys, "m_1")) is None


def test_every_exemption_is_a_route() -> None:
    assert {getattr(route, "path_format", None) for route in ROUTES} >= EXEMPT


@pytest.mark.parametrize("token", [None, "x.y.z", ""])
def test_who_proves_nothing_counts_for_nobody(keys: KeyFolder, token: str | None) -> None:
    assert asker(keys, CREATED, token) is None


@pytest.mark.parametrize("subject", ["", "a\x01b", "s" * 2_000, "%ff"])
def test_any_subject_has_a_bucket_of_its_own(keys: KeyFolder, subject: str) -> None:
    def of(written: str) -> Asker | None:
        return asker(keys, CREATED, signed(keys, written))

    found, other = of(subject), of(subject + "+")
    assert found is not None
    assert found != other
    assert limit_keys.key_parts(*found)["user"] == found.user


def signed(keys: KeyFolder, subject: str) -> str:
    """A token whose subject may be anything."""
    key = jwk.OKPKey.import_key(json.loads(keys.issuer.read_text()))
    now = int(time.time())
    claims = {"iss": ISSUER, "aud": AUDIENCE, "merchant": "m_1", "scope": "", "iat": now, "exp": now + 60}
    return jwt.encode({"alg": "Ed25519", "kid": key.kid}, claims | {"sub": subject}, key, algorithms=["Ed25519"])


@pytest.mark.parametrize(
    ("scope", "obeyed"),
    [({}, False), ({"user": "u"}, False), ({"tenant": "m_1"}, True), ({"route": CREATED}, True)],
)
def test_policies_for_everybody_everywhere_are_those_of_gateways(scope: dict[str, str], obeyed: bool) -> None:
    assert len(policies(policy(scope=scope)).only(is_for_our_api).all_levels()) == obeyed
