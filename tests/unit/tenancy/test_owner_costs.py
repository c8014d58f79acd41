"""What tenants cost an owner: whose commands a round had shares its time, and it is kept a minute at a time."""

from __future__ import annotations

from typing import Any

from dataflows.tenancy.owner_costs import OwnerCosts
from schemas.tenancy import limits


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def round_of(costs: OwnerCosts, clock: Clock, took_s: float, *tenants: str, partitions: int = 1) -> None:
    costs.began()
    for one in tenants:
        costs.heard(one)
    clock.now_s += took_s
    for _ in range(partitions):
        costs.committed()


def kept(costs: OwnerCosts) -> list[tuple[Any, ...]]:
    return [tuple(zip(*given[1:], strict=True)) for _, given in stated(costs)]


def stated(costs: OwnerCosts) -> Any:
    return costs.due()


def test_a_round_is_shared_by_its_commands_and_counted_once_for_all_its_partitions() -> None:
    clock = Clock()
    costs = OwnerCosts(clock)
    round_of(costs, clock, 0.3, "tn_a", "tn_a", "tn_b", partitions=2)
    assert kept(costs) == []  # no minute has gone by
    costs.began()
    costs.heard("tn_lost")  # no commit came of it
    clock.now_s += limits.OWNER_COSTS_KEPT_S
    round_of(costs, clock, 0.1, "tn_b")
    costs.began()
    assert kept(costs) == [(("tn_a", 2, 200_000, 0), ("tn_b", 2, 200_000, 0))]
    assert kept(costs) == []  # another partition of the round
    costs.began()  # the round was rolled back: it is told again
    assert len(kept(costs)) == 1
    costs.committed()
    clock.now_s += limits.OWNER_COSTS_KEPT_S
    costs.began()
    assert kept(costs) == []
