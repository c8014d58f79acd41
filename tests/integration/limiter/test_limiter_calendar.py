"""Quotas of a calendar at a gateway and a real Valkey: what the windows of its snapshot let it say, and for how long."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from limiter.policy.policies import PolicySet
from schemas.calendar_windows import LONGEST_S, Calendar, window_at, windows_from
from schemas.limiter import limits
from tests.worlds.limiter.counter_server import CounterServer, emptied, limiter, policies, policy, server

if TYPE_CHECKING:
    from pathlib import Path

    from limiter import Decision, Limiter

pytestmark = [pytest.mark.servers, pytest.mark.usefixtures("emptied")]
__all__ = ["emptied", "server"]  # the fixtures of this module
CALENDAR = Calendar("month", "Europe/Berlin")
MONTHLY = policy(capacity=1_000, calendar={"unit": CALENDAR.unit, "time_zone": CALENDAR.time_zone})
EXACT = policy("pl_exact", capacity=1_000, consistency="exact", calendar={"unit": "day", "time_zone": "Asia/Kolkata"})


@dataclass
class Answered:
    """A decision, and between which two moments it was made."""

    decided: Decision
    before_s: float
    after_s: float


async def asked(gateway: Limiter, cost: int = 1) -> Answered:
    before_s = time.time()
    decided = await gateway.check("t", "u", "/r", cost)
    return Answered(decided, before_s, time.time())


def known_until(now_s: float) -> PolicySet:
    """The month's policy, in a snapshot whose last boundary was passed long ago."""
    past = int(now_s) - 4 * LONGEST_S[CALENDAR.unit]
    return PolicySet([MONTHLY], 1, [windows_from(CALENDAR, past - LONGEST_S[CALENDAR.unit], past)])


def test_every_answer_says_when_the_window_of_its_zone_ends(server: CounterServer, tmp_path: Path) -> None:
    async def test() -> None:
        async with limiter(server.url, tmp_path, EXACT, timeout_s=60) as gateway:
            assert EXACT.calendar is not None
            for cost, allowed in ((999, True), (2, False), (1, True), (1, False)):
                answer = await asked(gateway, cost)
                _, end_s = window_at(EXACT.calendar, int(answer.before_s))
                found = answer.decided
                assert (found.allowed, found.degraded) == (allowed, False)
                assert (
                    answer.before_s + (found.reset_ms - 1) / 1_000 <= end_s <= answer.after_s + found.reset_ms / 1_000
                )
                for bucket in gateway._buckets.values():
                    bucket.deny_until_ns = 0  # what it remembers of refusals is not what is asked about here

    asyncio.run(test())


def test_a_months_quota_is_leased_and_holds(server: CounterServer, tmp_path: Path) -> None:
    async def test() -> None:
        async with limiter(server.url, tmp_path, MONTHLY, timeout_s=60) as gateway:
            allowed = 0
            for _ in range(60):
                answers = await asyncio.gather(*(asked(gateway) for _ in range(50)))
                allowed += sum(answer.decided.allowed for answer in answers)
            assert 900 <= allowed <= 1_000
            assert gateway.store_calls < 3_000
            await gateway.close()
            await gateway.check("t", "u", "/r", 1_000 - allowed)
            held = [await bucket.store.peek(bucket) for bucket in gateway._buckets.values() if bucket.store is not None]
            assert [(counted.used, counted.reserved) for counted in held] == [(1_000, 0)]

    asyncio.run(test())


def test_past_the_last_boundary_the_failure_mode_decides_until_a_snapshot_knows_more(
    server: CounterServer, tmp_path: Path
) -> None:
    """The buckets that the gateway has already go on by the windows of the new snapshot, of the same version."""

    async def test() -> None:
        async with limiter(server.url, tmp_path, timeout_s=60) as gateway:
            gateway.use(known_until(time.time()))
            refused = (await asked(gateway)).decided
            assert (refused.allowed, refused.degraded, refused.policy_id) == (False, True, MONTHLY.policy_id)
            buckets = [*gateway._buckets.values()]
            gateway.use(policies(MONTHLY))
            counted = (await asked(gateway)).decided
            assert (counted.allowed, counted.degraded, counted.remaining) == (True, False, 999)
            assert [*gateway._buckets.values()] == buckets
            gateway.use(known_until(time.time()))
            counted = (await asked(gateway)).decided  # the store knows the window that it is in
            assert (counted.degraded, counted.remaining) == (False, 998)

    asyncio.run(test())


@pytest.mark.parametrize("ahead_s", [-limits.LIMIT_CALENDAR_BEFORE_S, 0, limits.LIMIT_CALENDAR_AHEAD_S - 86_400])
def test_a_snapshot_is_of_use_at_both_ends_of_its_life(server: CounterServer, tmp_path: Path, ahead_s: int) -> None:
    """Signed so much later or earlier than it is used, by the hour."""

    async def test() -> None:
        hourly = policy(calendar={"unit": "hour", "time_zone": "Australia/Lord_Howe"})
        async with limiter(server.url, tmp_path, timeout_s=60) as gateway:
            gateway.use(policies(hourly, now_s=time.time() - ahead_s))
            assert not (await asked(gateway)).decided.degraded

    asyncio.run(test())
