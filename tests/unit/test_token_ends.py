"""A token ends when it says; only those of other clocks than ours are taken a little later."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import pytest

from ingress.identity.auth import Authenticator
from ingress.identity.issuer import AUDIENCE, ISSUER
from ingress.identity.jwks import KeySource
from ingress.trust import SUPPORT_ISSUER
from schemas import errors, limits
from tests.each import each
from tests.unit.test_ingress_auth import keys, signed

if TYPE_CHECKING:
    from ingress.identity.issuer import KeyFolder

__all__ = ["keys"]  # the fixtures of this module


def test_a_remembered_token_still_expires(keys: KeyFolder) -> None:
    """The verdict is cached, the clock is not."""
    now = [time.time()]

    async def play() -> None:
        authenticator = Authenticator(KeySource(str(keys.jwks)), ISSUER, (AUDIENCE,), clock=lambda: now[0])
        header = "Bearer " + signed(keys, now=int(now[0]))
        assert (await authenticator.caller(header)).merchant == "m_1"
        now[0] += 60
        with pytest.raises(errors.Unauthenticated, match="expired"):
            await authenticator.caller(header)

    asyncio.run(play())


@each(("issuer", "late_s"), [(ISSUER, 0), (SUPPORT_ISSUER, 0), ("https://issuer.example", limits.CLOCK_SKEW_MAX_S)])
def test_a_token_of_our_own_ends_when_it_says_and_others_have_another_clock(
    keys: KeyFolder, issuer: str, late_s: int
) -> None:
    made_at = int(time.time())
    token = "Bearer " + signed(keys, lambda claims: claims.update(iss=issuer, grant_id="sg_1"), now=made_at)
    now = [0.0]

    async def taken(at: float, *, is_remembered: bool) -> bool:
        authenticator = Authenticator(KeySource(str(keys.jwks)), issuer, (AUDIENCE,), clock=lambda: now[0])
        try:
            if is_remembered:
                now[0] = made_at
                await authenticator.caller(token)
            now[0] = at
            await authenticator.caller(token)
        except errors.Unauthenticated:
            return False
        return True

    for is_remembered in (False, True):
        assert asyncio.run(taken(made_at + 59.9 + late_s, is_remembered=is_remembered))
        assert not asyncio.run(taken(made_at + 60.0 + late_s, is_remembered=is_remembered))
