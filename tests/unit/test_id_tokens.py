"""Whom an ID token proves: what it was asked for, by this client, with the scopes that the set claim says."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from ingress.identity.auth import Authenticator
from ingress.identity.authorization_code import challenge
from ingress.identity.issuer import KeyFolder, issue_token
from ingress.identity.jwks import KeySource
from schemas import errors

if TYPE_CHECKING:
    from pathlib import Path

    from ingress.identity.caller import Caller

ISSUER, CLIENT, NONCE = "https://issuer.example", "the-client", "n-0S6_WzA2Mj"


@pytest.fixture
def keys(tmp_path: Path) -> KeyFolder:
    folder = KeyFolder(tmp_path)
    folder.ensure()
    return folder


def signed_in(keys: KeyFolder, claim: str = "roles", **said: Any) -> Caller:
    """The caller of an ID token with these claims."""
    given = {"audience": CLIENT} | {name: said.pop(name) for name in ("audience", "issuer", "ttl_s") if name in said}
    claims: dict[str, Any] = {"nonce": NONCE, "roles": "operator:support"} | said
    further = {name: value for name, value in claims.items() if value is not None}
    token = issue_token(keys, "ann", (), kind="staff", further=further, **{"issuer": ISSUER} | given)
    proofs = Authenticator(KeySource(str(keys.jwks)), ISSUER, (CLIENT,))
    return asyncio.run(proofs.signed_in(token, NONCE, claim))


@pytest.mark.parametrize("roles", ["operator:support console:read", ["operator:support", "console:read"]])
def test_the_set_claim_has_the_scopes_as_a_text_or_a_list(keys: KeyFolder, roles: Any) -> None:
    found = signed_in(keys, roles=roles)
    assert (found.subject, found.scopes) == ("ann", {"operator:support", "console:read"})


def test_no_other_claim_gives_a_scope(keys: KeyFolder) -> None:
    """Such as ``scope``, which an issuer fills with what the client asked for."""
    with pytest.raises(errors.Unauthenticated):  # whose token has no scope of staff names a merchant, or nobody
        signed_in(keys, roles=None, scope="operator")
    assert signed_in(keys, scope="operator").scopes == {"operator:support"}


@pytest.mark.parametrize(
    "said",
    [
        {"nonce": None},
        {"nonce": ""},
        {"nonce": "of another sign-in"},
        {"nonce": 7},
        {"azp": "another-client"},
        {"azp": ["the-client"]},
        {"aud": ["the-client", "another-client"]},
        {"audience": "another-client"},
        {"issuer": "https://other.example"},
        {"roles": ["operator", 7]},
        {"roles": {"operator": True}},
        {"merchant": "m_1"},
    ],
    ids=repr,
)
def test_what_was_not_said_to_us_now_proves_nobody(keys: KeyFolder, said: dict[str, Any]) -> None:
    with pytest.raises(errors.Unauthenticated):
        signed_in(keys, **said)


def test_it_is_no_bearer_token_of_the_api(keys: KeyFolder) -> None:
    """Whose audience is another."""
    token = issue_token(keys, "m_1", (), issuer=ISSUER, audience=CLIENT, further={"nonce": NONCE})
    api = Authenticator(KeySource(str(keys.jwks)), ISSUER, ("millrace",))
    with pytest.raises(errors.Unauthenticated, match="not for this service"):
        asyncio.run(api.caller(f"Bearer {token}"))


def test_the_challenge_is_that_of_the_rfc() -> None:
    """Source: RFC 7636, appendix B."""
    verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
    assert challenge(verifier) == "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
