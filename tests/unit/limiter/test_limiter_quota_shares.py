"""Shares of Envoys against a model of one: whatever is late, all that it could have spent is charged or reserved."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Final

import pytest

from limiter.decide.quota_shares import Assignment, QuotaLease, Share, told_ttl_s
from schemas.limiter import limits
from tests.seeds import seeds

if TYPE_CHECKING:
    from collections.abc import Callable

_MS: Final = 1_000_000
_STEP_MS: Final = 50
_STEPS: Final = 2_000
_LEASE_NS: Final = limits.LIMIT_RLQS_LEASE_MS * _MS


class Envoy:
    """What it holds, what it spent of it in truth, and what is under way to it and from it."""

    def __init__(self, random_: random.Random) -> None:
        self.random = random_
        self.left = self.ends_ns = 0
        self.spent = self.unsaid = 0
        self.to_it: list[tuple[int, int, int]] = []  # when it arrives, tokens, ttl
        self.from_it: list[tuple[int, int]] = []  # when it arrives, allowed

    def step(self, now_ns: int) -> None:
        while self.to_it and self.to_it[0][0] <= now_ns:
            _, self.left, ttl_s = self.to_it.pop(0)
            self.ends_ns = now_ns + ttl_s * 1_000 * _MS
        wanted = self.random.choice([0, 0, 0, 1, 2, 10])
        if now_ns < self.ends_ns:
            done = min(wanted, self.left)
            self.left -= done
            self.spent += done
            self.unsaid += done

    def says(self, now_ns: int, late_ns: int) -> None:
        before = self.from_it[-1][0] if self.from_it else 0  # a stream keeps its order
        self.from_it.append((max(before, now_ns + late_ns), self.unsaid))
        self.unsaid = 0


@pytest.mark.parametrize("seed", seeds(10))
def test_what_an_envoy_spent_is_never_more_than_what_is_charged_and_reserved(seed: int) -> None:
    random_ = random.Random(seed)
    envoy, share = Envoy(random_), Share(0)
    late_ns = limits.LIMIT_RLQS_MARGIN_MS * _MS // 2  # there, and back
    settled = assignments = 0
    for step in range(_STEPS):
        now_ns = step * _STEP_MS * _MS
        envoy.step(now_ns)
        if step % 20 == 0 or random_.random() < 0.02:
            envoy.says(now_ns, random_.randrange(late_ns - _STEP_MS * _MS))
        while envoy.from_it and envoy.from_it[0][0] <= now_ns:
            share.report(envoy.from_it.pop(0)[1], random_.choice([0, 5]), now_ns)
            settled += sum(lease.spent for lease in share.finished())
            if share.needs(now_ns):
                ends_ns = now_ns + _LEASE_NS
                lease = QuotaLease(b"", (), random_.randint(1, 30), ends_ns)
                ttl_s = told_ttl_s(ends_ns, now_ns)
                share.assign(Assignment("tokens", ttl_s, lease.tokens), (), now_ns, lease)
                arrives_ns = now_ns + random_.randrange(late_ns - _STEP_MS * _MS)
                envoy.to_it.append((max(arrives_ns, envoy.to_it[-1][0] if envoy.to_it else 0), lease.tokens, ttl_s))
                assignments += 1
        assert envoy.spent <= settled + sum(lease.tokens for lease in share.leases)
        assert share.unpaid == 0  # all that it spent was of a lease
    assert assignments > 10
    end_ns = _STEPS * _STEP_MS * _MS + 2 * _LEASE_NS
    for _, said in envoy.from_it:
        share.report(said, 0, end_ns)
    share.report(envoy.unsaid, 0, end_ns)
    settled += sum(lease.spent for lease in share.finished())
    assert (settled, share.leases) == (envoy.spent, [])  # and no more than that in the end


def _told(share: Share, made: Assignment, now_ns: int, tokens: int = 0) -> None:
    share.assign(made, (), now_ns, QuotaLease(b"", (), tokens, now_ns + _LEASE_NS) if tokens else None)


@pytest.mark.parametrize(
    ("happens", "needs"),
    [
        pytest.param(lambda share: share.report(0, 0, 1), False, id="nobody asked"),
        pytest.param(lambda share: share.report(4, 0, 1), False, id="as much is left as was asked for"),
        pytest.param(lambda share: share.report(6, 0, 1), True, id="less is left"),
        pytest.param(lambda share: share.report(10, 5, 1), True, id="nothing is left"),
        pytest.param(lambda share: share.report(11, 0, 1), True, id="more than it had"),
    ],
)
def test_an_envoy_is_told_anew_when_what_it_has_does_not_do(happens: Callable[[Share], None], needs: bool) -> None:
    share = Share(0)
    assert share.needs(0)  # of a new bucket
    _told(share, Assignment("tokens", 8, 10), 0, 10)
    happens(share)
    assert share.needs(1) == needs
    assert share.needs(4_000 * _MS) or share.seen == 0  # half of its time is over
    assert not share.is_due(7_999 * _MS)


def test_a_refusal_is_looked_at_again_and_an_unused_lease_is_not() -> None:
    share = Share(0)
    _told(share, Assignment("deny_all", 8), 0)
    assert not share.is_due(limits.LIMIT_RLQS_RETRY_MS * _MS - 1)
    assert share.is_due(limits.LIMIT_RLQS_RETRY_MS * _MS)
    _told(share, Assignment("tokens", 8, 10), 0, 10)
    assert not share.is_due(9_000 * _MS)  # nothing was heard since it was told
    share.report(1, 0, 5_000 * _MS)
    assert share.is_due(9_000 * _MS)


def test_no_part_is_larger_than_the_demand_or_half_of_the_quota() -> None:
    share = Share(0)
    assert share.wanted(1_000) == limits.LIMIT_RLQS_TOKENS_MIN
    share.report(100, 100, 1)
    assert (share.wanted(1_000), share.wanted(300), share.wanted(1)) == (400, 150, 1)
    share.report(limits.LIMIT_COST_MAX, limits.LIMIT_COST_MAX, 2)
    assert share.wanted(2**50) == limits.LIMIT_RLQS_TOKENS_MAX
