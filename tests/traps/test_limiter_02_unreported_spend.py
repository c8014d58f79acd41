"""A gateway's host is gone at any step between spend and flush: what it may have spent is not given away again.

Trap 2 of the limiter: what was spent and not reported is credited (129 of 2,000), or what was not spent is credited
after refill has already repaid it (114 of 100). The oracle is an exact bucket fed with what was truly spent.
"""

from __future__ import annotations

import random
import struct
from typing import TYPE_CHECKING

import pytest

from dataflows.limiter.leases.fold import OpenLeases, assumed, settlement
from limiter.spending.buckets import Bucket
from limiter.stream.lease_book import decode_reports
from schemas.limiter import limits
from tests.seeds import seeds
from tests.worlds.limiter.counter_server import policies, policy, server
from tests.worlds.limiter.lease_gateway import Gateway
from tests.worlds.limiter.lease_reports import Reports
from tests.worlds.limiter.limit_oracle import Oracle
from tests.worlds.limiter.limiter_kinds import with_functions

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import redis

    from tests.worlds.limiter.counter_server import CounterServer

__all__ = ["server"]
pytestmark = pytest.mark.servers
#: where the host is lost: after this step nothing more is heard of the gateway
STEPS = ("granted", "reported", "spent", "sent", "arrived", "spent again", "closed", "settled")
BASE_US = 1_800_000_000_000_000  # the size of real clocks
LEASE_US = limits.LIMIT_LEASE_MS * 1_000
CAPACITY, RATE = 400, 100
WANTED = 40
ROUNDS = 12


@pytest.fixture(scope="module")
def functions(server: CounterServer) -> Iterator[redis.Redis]:
    with with_functions(server.url) as found:
        yield found


class Counter:
    """One token bucket at the store, by a clock of the test's own; what is admitted is held against the oracle."""

    def __init__(self, functions: redis.Redis, name: str) -> None:
        terms = policy(name, algorithm="token_bucket", capacity=CAPACITY, refill_rate=RATE, window_ms=None)
        (level,) = policies(terms).levels({"tenant": "t", "user": "u", "route": "/r"})
        self._functions = functions
        self._level = level
        self.bucket = Bucket(level, "t")
        self.now_us = BASE_US
        self.oracle = Oracle(level.terms)

    def call(self, function: str, cost: int, *, want: int = 0, lease: str = "") -> list[int]:
        head = struct.pack("<6d", 0, self.now_us, cost, 0, 0, 1)
        keys = ["rl:epoch", "", *self.bucket.keys]
        terms = self._level.packed_terms(want)
        return list(self._functions.fcall(function, 4, *keys, head, lease, "", terms))

    def admit(self, cost: int) -> None:
        """Somebody was let through now: the exact bucket must have held as much."""
        tick = self.now_us // self._level.terms.tick_us
        assert self.oracle.allows(tick, cost)
        self.oracle.charge(tick, cost)

    def burst(self) -> None:
        """Another gateway takes all there is."""
        available = self.call("rl1_decide", 0)[1]
        assert self.call("rl1_decide", available)[0] == 1
        self.admit(available)
        assert self.call("rl1_decide", 1)[0] == 0


def lost_at(step: str, gateway: Gateway, reports: Reports, counter: Counter, lease: str, granted: int) -> int:
    """Lives until the step and gives what was spent; every spend is one that the exact bucket had."""
    spent = 0

    def spend(most: int) -> None:
        nonlocal spent
        found = gateway.spend(most)
        counter.admit(found)
        spent += found

    gateway.grant(granted, lease)
    for at in STEPS[1 : STEPS.index(step) + 1]:
        counter.now_us += random.Random(at).randrange(LEASE_US // len(STEPS))
        if at in ("spent", "spent again"):
            spend(granted)
        if at in ("reported", "sent", "closed", "settled"):
            if at == "closed":
                gateway.bucket.end_lease()
            if at == "settled":
                counter.call("rl1_settle", spent, lease=lease)
                gateway.leases.settled(lease.encode(), is_known=True)
            gateway.recorder.flush()
        if at in ("reported", "arrived", "closed", "settled"):
            reports.arrive()
    return spent


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("seed", seeds(2))
def test_a_host_that_is_gone_at_any_step_lets_nobody_above_the_limit(
    functions: redis.Redis, tmp_path: Path, step: str, seed: int
) -> None:
    chance = random.Random(seed)
    functions.flushall()
    counter = Counter(functions, f"pl_{seed}_{STEPS.index(step)}")
    settled = 0
    for turn in range(ROUNDS):
        reports, leases = Reports(), OpenLeases()
        gateway = Gateway(tmp_path / f"{turn}", reports)
        lease = f"g.{turn}"
        answer = counter.call("rl1_decide", 1, want=WANTED, lease=lease)
        granted = answer[5]
        if answer[0] == 1:
            counter.admit(1)
        if not granted:
            counter.now_us += 3 * LEASE_US
            gateway.close()
            continue
        ends_us = counter.now_us + LEASE_US
        spent = lost_at(step, gateway, reports, counter, lease, granted)
        gateway.close()
        for offset, message in enumerate(reports.arrived):
            for report in decode_reports(message):
                leases.take(report, offset, ends_us)
        counter.now_us = ends_us + chance.randrange(9 * LEASE_US)  # an idle time, in which refill repays
        if chance.random() < 0.5:
            counter.burst()
        for report in leases.due(2**62, 10):
            held = counter.call("rl1_settle", report.allowed_cost + assumed(report), lease=lease)[2] > 0
            found = settlement(report, held=held)
            assert found.granted == granted == found.reported + found.assumed + found.released
            assert spent <= found.reported + found.assumed
            settled += held
        counter.burst()
        counter.now_us += chance.randrange(12 * LEASE_US)
    assert settled > 0 or step in ("granted", "settled")  # of these nobody heard, or nothing was left to do
