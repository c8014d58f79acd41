"""Whose tokens a stack believes, by its settings; and that no setting of ours is ignored in silence."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import ValidationError

from compose.settings.settings import Settings, load_settings
from compose.settings.unknown_variables import refuse_unknown
from compose.stack.errors import StackError
from ingress.identity.auth import Authenticator
from ingress.identity.caller import Caller
from ingress.identity.issuer import AUDIENCE, SERVICES_ISSUER, KeyFolder, issue_token
from schemas import errors
from tests.each import each

if TYPE_CHECKING:
    from pathlib import Path

OUTSIDE = "https://issuer.example"


@pytest.fixture
def outside(tmp_path: Path) -> KeyFolder:
    folder = KeyFolder(tmp_path / "outside")
    folder.ensure()
    return folder


def caller_of(settings: Settings, keys: Path, token: str) -> Caller:
    return asyncio.run(Authenticator.of(settings.trusted(keys)).caller(f"Bearer {token}"))


def scopes_of(settings: Settings, keys: Path, token: str) -> frozenset[str]:
    return caller_of(settings, keys, token).scopes


def test_an_issuer_outside_is_believed_and_that_of_the_home_no_more(tmp_path: Path, outside: KeyFolder) -> None:
    keys = tmp_path / "keys"
    before = Settings()
    at_home = issue_token(before.development_issuer(keys), "m_1")
    assert scopes_of(before, keys, at_home)
    assert not caller_of(before, keys, at_home).is_service
    after = Settings(issuer=OUTSIDE, jwks_file=outside.jwks, audience="api,other")
    for audience in ("api", "other"):
        given = issue_token(outside, "m_1", ("x",), issuer=OUTSIDE, audience=audience)
        assert scopes_of(after, keys, given) == {"x"}
    for wrong in (at_home, issue_token(outside, "m_1", issuer=OUTSIDE, audience=AUDIENCE)):
        with pytest.raises(errors.Unauthenticated):
            scopes_of(after, keys, wrong)
    with pytest.raises(StackError, match="not believed here"):
        after.development_issuer(keys)


@pytest.mark.parametrize("changes", [{}, {"issuer": OUTSIDE, "jwks_url": "https://issuer.example/keys"}])
def test_our_services_have_an_issuer_apart_that_opens_little(tmp_path: Path, changes: Any) -> None:
    """Whichever issuer callers have; its key signs for nobody else, and no other key signs in its name."""
    settings = Settings(**changes)
    services = settings.service_issuer(tmp_path)
    token = issue_token(services, "gateway", ("limits:read", "operator"), issuer=SERVICES_ISSUER)
    assert scopes_of(settings, tmp_path, token) == {"limits:read"}
    assert caller_of(settings, tmp_path, token).is_service
    other = KeyFolder(tmp_path / "other")
    other.ensure()
    with pytest.raises(errors.Unauthenticated):
        scopes_of(settings, tmp_path, issue_token(other, "gateway", ("limits:read",), issuer=SERVICES_ISSUER))


@each(
    ("changes", "said"),
    [
        ({"mode": "production"}, "needs MILLRACE_ISSUER"),
        ({"issuer": OUTSIDE}, "one of them"),
        ({"issuer": OUTSIDE, "jwks_url": "https://a", "jwks_file": "/a"}, "one of them"),
        ({"issuer": OUTSIDE, "jwks_url": "http://issuer.example/keys"}, "https"),
        ({"jwks_url": "https://issuer.example/keys"}, "need MILLRACE_ISSUER"),
        ({"issuer": SERVICES_ISSUER, "jwks_url": "https://a"}, "a name of our own"),
        ({"audience": " , "}, "one audience"),
        (
            {"sign_in_client": "c", "sign_in_origin": "https://a.example"},
            "MILLRACE_SIGN_IN_CLIENT needs MILLRACE_ISSUER",
        ),
        ({"issuer": OUTSIDE, "jwks_url": "https://a", "sign_in_client": "c"}, "and MILLRACE_SIGN_IN_ORIGIN"),
        ({"sign_in_origin": "https://a.example/console"}, "give an origin"),
        ({"sign_in_origin": "http://a.example"}, "in the clear"),
    ],
)
def test_half_an_issuer_is_none(changes: Any, said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        Settings(**changes)


FAR: Any = {"issuer": OUTSIDE, "jwks_url": "https://issuer.example/keys"}


@pytest.mark.parametrize(
    ("plain", "encrypted"),
    [
        (
            {"kafka_bootstrap": "127.0.0.1:9092,kafka.corp:9092", "kafka_security_protocol": "SASL_PLAINTEXT"},
            {"kafka_bootstrap": "kafka.corp:9092", "kafka_security_protocol": "SASL_SSL"},
        ),
        (
            {"postgres_dsn": "postgresql://u:p@127.0.0.1,db.corp/millrace?sslmode=prefer"},
            {"postgres_dsn": "postgresql://u:p@db.corp/millrace?sslmode=verify-full"},
        ),
        (
            {"postgres_address": "postgresql://10.0.0.5/m"},
            {"postgres_address": "postgresql://10.0.0.5/m?sslmode=require"},
        ),
        ({"redis_url": "redis://:p@cache.corp:6379/0"}, {"redis_url": "rediss://:p@cache.corp:6379/0"}),
        ({"social_homes_url": "redis://h:p@cache.corp/0"}, {"social_homes_url": "rediss://h:p@cache.corp/0"}),
        ({"clickhouse_url": "http://u:p@192.0.2.7:8123/m"}, {"clickhouse_url": "https://u:p@192.0.2.7:8443/m"}),
        ({"clickhouse_reader_url": "http://r:p@ch.corp/m"}, {"clickhouse_reader_url": "https://r:p@ch.corp/m"}),
    ],
)
def test_in_production_no_password_crosses_a_network_in_the_clear(plain: Any, encrypted: Any) -> None:
    (named, *_) = plain
    setting = {"postgres_address": "MILLRACE_POSTGRES_DSN"}.get(named, f"MILLRACE_{named.upper()}")
    with pytest.raises(ValueError, match=f"{setting} leads over a network in the clear: production needs"):
        Settings(mode="production", **FAR, **plain)
    Settings(mode="production", **FAR, **encrypted)
    Settings(**plain)  # in development a network of containers is one's own


def test_what_a_file_says_is_no_exception(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = tmp_path / "redis_url"
    secret.touch(mode=0o600)
    monkeypatch.setenv("MILLRACE_MODE", "production")
    monkeypatch.setenv("MILLRACE_ISSUER", OUTSIDE)
    monkeypatch.setenv("MILLRACE_JWKS_URL", "https://issuer.example/keys")
    monkeypatch.setenv("MILLRACE_REDIS_URL_FILE", str(secret))
    secret.write_text("redis://:p@cache.corp:6379/0")
    with pytest.raises(StackError, match="MILLRACE_REDIS_URL leads over a network in the clear"):
        load_settings(tmp_path)
    secret.write_text("rediss://:p@cache.corp:6379/0")
    load_settings(tmp_path)


def test_servers_of_this_machine_need_no_encryption_in_production() -> None:
    Settings(mode="production", **FAR)
    Settings(
        mode="production",
        **FAR,
        kafka_bootstrap="localhost:9092, [::1]:9092",
        postgres_dsn="postgresql://u:p@/millrace?host=/run/postgresql",
        redis_url="redis://127.0.0.2:6379/0",
        clickhouse_url="http://u:p@localhost:8123/m",
    )


def test_a_variable_that_nobody_reads_is_refused_with_the_nearest_one() -> None:
    known = list(Settings.model_fields)
    refuse_unknown(["PATH", "MILLRACE_HOME", "MILLRACE_JWKS_URL", "MILLRACE_TOKEN", "MILLRACE_TEST_X"], known)
    with pytest.raises(StackError, match=r"MILLRACE_JWKS is no setting; did you mean MILLRACE_JWKS_(URL|FILE)\?"):
        refuse_unknown(["MILLRACE_JWKS"], known)
    with pytest.raises(StackError, match=r"MILLRACE_AUDIENCES is no setting; did you mean MILLRACE_AUDIENCE\?"):
        refuse_unknown(["MILLRACE_AUDIENCES"], known)
