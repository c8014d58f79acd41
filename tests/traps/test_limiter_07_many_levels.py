"""Several gateways, several levels, random costs, all at once: what is charged is what was allowed, at every level.

Trap 7 of the limiter: the counter of a tenant is charged although that of its user refuses. Every bucket of the store
is compared when all is quiet, with leases settled; retries are among the requests and cost nothing.
MILLRACE_TEST_SEED plays a failure's seed again.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from schemas.limiter import limits
from tests.seeds import seeds
from tests.worlds.limiter.counter_server import (
    PATIENT_S,
    TEN_MINUTES_MS,
    YEAR_MS,
    CounterServer,
    emptied,
    limiter,
    policy,
    server,
)

if TYPE_CHECKING:
    from pathlib import Path

    from limiter import Decision, Limiter

pytestmark = [pytest.mark.servers, pytest.mark.usefixtures("emptied")]
__all__ = ["emptied", "server"]  # the fixtures of this module
GATEWAYS = 3
REQUESTS = 2_000
AT_ONCE = 250
COST_MAX = 7
RETRIED = 0.1  # of the requests, at the same moment and at the same gateway
TENANTS = 3
USERS, ROUTES = (6, 2, 1, 1), (5, 2, 2)  # how often each asks or is asked for
#: by what a level counts: its capacity; with these shares each is the only one that refuses 15 requests at least
LEVELS = {("tenant",): 600, ("tenant", "user"): 190, ("tenant", "user", "route"): 75, ("tenant", "route"): 230}


class Request(NamedTuple):
    place: tuple[str, str, str]
    cost: int
    identity: str
    gateway: int


def levels(consistency: str, algorithm: str) -> list[Any]:
    terms = {"consistency": consistency, "algorithm": algorithm, "window_ms": YEAR_MS, "failure_mode": "closed"}
    return [
        policy(f"pl_{'_'.join(per)}", capacity=capacity, per=list(per), **terms) for per, capacity in LEVELS.items()
    ]


def requests(random_: random.Random) -> list[Request]:
    return [
        Request(
            (f"t{random_.randrange(TENANTS)}", _one("u", USERS, random_), _one("/r", ROUTES, random_)),
            random_.randint(0, COST_MAX),
            f"r{n}",
            random_.randrange(GATEWAYS),
        )
        for n in range(REQUESTS)
    ]


def _one(kind: str, shares: tuple[int, ...], random_: random.Random) -> str:
    (number,) = random_.choices(range(len(shares)), shares)
    return f"{kind}{number}"


@pytest.mark.parametrize("run_seed", seeds(1))
@pytest.mark.parametrize(
    ("consistency", "algorithm"), [("exact", "fixed_window"), ("exact", "sliding_window"), ("leased", "fixed_window")]
)
def test_every_bucket_is_charged_what_was_allowed(
    server: CounterServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    consistency: str,
    algorithm: str,
    run_seed: int,
) -> None:
    monkeypatch.setattr(limits, "LIMIT_LEASE_MS", TEN_MINUTES_MS)  # none ends by itself however slow this machine is
    random_ = random.Random(run_seed)
    asked = requests(random_)

    async def ask(gateways: list[Limiter], request: Request) -> list[Decision]:
        times = 2 if random_.random() < RETRIED else 1
        check = gateways[request.gateway].check
        return await asyncio.gather(*(check(*request.place, request.cost, request.identity) for _ in range(times)))

    async def test() -> None:
        async with AsyncExitStack() as entered:
            gateways = [
                await entered.enter_async_context(
                    limiter(server.url, tmp_path, *levels(consistency, algorithm), name=f"g{n}", timeout_s=PATIENT_S)
                )
                for n in range(GATEWAYS)
            ]
            charged: Counter[tuple[str, ...]] = Counter()
            refused_by: set[str] = set()
            for at in range(0, REQUESTS, AT_ONCE):
                some = asked[at : at + AT_ONCE]
                found = await asyncio.gather(*(ask(gateways, request) for request in some))
                for request, decided in zip(some, found, strict=True):
                    assert {(d.allowed, d.degraded) for d in decided} == {(decided[0].allowed, False)}
                    parts = dict(zip(("tenant", "user", "route"), request.place, strict=True))
                    for per in LEVELS:
                        charged[*per, *(parts[name] for name in per)] += request.cost * decided[0].allowed
                    refused_by |= {d.policy_id for d in decided if not d.allowed}
            for gateway in gateways:
                for bucket in gateway._buckets.values():
                    bucket.end_lease()
                await gateway.maintain()
            assert await used(gateways[0], asked) == charged
            assert all(amount <= LEVELS[counted[: len(counted) // 2]] for counted, amount in charged.items())
            assert len(refused_by) == len(LEVELS), "a level that never refused proves nothing"
            if consistency == "leased":
                assert sum(gateway.store_calls for gateway in gateways) < REQUESTS, "no lease paid for anything"

    asyncio.run(test())


async def used(gateway: Limiter, asked: list[Request]) -> dict[tuple[str, ...], int]:
    """What the store holds of every bucket of these requests, by what the level counts and for whom."""
    found = {}
    for place in {request.place for request in asked}:
        parts = dict(zip(("tenant", "user", "route"), place, strict=True))
        for bucket in gateway.governed(*place).buckets:
            per = bucket.level.policy.per
            found[*per, *(parts[name] for name in per)] = (await gateway._store.peek(bucket)).used
    return found
