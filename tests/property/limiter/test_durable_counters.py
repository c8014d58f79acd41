"""Durable counters against exact fractions: every allow, remainder and wait; levels all or none; refunds; new versions."""

from __future__ import annotations

import random
from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from dataflows.limiter.domain.durable_quota import Consumption, Governed, decide_consume, refund
from limiter.policy.policies import PolicySet
from limiter.store.durable_counters import counted
from schemas.limiter import limits
from schemas.limiter.durable_counter import Charge, OwnedCounter
from schemas.limiter.exact_counter import FIXED, SLIDING, TOKEN_BUCKET, ExactCounter
from schemas.limiter.limit_policy import LimitPolicy
from schemas.limiter.limit_terms import Terms
from schemas.records import Denial
from tests.seeds import seeds
from tests.worlds.limiter.counter_server import policy
from tests.worlds.limiter.limit_oracle import Oracle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

BASE = 1_800_000_000_000_000  # microseconds: the size of real clocks
STEPS = 150
TERMS = [
    Terms(algorithm, capacity, refill, period, slots, tick_us, strict)
    for algorithm, slots, strict in (
        (TOKEN_BUCKET, 1, False),
        (SLIDING, 1, False),
        (SLIDING, 10, False),
        (SLIDING, 6, True),
        (FIXED, 1, False),
    )
    for capacity, refill, period, tick_us in (
        (1, 1, 60_000, 1_000),
        (3, 7, 997_020, 1),
        (10**6, 10**6, 86_400_000, 1_000),
        (10**9, 10**9, 2_592_000, 1_000_000),
    )
]


def steps(terms: Terms, random_: random.Random) -> Iterator[tuple[int, int]]:
    """Ticks and costs that crowd the edges: of the capacity, and of windows and slots."""
    now = BASE // terms.tick_us
    slot = terms.period // terms.slots
    for _ in range(STEPS):
        edge = slot - now % slot
        jump = random_.choice([0, 0, 1, slot // 7, edge, edge - 1, terms.period, 3 * terms.period])
        now += max(0, random_.choice([jump, random_.randint(0, slot)]))
        costs = [0, 1, terms.capacity, terms.capacity + 1, terms.capacity // 2, random_.randint(1, terms.capacity)]
        yield now, random_.choice(costs)


@pytest.mark.parametrize("seed", seeds(2))
@pytest.mark.parametrize("terms", TERMS, ids=str)
def test_every_answer_is_that_of_the_whole_history(terms: Terms, seed: int) -> None:
    counter, oracle = ExactCounter(terms), Oracle(terms)
    for now, cost in steps(terms, random.Random(seed)):
        now_us = now * terms.tick_us + random.Random(now).randrange(terms.tick_us)
        assert counter.available(now_us) == oracle.available(now)
        if oracle.allows(now, cost):
            counter.charge(now_us, cost)
            oracle.charge(now, cost)
            continue
        if cost > terms.capacity:
            assert counter.retry_us(now_us, cost) == -1
            continue
        wait, rest = divmod(counter.retry_us(now_us, cost), terms.tick_us)
        assert (rest, wait > 0) == (0, True)
        assert oracle.allows(now + wait, cost)
        assert not oracle.allows(now + wait - 1, cost)
    reset = counter.reset_us(counter.at * terms.tick_us) // terms.tick_us
    assert oracle.available(counter.at + reset) == terms.capacity


def test_a_clock_that_steps_back_gives_nothing_away() -> None:
    counter = ExactCounter(Terms(TOKEN_BUCKET, 10, 1, 1_000, 1, 1_000, strict=False))
    counter.charge(BASE, 10)
    assert counter.available(BASE - 5_000_000) == 0
    assert counter.available(BASE + 999_000) == 0
    assert counter.available(BASE + 1_000_000) == 1


@pytest.mark.parametrize("terms", [t for t in TERMS if t.capacity == 10**6], ids=str)
def test_a_refund_at_once_leaves_the_counter_as_it_was(terms: Terms) -> None:
    counter = ExactCounter(terms)
    counter.charge(BASE, 30)
    before = counter.copy()
    counter.charge(BASE + 5, 20)
    counter.give_back(BASE + 5, BASE + 5, 20)
    assert counter.available(BASE + 5) == before.available(BASE + 5)


def test_a_late_refund_credits_only_what_has_not_leaked() -> None:
    counter = ExactCounter(Terms(TOKEN_BUCKET, 100, 10, 1_000, 1, 1_000, strict=False))
    counter.charge(BASE, 50)
    counter.charge(BASE + 3_000_000, 80)  # 30 of the 50 have leaked: the bucket is full
    counter.give_back(BASE + 3_000_000, BASE, 50)
    assert counter.used(BASE + 3_000_000) == 80


def test_usage_under_a_version_with_other_terms_is_kept() -> None:
    counter = ExactCounter(Terms(TOKEN_BUCKET, 10, 1, 1_000, 1, 1_000, strict=False))
    counter.charge(BASE, 10)
    counter.carry_over(Terms(FIXED, 4, 4, 60_000, 1, 1_000, strict=False), BASE + 3_000_000, BASE + 3_000_000)
    assert (counter.used(BASE + 3_000_000), counter.available(BASE + 3_000_000)) == (7, -3)


def test_a_debt_under_another_version_stays_an_integer_that_can_be_stored() -> None:
    counter = ExactCounter(Terms(FIXED, 10**6, 10**6, 60_000, 1, 1_000, strict=False))
    counter.charge(BASE, 10**6)
    counter.carry_over(Terms(TOKEN_BUCKET, 1, 1, 2**51, 1, 1, strict=False), BASE, BASE)
    assert counter.available(BASE) < 0
    assert counter.debt < 2**53


def durable(name: str = "pl_a", version: int = 1, **changes: Any) -> LimitPolicy:
    """A month's quota in one window."""
    return policy(name, version, **{"consistency": "durable", "window_ms": 30 * 86_400_000} | changes)


class Tenant:
    """The counters of one tenant's policies, as an owner keeps them."""

    def __init__(self, *policies: LimitPolicy) -> None:
        self.policies = list(policies)
        self.counters: list[OwnedCounter | None] = [None for _ in policies]
        self.version = 0

    def ask(self, cost: int, now: int = BASE) -> Consumption | Denial:
        governed = [Governed(p, c) for p, c in zip(self.policies, self.counters, strict=True)]
        decided = decide_consume(governed, cost, self.version, now)
        if isinstance(decided, Consumption):
            self.version += 1
            kept = zip(self.counters, decided.counters, strict=True)
            self.counters = [new or old for old, new in kept]
        return decided

    def used(self, now: int = BASE) -> list[int]:
        return [0 if c is None else c.counter.used(now) for c in self.counters]


def test_levels_are_charged_all_or_none() -> None:
    tenant = Tenant(durable(capacity=50), durable("pl_b", capacity=5))
    assert isinstance(tenant.ask(4), Consumption)
    refused = tenant.ask(2)
    assert isinstance(refused, Denial)
    levels: Any = refused.extra["levels"]
    assert [level.remaining for level in levels] == [46, 1]
    waits = [level.retry_us for level in levels]
    assert (waits[0], waits[1] > 0) == (0, True)  # only the narrow one has to be waited for
    assert tenant.used() == [4, 4]
    assert isinstance(tenant.ask(1), Consumption)
    assert tenant.used() == [5, 5]


def test_a_shadow_level_refuses_nobody_and_is_charged_what_fits() -> None:
    tenant = Tenant(durable(capacity=50), durable("pl_b", capacity=5, shadow=True))
    for _ in range(3):
        assert isinstance(tenant.ask(4), Consumption)
    assert tenant.used() == [12, 4]


def test_a_cost_of_nothing_makes_no_counter() -> None:
    tenant = Tenant(durable(capacity=5))
    assert isinstance(tenant.ask(0), Consumption)
    assert tenant.counters == [None]


def test_a_refusal_changes_nothing_at_all() -> None:
    tenant = Tenant(durable(capacity=5))
    tenant.ask(3)
    (before,) = tenant.counters
    assert before is not None
    copied = (before.counter.copy(), dict(before.counter.counts))
    assert isinstance(tenant.ask(3, BASE + 1_000_000), Denial)
    assert tenant.counters == [before]
    assert (before.counter, before.counter.counts) == copied


def test_the_newest_version_decides_and_usage_is_kept() -> None:
    tenant = Tenant(durable(capacity=100))
    tenant.ask(60)
    tenant.policies = [durable(version=2, capacity=70)]
    left = tenant.ask(10)
    assert isinstance(left, Consumption)
    assert [(level.policy_version, level.remaining) for level in left.levels] == [(2, 0)]
    tenant.policies = [durable(version=1, capacity=100)]  # read by nobody; and it would not go back
    assert isinstance(tenant.ask(1), Denial)


def bucket(version: int = 1, capacity: int = 1_000, refill_rate: int = 3) -> LimitPolicy:
    changes = {"algorithm": "token_bucket", "capacity": capacity, "refill_rate": refill_rate}
    return durable("pl_a", version, window_ms=None, **changes)


def monthly(version: int = 1, capacity: int = 1_000, refill_rate: int = 3) -> LimitPolicy:
    """A month's quota, or that of a week: such terms have no rate."""
    calendar = {"unit": "week" if refill_rate == 1 else "month", "time_zone": "America/New_York"}
    return durable("pl_a", version, window_ms=None, calendar=calendar, capacity=capacity)


@pytest.mark.parametrize("seed", seeds(5))
@pytest.mark.parametrize("made", [bucket, monthly])
def test_the_stored_charges_lead_from_the_base_to_the_counter(made: Callable[..., LimitPolicy], seed: int) -> None:
    """What ``millrace check`` computes: after charges, refunds, new versions, and long after the retention."""
    random_ = random.Random(seed)
    tenant = Tenant(made())
    charges: list[Charge] = []
    now = BASE
    for _ in range(300):
        now += random_.choice([1_000, 700_000, 90_000_000, 86_400_000_000])
        if random_.random() < 0.05:
            changed = {"capacity": random_.choice([500, 1_000, 2_000]), "refill_rate": random_.choice([1, 3])}
            tenant.policies = [made(tenant.policies[0].version + 1, **changed)]
        open_charges = [c for c in charges if c.refunded_version is None]
        if open_charges and random_.random() < 0.2:
            charge = random_.choice(open_charges)
            tenant.version += 1
            charge.refunded_version, charge.refunded_at = tenant.version, now
            (owned,) = tenant.counters
            assert owned is not None
            tenant.counters = [refund(owned, charge, now)]
        elif isinstance(tenant.ask(cost := random_.randint(1, 400), now), Consumption):
            (owned,) = tenant.counters
            assert owned is not None
            assert now - owned.base_at <= limits.LIMIT_DURABLE_RETENTION_S * 1_000_000  # older charges may go
            charges.append(Charge(identity=str(len(charges)), cost=cost, charged_at=now, version=tenant.version,
                                  counters=[("pl_a", "")]))  # fmt: skip
        (owned,) = tenant.counters
        assert owned is None or owned.replayed(charges) == owned.counter
        if owned is not None:
            assert msgspec.json.decode(msgspec.json.encode(owned), type=OwnedCounter) == owned


def test_a_months_quota_is_there_again_when_the_month_of_its_zone_begins() -> None:
    """A night of 25 hours is in it, and a gateway's retry may wait for exactly so long."""
    tenant = Tenant(durable(window_ms=None, capacity=10, calendar={"unit": "month", "time_zone": "Europe/Berlin"}))
    october = int(datetime.fromisoformat("2026-10-01T00:00+02:00").timestamp()) * 1_000_000
    november = int(datetime.fromisoformat("2026-11-01T00:00+01:00").timestamp()) * 1_000_000
    assert isinstance(tenant.ask(10, october - 1), Consumption)
    assert isinstance(tenant.ask(10, october), Consumption)
    refused = tenant.ask(1, october + 1)
    assert isinstance(refused, Denial)
    levels: Any = refused.extra["levels"]
    assert [(level.retry_us, level.reset_us) for level in levels] == [(november - october - 1,) * 2]
    assert november - october == (31 * 24 + 1) * 3_600 * 1_000_000
    assert isinstance(tenant.ask(1, november - 1), Denial)
    assert isinstance(tenant.ask(10, november), Consumption)
    assert isinstance(tenant.ask(1, november - 1), Denial)  # a clock that is set back begins no month again


def test_what_is_shown_is_what_the_policy_in_force_leaves() -> None:
    tenant = Tenant(durable(capacity=100))
    tenant.ask(60)
    row = (msgspec.json.encode(tenant.counters[0]).decode(), BASE)

    def shown(*policies: LimitPolicy) -> tuple[int, int, int]:
        (level,) = PolicySet(policies, 1).all_levels()
        found = counted(level, row)
        return found.used, found.remaining, found.version

    assert shown(durable(capacity=100)) == (60, 40, 1)
    assert shown(durable(version=2, capacity=70)) == (60, 10, 2)
    assert shown(durable(version=2, capacity=50)) == (60, 0, 2)
    (level,) = PolicySet([durable(capacity=7)], 1).all_levels()
    assert counted(level, None).remaining == 7
