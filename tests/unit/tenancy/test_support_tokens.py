"""A token of support ends with its grant, or after ten minutes, and says when: from then on nobody takes it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

import pytest
from msgspec import structs

from dataflows.tenancy.domain.support_grant import SupportGrant
from ingress.identity.auth import Authenticator
from ingress.identity.issuer import AUDIENCE, KeyFolder
from ingress.identity.jwks import KeySource
from ingress.tenancy.support import access
from ingress.tenancy.support.access import SupportAccess
from ingress.trust import SUPPORT_ISSUER
from schemas import errors
from schemas.tenancy import limits
from schemas.tenancy.instants import parsed
from tests.each import each

if TYPE_CHECKING:
    from pathlib import Path

NOW_US = 1_800_000_000_600_000
LONG_US = limits.SUPPORT_TOKEN_MAX_S * 1_000_000
GRANT = SupportGrant(
    grant_id="sg_1",
    tenant_id="tn_1",
    requester="s_1",
    reason="r",
    ticket="t",
    scopes=("resources:read",),
    duration_s=60,
    state="active",
    needs_consent=False,
    created_at=NOW_US - 1,
)


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("support")
    KeyFolder(folder).ensure()
    return folder


@each("left_us", [1, 399_999, 400_000, 400_001, 999_999, 5_000_000, LONG_US - 1, LONG_US, LONG_US + 1, 9 * LONG_US])
def test_it_is_taken_until_it_ends_and_no_longer(keys: Path, monkeypatch: pytest.MonkeyPatch, left_us: int) -> None:
    monkeypatch.setattr(access.time, "time_ns", lambda: NOW_US * 1_000)
    monkeypatch.setattr(access.time, "time", lambda: NOW_US / 1e6)  # of the whole process, for as long as this
    ends_us = NOW_US + left_us
    grant = structs.replace(GRANT, expires_at=ends_us)
    made = SupportAccess(cast("Any", None), cast("Any", None), keys).token(grant, "s_1")
    says_us = parsed(made["expires_at"]) or 0
    longest_us = NOW_US // 1_000_000 * 1_000_000 + LONG_US
    assert says_us == min(ends_us, longest_us)

    def is_taken(at_us: int) -> bool:
        source = KeySource(str(KeyFolder(keys).jwks))
        judge = Authenticator(source, SUPPORT_ISSUER, (AUDIENCE,), clock=lambda: at_us / 1e6)
        try:
            asyncio.run(judge.caller(f"Bearer {made['token']}"))
        except errors.Unauthenticated:
            return False
        return True

    assert is_taken(says_us - 1)
    assert not is_taken(
        says_us + 1_000_000
    )  # the grant itself is looked at with each call, and ends to the microsecond
    if says_us < ends_us:
        assert not is_taken(says_us)


def test_nobody_else_and_nothing_that_is_over_gets_one(keys: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access.time, "time_ns", lambda: NOW_US * 1_000)
    made = SupportAccess(cast("Any", None), cast("Any", None), keys)
    with pytest.raises(errors.NotFound):
        made.token(structs.replace(GRANT, expires_at=NOW_US + 9), "s_2")
    with pytest.raises(errors.GrantInactive):
        made.token(structs.replace(GRANT, expires_at=NOW_US), "s_1")
