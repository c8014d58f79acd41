"""Only what the issuer signed, for us, for now, is believed."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from joserfc import jwk, jws
from joserfc.errors import SecurityWarning

from ingress import limits as ingress_limits
from ingress.identity import auth
from ingress.identity.auth import Authenticator
from ingress.identity.caller import Caller
from ingress.identity.issuer import AUDIENCE, ISSUER, SCOPES_DEFAULT, KeyFolder, issue_token
from ingress.identity.jwks import Key, KeySource, read_keys
from ingress.identity.signed_token import verify
from ingress.trust import MONITOR_ISSUER
from schemas import errors, limits
from tests.each import each

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# The vectors of Project Wycheproof, beside the checkout where it was handed out with its data.
VECTORS = Path(__file__).parents[3] / "shared" / "data" / "jose" / "json_web_signature_test.json"
OURS = ("RS256", "ES256", "Ed25519", "EdDSA")


@pytest.fixture
def keys(tmp_path: Path) -> KeyFolder:
    folder = KeyFolder(tmp_path / "keys")
    folder.ensure()
    return folder


def caller_of(keys: KeyFolder, header: str | None, **changes: Any) -> Caller:
    source = KeySource(str(changes.pop("jwks", keys.jwks)))
    authenticator = Authenticator(source, ISSUER, (AUDIENCE,), **changes)
    return asyncio.run(authenticator.caller(header))


def signed(
    keys: KeyFolder,
    change: Callable[[dict[str, Any]], object] | None = None,
    header: dict[str, Any] | None = None,
    key: Any = None,
    now: int | None = None,
) -> str:
    now = int(time.time()) if now is None else now
    claims: dict[str, Any] = {
        "iss": ISSUER,
        "aud": AUDIENCE,
        "sub": "s",
        "merchant": "m_1",
        "scope": "payments:read",
        "iat": now,
        "exp": now + 60,
    }
    if change is not None:
        change(claims)
    own = jwk.OKPKey.import_key(json.loads(keys.issuer.read_text()))
    fields = {"alg": "Ed25519", "kid": own.kid} | (header or {})
    return jws.serialize_compact(fields, json.dumps(claims), key or own, algorithms=[fields["alg"]])


def test_an_issued_token_says_who_calls(keys: KeyFolder) -> None:
    caller = caller_of(keys, "Bearer " + issue_token(keys, "m_1"))
    assert (caller.merchant, caller.scopes) == ("m_1", frozenset(SCOPES_DEFAULT))
    caller.require("payments:write")
    with pytest.raises(errors.Forbidden):
        caller.require("operator")


def test_a_token_of_a_tenant_or_a_user_names_no_merchant(keys: KeyFolder) -> None:
    """Whoever has the same name as another kind of caller is somebody else."""
    tenant = caller_of(keys, "Bearer " + issue_token(keys, "m_1", kind="tenant", subject="ann"))
    user = caller_of(keys, "Bearer " + issue_token(keys, "m_1", kind="user"))
    merchant = caller_of(keys, "Bearer " + issue_token(keys, "m_1"))
    assert (tenant.tenant, tenant.subject, user.user, merchant.merchant) == ("m_1", "ann", "m_1", "m_1")
    assert len({tenant.principal, user.principal, merchant.principal}) == 3
    for caller, kind in ((tenant, "merchant"), (user, "merchant"), (user, "tenant"), (merchant, "user")):
        with pytest.raises(errors.Forbidden):
            getattr(caller, kind)


def test_the_key_folder_is_made_once_and_private(keys: KeyFolder) -> None:
    before = keys.issuer.read_text(), keys.jwks.read_text(), keys.cursor_key()()
    keys.ensure()
    assert before == (keys.issuer.read_text(), keys.jwks.read_text(), keys.cursor_key()())
    assert keys.issuer.stat().st_mode & 0o077 == 0
    assert "d" not in json.loads(keys.jwks.read_text())["keys"][0]


@pytest.mark.parametrize("merchant", ["", "a:b", "m 1", "m" * 65, "m\n", "ü"])
def test_no_token_for_what_is_no_merchant(keys: KeyFolder, merchant: str) -> None:
    with pytest.raises(errors.InvalidCommand):
        issue_token(keys, merchant)


@pytest.mark.parametrize("ttl_s", [0, -1, limits.TOKEN_TTL_MAX_S + 1])
def test_no_token_without_a_bounded_life(keys: KeyFolder, ttl_s: int) -> None:
    with pytest.raises(errors.InvalidCommand):
        issue_token(keys, "m_1", ttl_s=ttl_s)


@each(
    "change",
    [
        lambda c: c.update(exp=c["iat"] - limits.CLOCK_SKEW_MAX_S - 1),
        lambda c: c.update(nbf=c["iat"] + limits.CLOCK_SKEW_MAX_S + 5),
        lambda c: c.update(iat=c["iat"] + limits.CLOCK_SKEW_MAX_S + 5),
        lambda c: c.update(exp=c["iat"] + limits.TOKEN_TTL_MAX_S + 60),
        lambda c: c.update(exp="tomorrow"),
        lambda c: c.update(exp=True),
        lambda c: c.update(exp=float("nan")),
        lambda c: c.update(exp=float("inf")),
        lambda c: c.update(exp=10**400),
        lambda c: c.update(exp=1e300, iat=1e300),
        lambda c: c.update(iat=-(10**400)),
        lambda c: c.update(iat=-1),
        lambda c: c.update(nbf=10**400),
        lambda c: c.update(nbf=-(10**400)),
        lambda c: c.update(nbf=False),
        lambda c: c.update(nbf=None),
        lambda c: c.pop("exp"),
        lambda c: c.pop("iat"),
        lambda c: c.update(iss="urn:other"),
        lambda c: c.pop("iss"),
        lambda c: c.update(aud="other"),
        lambda c: c.update(aud=["other", 5]),
        lambda c: c.pop("aud"),
        lambda c: c.pop("merchant"),
        lambda c: c.update(merchant="processor:simulator"),
        lambda c: c.update(merchant=["m_1"]),
        lambda c: c.update(tenant="tn_1"),
        lambda c: c.update(user="u_1"),
        lambda c: (c.pop("merchant"), c.update(user="u:1")),
        lambda c: (c.pop("merchant"), c.update(tenant="tn_1", user="u_1")),
        lambda c: c.update(scope=["payments:read"]),
        lambda c: c.pop("sub"),
    ],
)
def test_wrong_claims_are_refused(keys: KeyFolder, change: Callable[[dict[str, Any]], object]) -> None:
    now = int(time.time())  # one clock for both sides: what is early by seconds would be right after a pause
    with pytest.raises(errors.Unauthenticated):
        caller_of(keys, "Bearer " + signed(keys, change, now=now), clock=lambda: float(now))


def test_right_claims_in_other_shapes_are_taken(keys: KeyFolder) -> None:
    """An audience list and a small skew."""
    later = int(time.time()) + limits.CLOCK_SKEW_MAX_S - 5
    token = signed(keys, lambda c: c.update(aud=["x", AUDIENCE], nbf=later, iat=later))
    assert caller_of(keys, "bearer " + token).merchant == "m_1"


def test_the_older_name_of_the_algorithm_is_taken(keys: KeyFolder) -> None:
    """Most issuers still write EdDSA, in tokens and in key sets."""
    private = json.loads(keys.issuer.read_text())
    old = jwk.OKPKey.import_key(private | {"alg": "EdDSA"})
    with pytest.warns(SecurityWarning):
        token = signed(keys, header={"alg": "EdDSA"}, key=old)
    assert caller_of(keys, "Bearer " + token).merchant == "m_1"
    keys.jwks.write_text(json.dumps({"keys": [old.as_dict(private=False)]}))
    assert caller_of(keys, "Bearer " + token).merchant == "m_1"
    assert caller_of(keys, "Bearer " + signed(keys)).merchant == "m_1"


def encoded(value: object) -> str:
    raw = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def test_forged_tokens_are_refused(keys: KeyFolder) -> None:
    """Nothing, alg none, HMAC with the public key as its secret, keys in the header, another key, changed claims."""
    public = json.loads(keys.jwks.read_text())["keys"][0]
    real = signed(keys)
    head, body, signature = real.split(".")
    other = jwk.OKPKey.generate_key("Ed25519")
    secret = jwk.OctKey.import_key(base64.urlsafe_b64decode(public["x"] + "=="))
    claims = json.loads(base64.urlsafe_b64decode(body + "=="))
    forged = [
        f"{encoded({'alg': 'none', 'kid': public['kid']})}.{body}.",
        f"{encoded({'alg': 'None', 'kid': public['kid']})}.{body}.{signature}",
        signed(keys, header={"alg": "HS256"}, key=secret),
        signed(keys, key=other),
        signed(keys, header={"jwk": other.as_dict(private=False)}, key=other),
        signed(keys, header={"kid": "unknown"}),
        f"{head}.{encoded(claims | {'merchant': 'm_2'})}.{signature}",
        f"{head}.{body}.",
        f"{head}.{body}",
        f"{head}.{body}.{signature}.{signature}",
        f"{encoded([])}.{body}.{signature}",
        f"{encoded(b'{')}.{body}.{signature}",
        real[:-4] + "AAAA",
        "x" * (ingress_limits.TOKEN_BYTES_MAX + 1),
        "ключ",
        "",
    ]
    for token in forged:
        with pytest.raises(errors.Unauthenticated):
            caller_of(keys, f"Bearer {token}")
    for field in (None, "", "Bearer", "Basic abc", real):
        with pytest.raises(errors.Unauthenticated):
            caller_of(keys, field)
    assert caller_of(keys, f"Bearer {real}").merchant == "m_1"


def test_what_could_be_read_in_two_ways_is_not_believed(keys: KeyFolder) -> None:
    """Members of the header or claims given twice, and extensions that must be understood, an empty list of them too."""
    own = jwk.OKPKey.import_key(json.loads(keys.issuer.read_text()))
    _, body, _ = signed(keys).split(".")
    claims = base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)).decode()
    head = json.dumps({"alg": "Ed25519", "kid": own.kid})

    def token(head: str, claims: str) -> str:
        return sealed(keys, head.encode(), claims.encode())

    assert caller_of(keys, "Bearer " + token(head, claims)).merchant == "m_1"
    for wrong in (
        '{"alg": "none", ' + head[1:],
        head[:-1] + f', "kid": "{own.kid}"}}',
        head[:-1] + ', "crit": []}',
        head[:-1] + ', "crit": null}',
        head[:-1] + ', "crit": ["exp"], "exp": 1}',
        head[:-1] + ', "crit": ["b64"], "b64": true}',
        head[:-1] + ', "x": ' + "[" * 3_000 + "]" * 3_000 + "}",
        "\ufeff" + head,
    ):
        with pytest.raises(errors.Unauthenticated):
            caller_of(keys, "Bearer " + token(wrong, claims))
    for wrong in (claims[:-1] + ', "merchant": "m_2"}', claims[:-1] + ', "x": {"a": 1, "a": 1}}'):
        with pytest.raises(errors.Unauthenticated):
            caller_of(keys, "Bearer " + token(head, wrong))


def sealed(keys: KeyFolder, head: bytes, claims: bytes) -> str:
    """A token of these very bytes, signed by the issuer."""
    secret = json.loads(keys.issuer.read_text())["d"]
    private = Ed25519PrivateKey.from_private_bytes(base64.urlsafe_b64decode(secret + "=" * (-len(secret) % 4)))
    text = ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in (head, claims))
    return f"{text}.{base64.urlsafe_b64encode(private.sign(text.encode())).rstrip(b'=').decode()}"


def test_whose_token_it_says_it_is_is_read_once_and_believed_no_further(
    keys: KeyFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request asks six times who calls: middleware, then its route. The other issuer's keys judge each time."""
    others = KeyFolder(tmp_path / "others")
    others.ensure()
    now, read = [time.time()], list[str]()
    issuer_said = auth.issuer_said

    def noted(token: str) -> str:
        read.append(token)
        return issuer_said(token)

    monkeypatch.setattr(auth, "issuer_said", noted)
    monkeypatch.setattr(ingress_limits, "TOKENS_CACHED_MAX", 1)

    async def play() -> None:
        other = Authenticator(KeySource(str(others.jwks)), MONITOR_ISSUER, (AUDIENCE,), clock=lambda: now[0])
        first = Authenticator(KeySource(str(keys.jwks)), ISSUER, (AUDIENCE,), clock=lambda: now[0], further=[other])

        def of(folder: KeyFolder, subject: str) -> str:
            claims = {"iss": MONITOR_ISSUER, "sub": subject}
            return "Bearer " + signed(folder, lambda found: found.update(claims), now=int(now[0]))

        token, forged = of(others, "s"), of(keys, "forged")
        for _ in range(3):
            assert (await first.caller(token)).subject == "s"
        assert len(read) == 1
        for _ in range(2):
            with pytest.raises(errors.Unauthenticated):
                await first.caller(forged)
        assert len(read) == 2
        assert len(first._issuers) == 1  # bounded, whatever is shown
        now[0] += 60 + limits.CLOCK_SKEW_MAX_S
        with pytest.raises(errors.Unauthenticated, match="expired"):
            await first.caller(token)

    asyncio.run(play())


def test_keys_are_stale_for_a_bounded_time_and_rotation_ends_trust(keys: KeyFolder) -> None:
    """stale-if-error, then fail_closed; a key that left the set vouches for nobody, remembered or not."""
    now = [0.0]

    async def play() -> None:
        source = KeySource(str(keys.jwks), clock=lambda: now[0])
        authenticator = Authenticator(source, ISSUER, (AUDIENCE,))
        header = "Bearer " + signed(keys)
        await authenticator.caller(header)
        text = keys.jwks.read_text()
        keys.jwks.write_text("{broken")
        now[0] = ingress_limits.JWKS_STALE_MAX_S - 1.0
        assert (await authenticator.caller(header)).merchant == "m_1"
        now[0] = ingress_limits.JWKS_STALE_MAX_S + 1.0
        with pytest.raises(errors.Unavailable):
            await authenticator.caller(header)
        keys.jwks.write_text(text)
        now[0] += ingress_limits.JWKS_REFRESH_COOLDOWN_S + 1
        assert (await authenticator.caller(header)).merchant == "m_1"
        keys.jwks.write_text('{"keys": []}')
        now[0] += ingress_limits.JWKS_REFRESH_S + 1
        with pytest.raises(errors.Unauthenticated):
            await authenticator.caller(header)

    asyncio.run(play())


def test_a_new_key_is_found_without_waiting_for_the_refresh(keys: KeyFolder, tmp_path: Path) -> None:
    now = [0.0]
    newer = KeyFolder(tmp_path / "newer")
    newer.ensure()

    async def play() -> None:
        authenticator = Authenticator(KeySource(str(keys.jwks), clock=lambda: now[0]), ISSUER, (AUDIENCE,))
        await authenticator.caller("Bearer " + signed(keys))
        both = [json.loads(k.jwks.read_text())["keys"][0] for k in (keys, newer)]
        keys.jwks.write_text(json.dumps({"keys": both}))
        with pytest.raises(errors.Unauthenticated):  # within the cooldown nobody makes us look again
            await authenticator.caller("Bearer " + signed(newer))
        now[0] = ingress_limits.JWKS_REFRESH_COOLDOWN_S + 1.0
        await authenticator.caller("Bearer " + signed(newer))

    asyncio.run(play())


def test_only_public_signing_keys_are_read() -> None:
    rows = [
        {"kty": "oct", "k": "AAAA", "kid": "secret"},
        {"kty": "OKP", "crv": "Ed25519", "x": "bad", "kid": "broken"},
        {"kty": "RSA", "kid": "empty"},
        jwk.ECKey.generate_key("P-256").as_dict(private=False) | {"kid": "enc", "use": "enc"},
        jwk.ECKey.generate_key("P-256").as_dict(private=False),
        "text",
        jwk.ECKey.generate_key("P-256").as_dict(private=True) | {"kid": "good"},
    ]
    found = read_keys(json.dumps({"keys": rows}))
    assert list(found) == ["good"]
    assert "d" not in found["good"].as_dict()
    for text in ("[]", "{}", '{"keys": 5}', "nonsense"):
        with pytest.raises(ValueError):  # noqa: PT011 - any ValueError means "no key set"
            read_keys(text)


@pytest.mark.skipif(not VECTORS.exists(), reason="the Wycheproof vectors are not there")
def test_wycheproof_signatures() -> None:
    """Invalid signatures are refused; valid ones are taken exactly when the algorithm is on our list."""

    @each("vector, keys, token, is_taken", _vectors())
    def judged(vector: str, keys: list[Key], token: str, is_taken: bool) -> None:
        assert any(is_signed_by(key, token) for key in keys) == is_taken

    judged()


def _vectors() -> Iterator[tuple[str, list[Key], str, bool]]:
    for group in json.loads(VECTORS.read_text())["testGroups"]:
        row = group.get("public") or group["private"]
        keys = [*read_keys(json.dumps({"keys": [{"kid": "k"} | row]})).values()]
        for test in group["tests"]:
            if isinstance(test["jws"], str):  # else a JSON-serialized JWS, which a bearer token cannot be
                is_taken = test["result"] == "valid" and row.get("alg") in OURS and bool(keys)
                yield f"{test['tcId']}: {test['comment']}", keys, test["jws"], is_taken


def is_signed_by(key: Key, token: str) -> bool:
    try:
        verify(token, key)
    except errors.Unauthenticated:
        return False
    return True
