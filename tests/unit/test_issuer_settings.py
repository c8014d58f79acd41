"""Whose tokens a stack believes, by its settings; and that no setting of ours is ignored in silence."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import ValidationError

from compose.settings.settings import Settings
from compose.settings.unknown_variables import refuse_unknown
from compose.stack.errors import StackError
from ingress.identity.auth import Authenticator
from ingress.identity.caller import Caller
from ingress.identity.issuer import AUDIENCE, SERVICES_ISSUER, KeyFolder, issue_token
from schemas import errors

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


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"mode": "production"}, "needs MILLRACE_ISSUER"),
        ({"issuer": OUTSIDE}, "one of them"),
        ({"issuer": OUTSIDE, "jwks_url": "https://a", "jwks_file": "/a"}, "one of them"),
        ({"issuer": OUTSIDE, "jwks_url": "http://issuer.example/keys"}, "https"),
        ({"jwks_url": "https://issuer.example/keys"}, "need MILLRACE_ISSUER"),
        ({"issuer": SERVICES_ISSUER, "jwks_url": "https://a"}, "a name of our own"),
        ({"audience": " , "}, "one audience"),
    ],
)
def test_half_an_issuer_is_none(changes: Any, said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        Settings(**changes)


def test_a_variable_that_nobody_reads_is_refused_with_the_nearest_one() -> None:
    known = list(Settings.model_fields)
    refuse_unknown(["PATH", "MILLRACE_HOME", "MILLRACE_JWKS_URL", "MILLRACE_TOKEN", "MILLRACE_TEST_X"], known)
    with pytest.raises(StackError, match=r"MILLRACE_JWKS is no setting; did you mean MILLRACE_JWKS_(URL|FILE)\?"):
        refuse_unknown(["MILLRACE_JWKS"], known)
    with pytest.raises(StackError, match=r"MILLRACE_AUDIENCES is no setting; did you mean MILLRACE_AUDIENCE\?"):
        refuse_unknown(["MILLRACE_AUDIENCES"], known)
