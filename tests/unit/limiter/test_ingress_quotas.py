"""Whom a request of our own API counts for."""

from __future__ import annotations

import asyncio
import json
import time
from typing import TYPE_CHECKING, Any

import pytest
from joserfc import jwk, jwt

from ingress.app import CONSOLE_ROUTERS, ROUTERS
from ingress.http.routing.known_paths import KnownPaths
from ingress.identity.auth import Authenticator
from ingress.identity.issuer import AUDIENCE, ISSUER, KeyFolder, issue_token
from ingress.identity.jwks import KeySource
from ingress.limiter.api_limits import EXEMPT, PROVEN_OTHERWISE, STRANGERS, Askers, is_for_our_api
from ingress.payments.webhooks import routes as webhooks
from ingress.social.pages.session import COOKIE, Pages
from limiter.edge.asgi import Asker
from limiter.policy import keys as limit_keys
from tests.worlds.limiter.counter_server import policies, policy

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
    authenticator = Authenticator(KeySource(str(keys.jwks)), ISSUER, (AUDIENCE,))
    headers = [] if token is None else [(b"authorization", f"Bearer {token}".encode())]
    scope: dict[str, Any] = {"type": "http", "method": method, "path": path, "root_path": "", "headers": headers}
    scope["client"] = ("192.0.2.1", 1)
    return asyncio.run(Askers(authenticator, KnownPaths(ROUTES))(scope))


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
    assert asker(keys, path, token, method) == Asker("m_1", "merchant:m_1", route, "192.0.2.1")


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/.well-known/jwks.json", "/v1/policies", "/v1/policies/pl_1"])
def test_probes_and_policies_are_exempt(keys: KeyFolder, path: str) -> None:
    assert asker(keys, path, issue_token(keys, "m_1")) is None


def test_the_way_out_of_a_wrong_policy_is_exempt(keys: KeyFolder) -> None:
    token = issue_token(keys, "m_1")
    assert asker(keys, "/v1/policies/pl_1/withdraw", token, "POST") is None
    assert asker(keys, "/v1/policies/pl_1/withdrawn", token, "POST") is not None


def test_every_exemption_is_a_route() -> None:
    assert {getattr(route, "path_format", None) for route in ROUTES} >= EXEMPT


@pytest.mark.parametrize("token", [None, "x.y.z", ""])
@pytest.mark.parametrize(("path", "route"), [(CREATED, CREATED), ("/v1/nothing", "-")])
def test_who_proves_nothing_counts_for_the_network_alone(
    keys: KeyFolder, token: str | None, path: str, route: str
) -> None:
    assert asker(keys, path, token) == Asker("-", "-", route, "192.0.2.1")


@pytest.mark.parametrize("path", ["/v1/webhooks/stripe", "/console", "/console/cases/case_1", "/healthz"])
def test_what_is_proven_otherwise_counts_for_nobody(keys: KeyFolder, path: str) -> None:
    assert asker(keys, path, None, "POST") is None


def test_a_session_of_a_page_counts_for_its_user_there_and_nowhere_else(keys: KeyFolder) -> None:
    authenticator = Authenticator(KeySource(str(keys.jwks)), ISSUER, (AUDIENCE,))
    user = asyncio.run(authenticator.caller(f"Bearer {issue_token(keys, 'u_1', ('posts:read',), kind='user')}"))
    pages = Pages(None, b"s" * 32, None)  # type: ignore[arg-type]
    cookie = pages.sessions.cookie(pages.sessions.opened(user))

    def of(path: str, value: str) -> Asker | None:
        headers = [(b"cookie", f"{COOKIE}={value}".encode())]
        scope: dict[str, Any] = {"type": "http", "method": "GET", "path": path, "root_path": "", "headers": headers}
        scope["client"] = ("192.0.2.1", 1)
        return asyncio.run(Askers(authenticator, KnownPaths(ROUTES), sessions=[lambda _: None, pages.caller_of])(scope))

    assert of("/app/public", cookie) == Asker("user:u_1", "user:u_1", "/app/public", "192.0.2.1")
    assert of("/app/public", f"{cookie}x") == Asker(*STRANGERS, "/app/public", "192.0.2.1")
    assert of(CREATED, cookie) == Asker(*STRANGERS, CREATED, "192.0.2.1")


def test_nothing_else_is_taken_for_proven_otherwise() -> None:
    ours = [route for router in (*CONSOLE_ROUTERS, webhooks.router) for route in router.routes]
    templates = {str(getattr(route, "path_format", "")) for route in ROUTES}
    proven = {template for template in templates if template.startswith(PROVEN_OTHERWISE)}
    assert proven == {str(getattr(route, "path_format", "")) for route in ours}


@pytest.mark.parametrize(
    ("changes", "governed"),
    [
        ({"per": ["network"]}, True),
        ({"scope": {"network": "192.0.2.0/24"}}, True),
        ({"scope": {"tenant": "-"}}, False),
        ({"per": ["tenant"]}, False),
    ],
)
def test_only_policies_by_network_govern_strangers(changes: dict[str, Any], governed: bool) -> None:
    route = {"scope": {"route": CREATED} | changes.pop("scope", {})}
    found = policies(policy(**route, **changes)).only(is_for_our_api, STRANGERS)
    stranger = limit_keys.key_parts(*STRANGERS, CREATED, "192.0.2.1")
    assert bool(found.levels(stranger)) == governed
    assert bool(found.levels(stranger | {"user": "u"})), "a user who is known is governed by all"


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
